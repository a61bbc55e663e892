#include "runtime/job/LossWeight.h"

#include "runtime/job/Samples.h"

#include <cmath>
#include <cstring>

namespace dpc {

using namespace rt;

LossWeight::LossWeight(const RunOptions &options, const Plan &plan) {
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

static HostTensor labelsOf(const Port &port, const void *array) {
  HostTensor labels = HostTensor::zeros(port.dtype, port.globalShape);
  std::memcpy(labels.data.data(), array, labels.data.size());
  return labels;
}

std::vector<int64_t>
LossWeight::counted(const std::vector<const void *> &arrays) const {
  HostTensor labels = labelsOf(port, arrays[*index]);
  std::vector<int64_t> positions;
  for (int64_t k = 0; k < labels.elements(); ++k)
    if (labels.at(k) != static_cast<double>(ignored))
      positions.push_back(k);
  return positions;
}

bool LossWeight::canTell(const std::vector<const void *> &arrays) const {
  if (!index)
    return false;
  auto labels = static_cast<int64_t>(counted(arrays).size());
  return labels >= 2 && labels < numElements(port.globalShape);
}

Status LossWeight::tell(const std::vector<const void *> &arrays,
                        const NumbersOf &numbersOf) {
  std::vector<int64_t> positions = counted(arrays);
  size_t half = positions.size() / 2;
  /// Returns the loss with the labels at positions[begin, end).
  auto lossOf = [&](size_t begin, size_t end) -> Expected<double> {
    HostTensor labels = labelsOf(port, arrays[*index]);
    for (size_t i = 0; i < positions.size(); ++i)
      if (i < begin || i >= end)
        labels.set(positions[i], static_cast<double>(ignored));
    std::vector<const void *> inputs = arrays;
    inputs[*index] = labels.data.data();
    DPC_ASSIGN(StepNumbers numbers, numbersOf(inputs));
    return numbers.loss;
  };
  DPC_ASSIGN(double all, lossOf(0, positions.size()));
  DPC_ASSIGN(double first, lossOf(0, half));
  DPC_ASSIGN(double second, lossOf(half, positions.size()));
  double share =
      static_cast<double>(half) / static_cast<double>(positions.size());
  overLabels = isMeanOf(all, share, first, second);
  return Status::success();
}

int64_t LossWeight::of(const std::vector<const void *> &arrays,
                       int64_t samples) const {
  return overLabels ? static_cast<int64_t>(counted(arrays).size()) : samples;
}

} // namespace dpc
