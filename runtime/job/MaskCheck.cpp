#include "runtime/job/MaskCheck.h"

#include "runtime/base/OneLine.h"
#include "runtime/data/Dataset.h"
#include "runtime/job/RankZero.h"
#include "runtime/observe/NumberGuard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dpc {

using namespace rt;

StepNumbers numbersHere(const Plan &plan, const Session &session,
                        const std::vector<StepOutput> &others,
                        int64_t counted) {
  StepNumbers numbers;
  if (int loss = findLoss(plan); loss >= 0)
    numbers.loss = session.outputs()[loss].at(0);
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (isOfUpdate(plan, plan.outputs[i]) &&
        plan.outputs[i].name == "grad_norm")
      numbers.gradient = session.outputs()[i].at(0);
  numbers.others = numbersOf(others, session, counted);
  return numbers;
}

Expected<StepNumbers> numbersEverywhere(const Plan &plan, Session &session,
                                        const std::vector<StepOutput> &others,
                                        int64_t counted) {
  StepNumbers own = numbersHere(plan, session, others, counted);
  std::vector<double> all = {own.loss, own.gradient};
  all.insert(all.end(), own.others.begin(), own.others.end());
  DPC_ASSIGN(all, listOfRankZero(session, all));
  return StepNumbers{all[0], all[1], {all.begin() + 2, all.end()}};
}

namespace {

class Labels {
public:
  Labels(const Port &port, const IgnoredLabels &ignored, const void *array)
      : ignored(ignored),
        values(HostTensor::zeros(port.dtype, port.globalShape)) {
    std::memcpy(values.data.data(), array, values.data.size());
    samples = port.globalShape.front();
    each = values.elements() / samples;
    for (int64_t i = 0; i < samples && sample.empty(); ++i)
      if (hasLabel(i))
        sample.assign(at(i), at(i) + bytes());
    hasAny = !sample.empty();
    if (!hasAny) {
      double label = static_cast<double>(
          port.first == ignored.value ? port.first + 1 : port.first);
      for (int64_t k = 0; k < each; ++k)
        values.set(k, label);
      sample.assign(at(0), at(0) + bytes());
    }
  }

  bool any() const { return hasAny; }

  /// Returns labels in which the samples [begin, end) have the labels of the
  /// first labeled sample, or else the first label that counts, and all other
  /// labels have the ignored value.
  const void *of(int64_t begin, int64_t end) {
    for (int64_t i = 0; i < samples; ++i) {
      if (i >= begin && i < end)
        std::memcpy(at(i), sample.data(), sample.size());
      for (int64_t k = i * each; (i < begin || i >= end) && k < (i + 1) * each;
           ++k)
        values.set(k, static_cast<double>(ignored.value));
    }
    return values.data.data();
  }

private:
  IgnoredLabels ignored;
  HostTensor values;
  int64_t samples, each;
  bool hasAny = false;
  std::vector<char> sample; ///< the labels of a sample with labels

  size_t bytes() const { return values.data.size() / samples; }
  char *at(int64_t i) {
    return reinterpret_cast<char *>(values.data.data()) + i * bytes();
  }
  bool hasLabel(int64_t i) const {
    for (int64_t k = i * each; k < (i + 1) * each; ++k)
      if (values.at(k) != static_cast<double>(ignored.value))
        return true;
    return false;
  }
};

} // namespace

double roundingOf(const Plan &plan, int64_t labels) {
  constexpr double kRounding16 = 1e-3, kRounding32 = 0x1p-23;
  bool has16 = std::any_of(
      plan.buffers.begin(), plan.buffers.end(), [](const Buffer &buffer) {
        return buffer.dtype == DType::F16 || buffer.dtype == DType::BF16;
      });
  return has16 || hasFp8(plan)
             ? kRounding16
             : kRounding32 * (16 + std::sqrt(static_cast<double>(labels)));
}

bool isMeanOf(double all, double share, double part, double rest,
              double rounding) {
  double first = share * part, second = (1 - share) * rest;
  return std::abs(first + second - all) <=
         rounding * (std::abs(first) + std::abs(second));
}

namespace {

/// The loss or another output of which a step has one number.
struct Checked {
  std::string name;            ///< "loss", "output 'accuracy'"
  std::optional<size_t> other; ///< in StepNumbers::others
  bool isPerSample = false;
  Status status = Status(); ///< the first failure

  double of(const StepNumbers &numbers) const {
    return other ? numbers.others[*other] : numbers.loss;
  }
};

/// The loss, then other outputs.
class CheckedOutputs {
public:
  CheckedOutputs(const Plan &plan, const std::vector<StepOutput> &others) {
    all.push_back({"loss", std::nullopt});
    for (size_t i = 0; i < others.size(); ++i)
      all.push_back(
          {concat("output '", oneLine(plan.outputs[others[i].index].name), "'"),
           i, others[i].isPerSample});
  }

  /// Calls check(output) for each one that has not failed.
  template <typename Check> void forEach(const Check &check) {
    for (Checked &output : all)
      if (output.status.ok())
        output.status = check(output);
  }
  const Status &lossStatus() const { return all.front().status; }
  std::vector<Status> otherStatuses() const {
    std::vector<Status> statuses;
    for (size_t i = 1; i < all.size(); ++i)
      statuses.push_back(all[i].status);
    return statuses;
  }

private:
  std::vector<Checked> all;
};

} // namespace

/// Checks that outputs are the mean over labels that are not ignored. `index`
/// is the input with the labels.
static Status checkMean(const Plan &plan, const MaskedStep &step, size_t index,
                        const NumbersOf &numbersOf, const std::string &remedy,
                        CheckedOutputs &outputs) {
  const auto &[ignored, counted, arrays] = step;
  int64_t perStep = samplesPerStep(plan);
  Labels labels(plan.inputs[index], ignored, arrays[index]);
  // A training step without labels has no gradient.
  if (!labels.any() && plan.trains)
    return Status::invalid("all labels of a step in '", ignored.input,
                           "' have the ignored value ", ignored.value);
  const std::pair<int64_t, int64_t> ranges[] = {
      {0, perStep}, {0, counted}, {counted, perStep}};
  std::vector<StepNumbers> numbers;
  for (auto [begin, end] : ranges) {
    std::vector<const void *> inputs = arrays;
    inputs[index] = labels.of(begin, end);
    DPC_ASSIGN(StepNumbers made, numbersOf(inputs));
    numbers.push_back(std::move(made));
  }
  if (!std::isfinite(numbers[0].loss)) // --on-nan is for such runs
    return Status::success();
  double share = static_cast<double>(counted) / static_cast<double>(perStep);
  double rounding =
      roundingOf(plan, numElements(plan.inputs[index].globalShape));
  outputs.forEach([&](const Checked &output) {
    double all = output.of(numbers[0]), first = output.of(numbers[1]),
           rest = output.of(numbers[2]);
    if (output.isPerSample || isMeanOf(all, share, first, rest, rounding))
      return Status::success();
    return Status::invalid(
        "the last step is filled with ", perStep - counted,
        perStep - counted == 1 ? " sample" : " samples", " whose labels '",
        ignored.input, "' are ", ignored.value, ", but the ", output.name,
        " counts them: it is no mean over the other labels (", all, " for all ",
        perStep, " samples, ", first, " for the first ", counted, ", ", rest,
        " for the others); ", remedy);
  });
  return outputs.lossStatus();
}

namespace {

/// Other samples in the place of those that only fill a step.
enum class Filler { Counted, Zeros };

/// The inputs of a step, with other samples that fill it. The labels stay.
class Filled {
public:
  Filled(const Plan &plan, const MaskedStep &step, size_t labels,
         Filler filler) {
    int64_t perStep = samplesPerStep(plan), counted = step.counted;
    const std::vector<const void *> &arrays = step.arrays;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Port &port = plan.inputs[i];
      HostTensor &made =
          inputs.emplace_back(HostTensor::zeros(port.dtype, port.globalShape));
      size_t all = made.data.size(), each = all / perStep;
      std::memcpy(made.data.data(), arrays[i],
                  i == labels ? all : each * counted);
      if (filler == Filler::Counted && i != labels)
        for (int64_t sample = counted; sample < perStep; ++sample)
          std::memcpy(made.data.data() + sample * each,
                      made.data.data() + (sample - counted) % counted * each,
                      each);
    }
  }

  std::vector<const void *> arrays() const {
    std::vector<const void *> pointers;
    pointers.reserve(inputs.size());
    for (const HostTensor &input : inputs)
      pointers.push_back(input.data.data());
    return pointers;
  }

private:
  std::vector<HostTensor> inputs;
};

} // namespace

/// Returns true if `a` and `b` are equal to a few units in the last place of
/// f32. An fp8 GEMM scales by the largest value of all samples of a rank, so
/// that other samples change the rounding.
static bool areSame(const Plan &plan, double a, double b) {
  double rounding = hasFp8(plan) ? 5e-3 : 4 * 0x1p-23;
  return a == b || (std::isnan(a) && std::isnan(b)) ||
         std::abs(a - b) <= rounding * std::abs(a);
}

/// Returns an error if `own` and `other`, a number `what` of the step, differ.
static Status compareFilled(const Plan &plan, const std::string &what,
                            Filler filler, double own, double other,
                            const std::string &labels,
                            const std::string &remedy) {
  if (areSame(plan, own, other))
    return Status::success();
  return Status::invalid(
      "the ", what,
      " depends on samples that only fill the step, although their '", labels,
      "' are ignored (", spell(own, "%.9g"), " with the last sample repeated, ",
      spell(other, "%.9g"), " with ",
      filler == Filler::Zeros ? "zeros" : "the other samples", "); ", remedy);
}

/// Checks that the numbers of a step do not depend on the samples that fill it.
/// `labels` is the input with the labels.
static Status checkFillers(const Plan &plan, const MaskedStep &step,
                           size_t labels, const NumbersOf &numbersOf,
                           const std::string &remedy, CheckedOutputs &outputs) {
  DPC_ASSIGN(StepNumbers own, numbersOf(step.arrays));
  const std::string &name = plan.inputs[labels].name;
  for (Filler filler : {Filler::Counted, Filler::Zeros}) {
    Filled filled(plan, step, labels, filler);
    DPC_ASSIGN(StepNumbers other, numbersOf(filled.arrays()));
    // A model need not compute anything from zeros.
    auto needsNot = [&](double before, double after) {
      return filler == Filler::Zeros && std::isfinite(before) &&
             !std::isfinite(after);
    };
    bool hasNumbers = !needsNot(own.loss, other.loss) &&
                      !needsNot(own.gradient, other.gradient);
    bool isFinite = std::isfinite(own.loss);
    outputs.forEach([&](const Checked &output) {
      double before = output.of(own), after = output.of(other);
      if (output.other ? needsNot(before, after) : !isFinite || !hasNumbers)
        return Status::success();
      return compareFilled(plan, output.name, filler, before, after, name,
                           remedy);
    });
    DPC_TRY(outputs.lossStatus());
    if (isFinite && hasNumbers)
      DPC_TRY(compareFilled(plan, "gradient", filler, own.gradient,
                            other.gradient, name, remedy));
  }
  return Status::success();
}

Expected<std::vector<Status>>
checkMask(const Plan &plan, const MaskedStep &step, const NumbersOf &numbersOf,
          const std::string &remedy, const std::vector<StepOutput> &others) {
  const std::string &name = step.ignored.input;
  auto port =
      std::find_if(plan.inputs.begin(), plan.inputs.end(),
                   [&](const Port &input) { return input.name == name; });
  if (port == plan.inputs.end())
    return Status::invalid("the plan has no input '", name, "'");
  size_t labels = port - plan.inputs.begin();
  CheckedOutputs outputs(plan, others);
  DPC_TRY(checkMean(plan, step, labels, numbersOf, remedy, outputs));
  DPC_TRY(checkFillers(plan, step, labels, numbersOf, remedy, outputs));
  return outputs.otherStatuses();
}

} // namespace dpc
