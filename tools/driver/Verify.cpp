//===- Verify.cpp - N ranks against one device ----------------------------===//
#include "tools/driver/Verify.h"

#include "runtime/base/Random.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/facts/IndexCheck.h"
#include "runtime/io/InputSource.h"

#include <cmath>
#include <cstdio>

namespace dpc {

namespace {

constexpr int64_t kSteps = 2;

/// The learning rate of the step after which tensors are compared. It is large,
/// so that updates are at least as large as the weights. The outputs of this
/// step do not depend on it.
constexpr double kVerifyLr = 1;

/// Sets integers that are not indices to values from -3 to 1. Most are
/// negative, so that padding with zeros would change a maximum. None exceeds 1,
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
      rt::fillInput(tensor, stream, port);
      if (!rt::isIndex(port))
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

/// Errors that rounding may cause, relative to the value in each comment.
struct Rounding {
  double output = 2e-4; ///< the largest element of an output
  double own = 2e-4;    ///< the largest element of a state or parameter
  double across = 2e-5; ///< the largest state in all tensors of a slot
  double noise = 1e-5;  ///< the largest moment or change in all tensors
  double ownNoise = 0;  ///< the largest first moment of a tensor
  double ulp = kUlp;    ///< one element
  /// The share of the elements of a state or parameter that may differ more,
  /// because rounding decides whether a relu near zero passes a gradient.
  double outliers = 0;
};

Rounding roundingOf(const rt::Plan &plan, const rt::Plan &reference) {
  // The fields are output, own, across, noise, ownNoise, ulp and outliers. fp8
  // has the largest errors, because each shard has its own scales, and because
  // GEMMs whose sizes fp8 does not support on a rank run in bf16.
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

/// Adds the error of compressed gradients, `compression` times the largest
/// gradient near them. The error of squares is twice as large, and terms may be
/// larger than their sum.
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

/// Measures how much the results of one device change if the last digits of the
/// weights change. Deep models with batch norms and random weights magnify the
/// change a thousandfold, and a relu near zero may or may not pass a gradient.
/// A different order of summation has the same effect.
class Sensitivity {
public:
  void add(const rt::RunResult &reference, const rt::RunResult &nudged) {
    outputs.resize(reference.outputs.size());
    for (size_t step = 0; step < outputs.size(); ++step)
      note(outputs[step], reference.outputs[step], nudged.outputs[step]);
    note(tensors, reference.tensors, nudged.tensors);
  }

  double ofOutput(size_t step, const std::string &name, double scale) const {
    return outputs.empty() ? 0 : bounded(outputs[step].at(name), scale);
  }
  double ofTensor(const std::string &name, double scale) const {
    return tensors.empty() ? 0 : bounded(tensors.at(name), scale);
  }

private:
  std::vector<std::map<std::string, double>> outputs;
  std::map<std::string, double> tensors;

  static void note(std::map<std::string, double> &differences,
                   const NamedTensors &a, const NamedTensors &b) {
    for (const auto &[name, value] : a)
      differences[name] =
          std::max(differences[name], largestDifference(value, b.at(name)));
  }

  /// The tolerance is kSamples times the measured difference, because few runs
  /// were measured. It is at most kMost of the whole, because a mistake (a lost
  /// or doubled term of a sum) is larger.
  static double bounded(double difference, double scale) {
    constexpr double kSamples = 2, kMost = 0.1;
    return std::min(kSamples * difference, kMost * scale);
  }
};

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
  /// The largest state element by slot; key "": the largest parameter change.
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

  /// Returns whether the tensor is a folded table. The names of folded tables
  /// depend on the layout, so only their effect on the outputs is verified.
  static bool isConstant(const rt::Tensor &tensor) {
    return tensor.isConstant();
  }

  const rt::Tensor *momentOf(const rt::Tensor &tensor) const {
    for (const rt::Tensor &state : plan.tensors)
      if (state.of == tensor.name && state.slot == "exp_avg")
        return &state;
    return nullptr;
  }

  double noiseOf(const std::string &name, const rt::HostTensor &moment) const {
    double scale = largest(moment);
    return rounding.noise * largestOf.at("exp_avg") +
           rounding.ownNoise * scale + sensitivity.ofTensor(name, scale);
  }

  /// Returns the uncertainty of an AdamW update: the learning rate times the
  /// gradient divided by its size, at most about twice the learning rate. So
  /// the update is as uncertain as the relative error of the gradient, `noise`
  /// / |moment|, and may have the wrong sign if the moment is below `noise`.
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
    // With fewer elements, one outlier is too large a share.
    constexpr int64_t kMany = 8;
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
               " is not a number on one device, which gets the same random "
               "inputs; --verify=off compiles without the check";
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

static rt::Plan withVerifyLr(rt::Plan plan) {
  plan.lrSchedule = {};
  plan.lrSchedule.lr = kVerifyLr;
  return plan;
}

/// A step that overflows in fp16 would be skipped and verify nothing.
static rt::Plan withVerifyLossScale(rt::Plan plan) {
  constexpr double kLossScale = 64;
  for (rt::Tensor &tensor : plan.tensors)
    if (tensor.role == rt::TensorRole::State && tensor.slot == "scale")
      tensor.value = std::min(tensor.value, kLossScale);
  return plan;
}

/// Changes each float weight by the rounding error of a long sum in fp32 or of
/// the type of GEMMs, whichever is larger.
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

/// Says that a constant loss scale, which --loss-scale chose, makes gradients
/// overflow, so that the step is skipped; otherwise "".
static std::string overflowOf(const rt::Plan &plan, const rt::RunResult &run) {
  bool isDynamic =
      std::ranges::any_of(plan.tensors, [](const rt::Tensor &tensor) {
        return tensor.role == rt::TensorRole::State && tensor.slot == "scale";
      });
  for (const NamedTensors &outputs : run.outputs) {
    auto scale = outputs.find("loss_scale"), skipped = outputs.find("skipped");
    if (!plan.trains || isDynamic || scale == outputs.end() ||
        skipped == outputs.end() || skipped->second.at(0) == 0)
      continue;
    std::string number = withDigits(scale->second.at(0));
    return "--loss-scale=" + number +
           ": gradients overflow on one device with random inputs, so that the "
           "step is skipped and nothing is compared; a smaller scale or "
           "dynamic is accepted, and --verify=off compiles without the check";
  }
  return "";
}

/// Runs both plans for `request.steps` steps from `start`. Compares the
/// outputs, and the tensors if requested.
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
  if (std::string why = overflowOf(reference.plan, *want); !why.empty()) {
    verdict.cannotBeChecked = true;
    return why;
  }
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
  // The sensitivity takes more runs, so it is measured only after a difference.
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

/// Says which weight of `start` holds NaN, which makes all results NaN, or "".
static std::string nanWeight(const rt::Plan &plan, const NamedTensors &start) {
  for (const rt::Tensor &tensor : plan.tensors) {
    auto found = start.find(tensor.name);
    if (found == start.end() || !rt::isFloat(tensor.dtype))
      continue;
    const rt::HostTensor &values = found->second;
    for (int64_t i = 0, e = values.elements(); i < e; ++i)
      if (std::isnan(values.at(i)))
        return "weight '" + tensor.name + "' holds nan (element " +
               std::to_string(i) + ")" +
               (tensor.source ? " in " + tensor.source->file : "") +
               ", so that no result can be checked; --verify=off compiles "
               "without the check";
  }
  return "";
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
  // The driver has checked the names of a file.
  choice->isPartial = true;
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
  if (verdict.cannotBeChecked)
    if (std::string why = nanWeight(one, start->tensors); !why.empty())
      verdict.why = why;
  return verdict;
}

} // namespace dpc
