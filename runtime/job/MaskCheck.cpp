#include "runtime/job/MaskCheck.h"

#include "runtime/data/Dataset.h"
#include "runtime/observe/NumberGuard.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dpc {

using namespace rt;

/// Returns the index of the output `name` of one value, or -1.
static int findScalar(const Plan &plan, const std::string &name) {
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (const Port &output = plan.outputs[i];
        output.name == name && numElements(output.globalShape) == 1)
      return static_cast<int>(i);
  return -1;
}

int findLoss(const Plan &plan) {
  bool hasDefault = plan.trains || plan.lossOutput.empty();
  int loss = hasDefault ? findScalar(plan, "loss") : -1;
  return loss < 0 && !plan.lossOutput.empty()
             ? findScalar(plan, plan.lossOutput)
             : loss;
}

Expected<StepNumbers> numbersEverywhere(const Plan &plan, Session &session) {
  StepNumbers numbers;
  int index = findLoss(plan);
  if (index >= 0 && session.holdsRankZero())
    numbers.loss = session.outputs()[index].at(0);
  if (const HostTensor *norm = session.output("grad_norm");
      norm && norm->elements() == 1 && session.holdsRankZero())
    numbers.gradient = norm->at(0);
  DPC_ASSIGN(auto bytes, session.fromRankZero([&]() -> Expected<std::string> {
    return std::string(reinterpret_cast<const char *>(&numbers),
                       sizeof numbers);
  }));
  std::memcpy(&numbers, bytes.data(), sizeof numbers);
  return numbers;
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
  }

  bool any() const { return !sample.empty(); }

  /// Returns labels in which the samples [begin, end) have the labels of the
  /// first labeled sample, and all other labels have the ignored value.
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
  std::vector<char> sample; ///< labels of the first labeled sample

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
  double largest = std::max({std::abs(all), std::abs(part), std::abs(rest)});
  return std::abs(share * part + (1 - share) * rest - all) <=
         rounding * largest;
}

/// Checks that the loss is the mean over labels that are not ignored. `index`
/// is the input with the labels.
static Status checkMean(const Plan &plan, const MaskedStep &step, size_t index,
                        const NumbersOf &numbersOf, const std::string &remedy) {
  const auto &[ignored, counted, arrays] = step;
  int64_t perStep = samplesPerStep(plan);
  Labels labels(plan.inputs[index], ignored, arrays[index]);
  if (!labels.any())
    return Status::invalid("all labels of a step in '", ignored.input,
                           "' have the ignored value ", ignored.value);
  const std::pair<int64_t, int64_t> ranges[] = {
      {0, perStep}, {0, counted}, {counted, perStep}};
  std::vector<double> losses;
  for (auto [begin, end] : ranges) {
    std::vector<const void *> inputs = arrays;
    inputs[index] = labels.of(begin, end);
    DPC_ASSIGN(StepNumbers numbers, numbersOf(inputs));
    losses.push_back(numbers.loss);
  }
  double share = static_cast<double>(counted) / static_cast<double>(perStep);
  if (isMeanOf(losses[0], share, losses[1], losses[2],
               roundingOf(plan, numElements(plan.inputs[index].globalShape))))
    return Status::success();
  return Status::invalid("the loss is not the mean over labels other than ",
                         ignored.value, " in '", ignored.input, "': it is ",
                         losses[0], " for all ", perStep, " samples, ",
                         losses[1], " for the first ", counted, " and ",
                         losses[2], " for the others; ", remedy);
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

/// Checks that the numbers of a step do not depend on the samples that fill it.
/// `labels` is the input with the labels.
static Status checkFillers(const Plan &plan, const MaskedStep &step,
                           size_t labels, const NumbersOf &numbersOf,
                           const std::string &remedy) {
  DPC_ASSIGN(StepNumbers own, numbersOf(step.arrays));
  if (!std::isfinite(own.loss)) // --on-nan is for such runs
    return Status::success();
  for (Filler filler : {Filler::Counted, Filler::Zeros}) {
    Filled filled(plan, step, labels, filler);
    DPC_ASSIGN(StepNumbers other, numbersOf(filled.arrays()));
    // A model need not compute anything from zeros.
    bool hasNumbers =
        std::isfinite(other.loss) &&
        (std::isfinite(other.gradient) || !std::isfinite(own.gradient));
    if (filler == Filler::Zeros && !hasNumbers)
      continue;
    bool isLoss = !areSame(plan, own.loss, other.loss);
    if (!isLoss && areSame(plan, own.gradient, other.gradient))
      continue;
    return Status::invalid(
        "the ", isLoss ? "loss" : "gradient",
        " depends on samples that only fill the step, although their '",
        plan.inputs[labels].name, "' are ignored (",
        spell(isLoss ? own.loss : own.gradient, "%.9g"),
        " with the last sample repeated, ",
        spell(isLoss ? other.loss : other.gradient, "%.9g"), " with ",
        filler == Filler::Zeros ? "zeros" : "the other samples", "); ", remedy);
  }
  return Status::success();
}

Status checkMask(const Plan &plan, const MaskedStep &step,
                 const NumbersOf &numbersOf, const std::string &remedy) {
  const std::string &name = step.ignored.input;
  auto port =
      std::find_if(plan.inputs.begin(), plan.inputs.end(),
                   [&](const Port &input) { return input.name == name; });
  if (port == plan.inputs.end())
    return Status::invalid("the plan has no input '", name, "'");
  size_t labels = port - plan.inputs.begin();
  DPC_TRY(checkMean(plan, step, labels, numbersOf, remedy));
  return checkFillers(plan, step, labels, numbersOf, remedy);
}

} // namespace dpc
