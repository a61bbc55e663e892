//===- Verify.cpp - N ranks against one device ----------------------------===//
#include "tools/driver/Verify.h"

#include "runtime/base/Random.h"
#include "runtime/exec/RunPlan.h"

#include <cmath>
#include <cstdio>

namespace dpc {

namespace {

constexpr int64_t kSteps = 2;

/// Learning rate of the step after which tensors are compared. It makes updates
/// at least as large as the weights. Outputs of this step do not depend on it.
constexpr double kVerifyLr = 1;

/// Sets integers that are not indices to values from -3 to 1. Most are
/// negative, so that zeros from padding change a maximum. None exceeds 1,
/// because a mask above 1 gives +inf in (1 - mask) * lowest.
void spreadIntegers(rt::HostTensor &tensor, const rt::RandomStream &stream) {
  if (rt::isFloat(tensor.dtype) || tensor.dtype == rt::DType::Bool ||
      tensor.dtype == rt::DType::U8)
    return;
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    tensor.set(i, static_cast<double>(stream.bits(i) % 5) - 3);
}

std::vector<NamedTensors> randomBatches(const rt::Plan &plan) {
  std::vector<NamedTensors> steps;
  for (int64_t step = 0; step < kSteps; ++step) {
    NamedTensors batch;
    for (const rt::Port &port : plan.inputs) {
      rt::HostTensor tensor =
          rt::HostTensor::zeros(port.dtype, port.globalShape);
      rt::RandomStream stream(step + 1, port.name);
      rt::fillRandom(tensor, stream, 1.0, port.limit);
      if (port.limit == 0)
        spreadIntegers(tensor, stream);
      batch[port.name] = std::move(tensor);
    }
    steps.push_back(std::move(batch));
  }
  return steps;
}

std::string withDigits(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

double largest(const rt::HostTensor &tensor) {
  double result = 0;
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    result = std::max(result, std::abs(tensor.at(i)));
  return result;
}

/// Twice the relative rounding error of fp32.
constexpr double kUlp = 1.2e-7;

/// Relative errors that rounding may cause.
struct Rounding {
  double output = 2e-4; ///< Of the largest element of an output.
  double own = 2e-4;    ///< Of the largest element of a state or parameter.
  double across = 2e-5; ///< Of the largest state of a kind.
  double noise = 1e-5;  ///< Of the largest first moment, or change, of all.
  double ownNoise = 0;  ///< Of the largest first moment of the tensor.
  double ulp = kUlp;    ///< Of one element.
  /// Share of the elements of a state or parameter that may differ more,
  /// because rounding decides whether a relu near zero passes a gradient.
  double outliers = 0;
};

/// Rounding with GEMMs in the narrowest type of the plans. The layout decides
/// which terms are summed together.
Rounding roundingOf(const rt::Plan &plan, const rt::Plan &reference) {
  // The fields are output, own, across, noise, ownNoise, ulp and outliers.
  // Each shard has its own scales, and some GEMMs stay in bf16: in the plan
  // perhaps all GEMMs, but not on one device.
  if (rt::hasFp8(plan) || rt::hasFp8(reference))
    return {6e-2, 4e-1, 6e-3, 2e-2, 4e-1, 0x1p-8, 1e-1};
  auto uses = [&](rt::DType type) {
    return std::ranges::any_of(plan.buffers, [&](const rt::Buffer &buffer) {
      return buffer.dtype == type;
    });
  };
  if (uses(rt::DType::BF16))
    return {3e-2, 2e-1, 3e-3, 1e-2, 2e-1, 0x1p-8, 5e-2};
  if (uses(rt::DType::F16))
    return {4e-3, 2e-2, 4e-4, 1e-3, 2e-2, 0x1p-11, 1e-2};
  return {};
}

/// Adds gradients that are off by `compression` of the largest near them:
/// squares are off by twice as much, and terms may be larger than their sum.
Rounding roundingOf(const rt::Plan &plan, const rt::Plan &reference,
                    double compression) {
  Rounding rounding = roundingOf(plan, reference);
  rounding.output += compression;
  rounding.own += 4 * compression;
  rounding.across += compression / 5;
  rounding.noise += 2 * compression;
  return rounding;
}

double largestDifference(const rt::HostTensor &a, const rt::HostTensor &b) {
  double result = 0;
  for (int64_t i = 0, e = a.elements(); i < e; ++i)
    result = std::max(result, std::abs(a.at(i) - b.at(i)));
  return result;
}

/// The effect of changes in the last digits of the weights on one device. Deep
/// models with batch norms and random weights magnify them a thousandfold, and
/// a relu near zero passes a gradient or not. Summing in a different order has
/// the same effect.
class Sensitivity {
public:
  /// Adds one run from changed weights.
  void add(const rt::RunResult &reference, const rt::RunResult &nudged) {
    outputs.resize(reference.outputs.size());
    for (size_t step = 0; step < outputs.size(); ++step)
      note(outputs[step], reference.outputs[step], nudged.outputs[step]);
    note(tensors, reference.tensors, nudged.tensors);
  }

  /// The uncertainty of an output with elements up to `scale`; 0 before add().
  double ofOutput(size_t step, const std::string &name, double scale) const {
    return outputs.empty() ? 0 : bounded(outputs[step].at(name), scale);
  }
  double ofTensor(const std::string &name, double scale) const {
    return tensors.empty() ? 0 : bounded(tensors.at(name), scale);
  }

private:
  /// The largest difference of an element in any run, by step and name.
  std::vector<std::map<std::string, double>> outputs;
  std::map<std::string, double> tensors;

  static void note(std::map<std::string, double> &differences,
                   const NamedTensors &a, const NamedTensors &b) {
    for (const auto &[name, value] : a)
      differences[name] =
          std::max(differences[name], largestDifference(value, b.at(name)));
  }

  /// A few runs are only samples. An error in a plan (a lost or doubled term of
  /// a sum) exceeds kMost of the whole.
  static double bounded(double difference, double scale) {
    constexpr double kSamples = 2, kMost = 0.1;
    return std::min(kSamples * difference, kMost * scale);
  }
};

/// Compares a run with the reference run, which starts with `start`.
class Comparison {
public:
  Comparison(const rt::Plan &plan, const rt::RunResult &got,
             const rt::RunResult &want, const NamedTensors &start,
             const Sensitivity &sensitivity, Verdict &verdict,
             const Rounding &rounding)
      : plan(plan), got(got), want(want), start(start),
        sensitivity(sensitivity), verdict(verdict), rounding(rounding) {
    for (const rt::Tensor &tensor : plan.tensors) {
      auto found = want.tensors.find(tensor.name);
      if (found == want.tensors.end())
        continue;
      if (tensor.role == rt::TensorRole::State)
        note(tensor.slot, largest(found->second));
      else if (auto first = start.find(tensor.name); first != start.end())
        note("", largestDifference(found->second, first->second));
    }
  }

  /// Outputs of all steps.
  std::string compareOutputs() const {
    for (size_t step = 0; step < want.outputs.size(); ++step)
      for (const auto &[name, value] : want.outputs[step]) {
        auto found = got.outputs[step].find(name);
        std::string where =
            "output '" + name + "' of step " + std::to_string(step + 1);
        if (found == got.outputs[step].end())
          return where + " is missing";
        double scale = largest(value),
               tolerance = rounding.output * scale + 1e-6 +
                           sensitivity.ofOutput(step, name, scale);
        ++verdict.outputs;
        std::string why = compare(where, found->second, value,
                                  [&](int64_t) { return tolerance; });
        if (!why.empty())
          return why;
        noteError(found->second, value, scale);
      }
    return "";
  }

  /// Parameters, buffers and states after one step.
  std::string compareTensors() const {
    for (const rt::Tensor &tensor : plan.tensors) {
      std::string why = isConstant(tensor) ? "" : compareTensor(tensor);
      if (!why.empty())
        return why;
    }
    return "";
  }

private:
  const rt::Plan &plan;
  const rt::RunResult &got, &want;
  const NamedTensors &start;
  const Sensitivity &sensitivity;
  Verdict &verdict;
  Rounding rounding;
  /// The largest element of all states of a slot; under "" the largest change
  /// of a parameter.
  std::map<std::string, double> largestOf;

  void note(const std::string &slot, double value) {
    largestOf[slot] = std::max(largestOf[slot], value);
  }

  void noteError(const rt::HostTensor &a, const rt::HostTensor &b,
                 double scale) const {
    for (int64_t i = 0, e = scale > 0 ? b.elements() : 0; i < e; ++i)
      verdict.outputError =
          std::max(verdict.outputError, std::abs(a.at(i) - b.at(i)) / scale);
  }

  /// Whether the tensor is a folded table. The names of folded tables depend on
  /// the layout, so they are not compared; errors in them show in the outputs.
  static bool isConstant(const rt::Tensor &tensor) {
    return tensor.source && tensor.source->file == "constants.bin";
  }

  /// The first moment of an AdamW parameter, or null.
  const rt::Tensor *momentOf(const rt::Tensor &tensor) const {
    for (const rt::Tensor &state : plan.tensors)
      if (state.of == tensor.name && state.slot == "exp_avg")
        return &state;
    return nullptr;
  }

  /// The uncertainty of the first moments of a gradient.
  double noiseOf(const std::string &name, const rt::HostTensor &moment) const {
    double scale = largest(moment);
    return rounding.noise * largestOf.at("exp_avg") +
           rounding.ownNoise * scale + sensitivity.ofTensor(name, scale);
  }

  /// The uncertainty of an AdamW update. The update divides the gradient, which
  /// is uncertain by `noise`, by its size, and is at most about twice the
  /// learning rate. So it is as uncertain as the relative error of the
  /// gradient.
  static double roundedUpdate(double moment, double noise) {
    double share = std::abs(moment) <= noise ? 1.0 : noise / std::abs(moment);
    return 4 * kVerifyLr * share;
  }

  std::string compareTensor(const rt::Tensor &tensor) const {
    std::string where = "tensor '" + tensor.name + "'";
    ++verdict.tensors;
    auto reference = want.tensors.find(tensor.name);
    const rt::HostTensor &a = got.tensors.at(tensor.name);
    if (tensor.slot == "residual") {
      if (largest(a) == 0)
        return "";
      return where + " is not zero, although all of the gradient is sent";
    }
    if (reference == want.tensors.end())
      return where + " is not in the plan for one device";
    const rt::HostTensor &b = reference->second;
    if (tensor.role == rt::TensorRole::State) {
      double tolerance = rounding.own * largest(b) +
                         rounding.across * largestOf.at(tensor.slot) +
                         sensitivity.ofTensor(tensor.name, largest(b));
      return compare(where, a, b, [&](int64_t) { return tolerance; });
    }
    return compareUpdated(tensor, a, b, where);
  }

  /// Compares a parameter or buffer relative to its change in the step.
  std::string compareUpdated(const rt::Tensor &tensor, const rt::HostTensor &a,
                             const rt::HostTensor &b,
                             const std::string &where) const {
    const rt::HostTensor &before = start.at(tensor.name);
    double change = largestDifference(b, before);
    double tolerance = rounding.own * change +
                       2 * rounding.ulp * std::max(largest(b), largest(before));
    const rt::Tensor *state = momentOf(tensor);
    if (!state) {
      tolerance += rounding.noise * largestOf.at("") +
                   sensitivity.ofTensor(tensor.name, change);
      return compare(where, a, b, [&](int64_t) { return tolerance; });
    }
    const rt::HostTensor &moment = want.tensors.at(state->name);
    double noise = noiseOf(state->name, moment);
    return compare(where, a, b, [&](int64_t i) {
      return tolerance + roundedUpdate(moment.at(i), noise);
    });
  }

  int64_t outliersOf(const rt::HostTensor &tensor) const {
    constexpr int64_t kMany =
        8; // In a tensor with fewer elements, one outlier is too large a share.
    return rounding.outliers > 0 && tensor.elements() >= kMany
               ? std::max<int64_t>(
                     1, static_cast<int64_t>(rounding.outliers *
                                             double(tensor.elements())))
               : 0;
  }

  template <typename Tolerance>
  std::string compare(const std::string &where, const rt::HostTensor &a,
                      const rt::HostTensor &b, Tolerance allowed) const {
    if (a.shape != b.shape)
      return where + " has shape " + rt::describe(a.dtype, a.shape) +
             ", one device has " + rt::describe(b.dtype, b.shape);
    int64_t outliers = where.rfind("tensor", 0) == 0 ? outliersOf(b) : 0;
    for (int64_t i = 0, e = b.elements(); i < e; ++i) {
      verdict.cannotBeChecked = std::isnan(b.at(i));
      if (verdict.cannotBeChecked)
        return where + " cannot be checked: element " + std::to_string(i) +
               " is not a number on one device either, with random inputs; "
               "--verify=off compiles without the check";
      bool agrees =
          a.at(i) == b.at(i) || std::abs(a.at(i) - b.at(i)) <= allowed(i);
      if (!agrees && !std::isnan(a.at(i)) && outliers-- > 0)
        continue;
      if (!agrees)
        return where + " differs from one device: element " +
               std::to_string(i) + " is " + withDigits(a.at(i)) + ", not " +
               withDigits(b.at(i));
      if (a.at(i) != b.at(i))
        verdict.toleranceShare = std::max(
            verdict.toleranceShare, std::abs(a.at(i) - b.at(i)) / allowed(i));
    }
    return "";
  }
};

} // namespace

/// `plan` with a constant learning rate.
static rt::Plan withVerifyLr(rt::Plan plan) {
  plan.lrSchedule = {};
  plan.lrSchedule.lr = kVerifyLr;
  return plan;
}

/// `plan` with a loss scale that is small enough to avoid overflows in fp16. A
/// skipped step would verify nothing.
static rt::Plan withVerifyLossScale(rt::Plan plan) {
  constexpr double kLossScale = 64;
  for (rt::Tensor &tensor : plan.tensors)
    if (tensor.role == rt::TensorRole::State && tensor.slot == "scale")
      tensor.value = std::min(tensor.value, kLossScale);
  return plan;
}

/// `weights` with each float changed by the rounding of a long sum in fp32, or
/// by that of the type of GEMMs.
static NamedTensors nudged(NamedTensors weights, const rt::Plan &plan,
                           uint64_t seed) {
  constexpr double kRoundedSum = 16 * kUlp;
  double nudge = std::max(kRoundedSum, roundingOf(plan, plan).ulp);
  for (const rt::Tensor &tensor : plan.tensors) {
    auto found = weights.find(tensor.name);
    if (found == weights.end() || tensor.role == rt::TensorRole::State ||
        !rt::isFloat(tensor.dtype))
      continue;
    rt::HostTensor &values = found->second;
    rt::RandomStream stream(seed, "nudge of " + tensor.name);
    for (int64_t i = 0, e = values.elements(); i < e; ++i)
      values.set(i,
                 values.at(i) * (stream.bits(i) % 2 ? 1 + nudge : 1 - nudge));
  }
  return weights;
}

/// Runs both plans for `request.steps` from `start` and compares the outputs,
/// and with `tensors` also the tensors.
static std::string compareRuns(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const rt::RunRequest &request,
                               const NamedTensors &start, bool tensors,
                               Verdict &verdict) {
  auto got = rt::runPlan(plan.plan, plan.dir, request);
  if (!got)
    return "the plan does not run: " + got.status().message();
  auto want = rt::runPlan(reference.plan, reference.dir, request);
  verdict.cannotBeChecked = !want;
  if (!want)
    return "the plan for one device does not run: " + want.status().message();
  Rounding rounding = roundingOf(plan.plan, reference.plan, plan.compression);
  auto compared = [&](const Sensitivity &sensitivity) {
    Comparison comparison(plan.plan, *got, *want, start, sensitivity, verdict,
                          rounding);
    std::string why = comparison.compareOutputs();
    return why.empty() && tensors ? comparison.compareTensors() : why;
  };
  const Verdict before = verdict;
  std::string why = compared({});
  if (why.empty() || verdict.cannotBeChecked)
    return why;
  // Measuring the sensitivity takes more runs, so it is measured only after a
  // difference was found.
  Sensitivity sensitivity;
  for (uint64_t seed : {1, 2, 3}) {
    rt::RunRequest again = request;
    again.tensors = nudged(start, reference.plan, seed);
    auto near = rt::runPlan(reference.plan, reference.dir, again);
    if (!near)
      return why;
    sensitivity.add(*want, *near);
  }
  verdict = before;
  std::string still = compared(sensitivity);
  verdict.isSensitive |= still.empty();
  return still;
}

Verdict verifyAgainstOneDevice(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const std::string &init,
                               const NamedTensors &given) {
  Verdict verdict;
  auto choice = rt::InitChoice::parse(init.empty() ? "random:1" : init);
  if (!choice) {
    verdict.why = choice.status().message();
    return verdict;
  }
  rt::RunRequest request;
  request.inputs = randomBatches(plan.plan);
  request.poison = true;
  request.init = *choice;
  request.tensors = given;
  request.steps = 0;
  auto start = rt::runPlan(reference.plan, reference.dir, request);
  if (!start) {
    verdict.cannotBeChecked = true;
    verdict.why =
        "the plan for one device does not run: " + start.status().message();
    return verdict;
  }
  request.steps = 1;
  rt::Plan own = withVerifyLossScale(plan.plan),
           single = withVerifyLossScale(reference.plan);
  rt::Plan fast = withVerifyLr(own), one = withVerifyLr(single);
  verdict.why =
      compareRuns({fast, plan.dir, plan.compression}, {one, reference.dir},
                  request, start->tensors, true, verdict);
  request.steps = kSteps;
  if (verdict.ok())
    verdict.why =
        compareRuns({own, plan.dir, plan.compression}, {single, reference.dir},
                    request, start->tensors, false, verdict);
  return verdict;
}

} // namespace dpc
