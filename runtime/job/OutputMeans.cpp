#include "runtime/job/OutputMeans.h"

#include "runtime/job/RankZero.h"
#include "runtime/job/Samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dpc {

using namespace rt;

/// The most steps that tell() computes after a pass, and in the whole run. An
/// output that never depends on labels, such as a balance loss, needs them all.
static constexpr size_t kMostSteps = 4;
static constexpr int64_t kMostTries = 12;

CountedLabels::CountedLabels(const RunOptions &options, const Plan &plan) {
  std::optional<IgnoredLabels> labels = labelsToIgnore(options, plan);
  for (size_t i = 0; labels && i < plan.inputs.size(); ++i)
    if (const Port &input = plan.inputs[i];
        input.name == labels->input &&
        (input.ignored || !options.ignoredLabel.empty())) {
      index = i;
      port = input;
      ignored = labels->value;
    }
}

HostTensor
CountedLabels::labelsOf(const std::vector<const void *> &arrays) const {
  HostTensor labels = HostTensor::zeros(port.dtype, port.globalShape);
  std::memcpy(labels.data.data(), arrays[*index], labels.data.size());
  return labels;
}

std::vector<int64_t>
CountedLabels::in(const std::vector<const void *> &arrays) const {
  HostTensor labels = labelsOf(arrays);
  std::vector<int64_t> positions;
  for (int64_t k = 0; k < labels.elements(); ++k)
    if (labels.at(k) != static_cast<double>(ignored))
      positions.push_back(k);
  return positions;
}

HostTensor CountedLabels::part(const std::vector<const void *> &arrays,
                               const std::vector<int64_t> &positions,
                               size_t begin, size_t end) const {
  HostTensor labels = labelsOf(arrays);
  for (size_t i = 0; i < positions.size(); ++i)
    if (i < begin || i >= end)
      labels.set(positions[i], static_cast<double>(ignored));
  return labels;
}

OutputMeans::OutputMeans(const RunOptions &options, const Plan &plan,
                         const std::vector<StepOutput> &others)
    : labels(options, plan), outputs(1 + others.size()), triesLeft(kMostTries) {
  for (size_t i = 0; i < others.size(); ++i)
    if (others[i].isPerSample)
      outputs[1 + i].over = Over::Samples;
}

void OutputMeans::restart() {
  for (Output &output : outputs)
    output.bySamples = output.byLabels = WeightedMean();
  hasIgnored = false;
  mixed.clear();
  full.clear();
}

void OutputMeans::add(int64_t step, const std::vector<const void *> &arrays,
                      int64_t samples, const StepNumbers &numbers) {
  int64_t counted =
      labels.exist() ? static_cast<int64_t>(labels.in(arrays).size()) : 0;
  for (size_t i = 0; i < outputs.size(); ++i) {
    double number = i == 0 ? numbers.loss : numbers.others[i - 1];
    outputs[i].bySamples.add(number, samples);
    outputs[i].byLabels.add(number, counted);
  }
  if (!labels.exist())
    return;
  hasIgnored |= counted < labels.all();
  std::vector<int64_t> &steps = counted < labels.all() ? mixed : full;
  if (counted >= 2 && steps.size() < kMostSteps)
    steps.push_back(step);
}

bool OutputMeans::areKnown() const {
  return std::none_of(outputs.begin(), outputs.end(), [](const Output &output) {
    return output.over == Over::Unknown;
  });
}

std::vector<int64_t> OutputMeans::stepsToTell() const {
  if (!hasIgnored || areKnown())
    return {};
  std::vector<int64_t> steps = mixed;
  steps.insert(steps.end(), full.begin(), full.end());
  steps.resize(
      std::min({steps.size(), kMostSteps,
                static_cast<size_t>(std::max<int64_t>(triesLeft, 0))}));
  return steps;
}

Status OutputMeans::tell(const std::vector<int64_t> &steps,
                         const LoadStep &load, const NumbersOfStep &numbersOf) {
  for (int64_t step : steps) {
    if (areKnown())
      break;
    --triesLeft;
    DPC_ASSIGN(std::vector<const void *> arrays, load(step));
    DPC_TRY(tellBy(arrays, [&](const std::vector<const void *> &tried) {
      return numbersOf(step, tried);
    }));
  }
  return Status::success();
}

Status OutputMeans::tell(Session &session, const LoadStep &load,
                         const NumbersOfStep &numbersOf) {
  DPC_ASSIGN(std::vector<int64_t> steps,
             listOfRankZero(session, stepsToTell()));
  return tell(steps, load, numbersOf);
}

/// Returns whether the numbers of two halves of the labels differ by more than
/// the rounding of sums in another order.
static bool dependsOnLabels(double first, double second) {
  constexpr double kRounding = 0x1p-20;
  return std::abs(first - second) >
         kRounding * std::max(std::abs(first), std::abs(second));
}

Status OutputMeans::tellBy(const std::vector<const void *> &arrays,
                           const NumbersOf &numbersOf) {
  std::vector<int64_t> positions = labels.in(arrays);
  size_t half = positions.size() / 2;
  /// Returns the numbers with the labels at positions[begin, end).
  auto numbersWith = [&](size_t begin, size_t end) {
    HostTensor part = labels.part(arrays, positions, begin, end);
    std::vector<const void *> inputs = arrays;
    inputs[labels.input()] = part.data.data();
    return numbersOf(inputs);
  };
  DPC_ASSIGN(StepNumbers all, numbersWith(0, positions.size()));
  DPC_ASSIGN(StepNumbers first, numbersWith(0, half));
  DPC_ASSIGN(StepNumbers second, numbersWith(half, positions.size()));
  double share =
      static_cast<double>(half) / static_cast<double>(positions.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto numberOf = [&](const StepNumbers &numbers) {
      return i == 0 ? numbers.loss : numbers.others[i - 1];
    };
    Over &over = outputs[i].over;
    double whole = numberOf(all), part = numberOf(first),
           rest = numberOf(second);
    if (over != Over::Unknown || !std::isfinite(whole))
      continue;
    if (!isMeanOf(whole, share, part, rest))
      over = Over::Samples;
    else if (dependsOnLabels(part, rest))
      over = Over::Labels;
  }
  return Status::success();
}

} // namespace dpc
