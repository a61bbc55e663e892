#include "runtime/job/StepOutputs.h"

#include <algorithm>

namespace dpc {

using namespace rt;

static bool isScalar(const Port &output) {
  return numElements(output.globalShape) == 1;
}

/// Returns the index of the output `name` of one value, or -1.
static int findScalar(const Plan &plan, const std::string &name) {
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    if (const Port &output = plan.outputs[i];
        output.name == name && isScalar(output))
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

bool isOfUpdate(const Plan &plan, const Port &output) {
  return plan.trains && isScalar(output) &&
         (output.name == "grad_norm" || output.name == "loss_scale" ||
          output.name == "skipped");
}

bool isOfModel(const Plan &plan, const Port &output) {
  return output.faults.empty() && !isOfUpdate(plan, output);
}

std::vector<StepOutput> stepOutputs(const Plan &plan) {
  std::vector<StepOutput> found;
  int loss = findLoss(plan);
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const Port &output = plan.outputs[i];
    bool isPerSample = output.batchDim == 0 && output.globalShape.size() == 1;
    if (static_cast<int>(i) != loss && isOfModel(plan, output) &&
        (isPerSample || isScalar(output)))
      found.push_back({i, isPerSample});
  }
  return found;
}

double StepOutput::numberOf(const HostTensor &value, int64_t counted) const {
  int64_t count = isPerSample && counted > 0 ? counted : value.elements();
  double sum = 0;
  for (int64_t k = 0; k < count; ++k)
    sum += value.at(k);
  return sum / static_cast<double>(count);
}

std::vector<double> numbersOf(const std::vector<StepOutput> &outputs,
                              const Session &session, int64_t counted) {
  std::vector<double> numbers;
  numbers.reserve(outputs.size());
  for (const StepOutput &output : outputs)
    numbers.push_back(
        output.numberOf(session.outputs()[output.index], counted));
  return numbers;
}

} // namespace dpc
