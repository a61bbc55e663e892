#include "runtime/job/MaskCheck.h"

#include "runtime/data/Dataset.h"

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

Expected<double> lossEverywhere(const Plan &plan, Session &session) {
  int index = findLoss(plan);
  double loss = index >= 0 && session.holdsRankZero()
                    ? session.outputs()[index].at(0)
                    : std::nan("");
  DPC_ASSIGN(auto bytes, session.fromRankZero([&]() -> Expected<std::string> {
    return std::string(reinterpret_cast<const char *>(&loss), sizeof loss);
  }));
  std::memcpy(&loss, bytes.data(), sizeof loss);
  return loss;
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

Status checkIgnored(const Plan &plan, const IgnoredLabels &ignored,
                    int64_t counted, const std::vector<const void *> &arrays,
                    const LossOf &lossOf) {
  auto port = std::find_if(
      plan.inputs.begin(), plan.inputs.end(),
      [&](const Port &input) { return input.name == ignored.input; });
  if (port == plan.inputs.end())
    return Status::invalid("the plan has no input '", ignored.input, "'");
  int64_t perStep = samplesPerStep(plan);
  size_t index = port - plan.inputs.begin();
  Labels labels(*port, ignored, arrays[index]);
  if (!labels.any())
    return Status::invalid("all labels of a step in '", ignored.input,
                           "' have the ignored value ", ignored.value);
  const std::pair<int64_t, int64_t> ranges[] = {
      {0, perStep}, {0, counted}, {counted, perStep}};
  std::vector<double> losses;
  for (auto [begin, end] : ranges) {
    std::vector<const void *> inputs = arrays;
    inputs[index] = labels.of(begin, end);
    DPC_ASSIGN(double loss, lossOf(inputs));
    losses.push_back(loss);
  }
  double share = static_cast<double>(counted) / static_cast<double>(perStep);
  double wanted = share * losses[1] + (1 - share) * losses[2];
  constexpr double kRounding = 1e-3; // sums may have a different order
  if (std::abs(wanted - losses[0]) <= kRounding * std::abs(losses[0]))
    return Status::success();
  return Status::invalid("the loss is not the mean over labels other than ",
                         ignored.value, " in '", ignored.input, "': it is ",
                         losses[0], " for all ", perStep, " samples, ",
                         losses[1], " for the first ", counted, " and ",
                         losses[2], " for the others");
}

} // namespace dpc
