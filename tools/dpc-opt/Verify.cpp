//===- Verify.cpp - N ranks against one device ----------------------------===//
#include "tools/dpc-opt/Verify.h"

#include "runtime/exec/Random.h"
#include "runtime/exec/RunPlan.h"

#include <cmath>

namespace dpc {

namespace {

constexpr int64_t kSteps = 2;

std::vector<std::map<std::string, rt::HostTensor>>
randomBatches(const rt::Plan &plan) {
  std::vector<std::map<std::string, rt::HostTensor>> steps;
  for (int64_t step = 0; step < kSteps; ++step) {
    std::map<std::string, rt::HostTensor> batch;
    for (const rt::Port &port : plan.inputs) {
      rt::HostTensor tensor =
          rt::HostTensor::zeros(port.dtype, port.globalShape);
      rt::RandomStream stream(step + 1, port.name);
      rt::fillRandom(tensor, stream, 1.0, port.limit);
      batch[port.name] = std::move(tensor);
    }
    steps.push_back(std::move(batch));
  }
  return steps;
}

double largest(const rt::HostTensor &tensor) {
  double result = 0;
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    result = std::max(result, std::abs(tensor.at(i)));
  return result;
}

/// Compares one run with the reference run.
class Comparison {
public:
  Comparison(const rt::Plan &plan, const rt::RunResult &got,
             const rt::RunResult &want)
      : plan(plan), got(got), want(want) {
    for (const rt::Tensor &tensor : plan.tensors)
      if (isMoment(tensor))
        largestMoment =
            std::max(largestMoment, largest(want.tensors.at(tensor.name)));
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
        std::string why = compare(where, found->second, value, nullptr);
        if (!why.empty())
          return why;
      }
    return "";
  }

  /// Parameters, buffers and states after one step.
  std::string compareTensors() const {
    for (const rt::Tensor &tensor : plan.tensors) {
      std::string why = compareTensor(tensor);
      if (!why.empty())
        return why;
    }
    return "";
  }

private:
  const rt::Plan &plan;
  const rt::RunResult &got, &want;
  double largestMoment = 0;

  static bool isMoment(const rt::Tensor &tensor) {
    return tensor.slot == "exp_avg" || tensor.slot == "momentum";
  }

  /// What rounding may do to a parameter. A gradient is known up to 1e-5 of the
  /// largest; AdamW divides it by its own size, so that an update, of at most
  /// about twice the learning rate, is uncertain by the gradient's relative
  /// error: wholly where the gradient is noise, hardly where it is large.
  double roundedUpdates(double moment) const {
    double noise = 1e-5 * largestMoment;
    double share = std::abs(moment) <= noise ? 1.0 : noise / std::abs(moment);
    return 4 * plan.lrSchedule.lr * share;
  }

  std::string compareTensor(const rt::Tensor &tensor) const {
    auto reference = want.tensors.find(tensor.name);
    if (reference == want.tensors.end())
      return ""; // A table that only this layout stores.
    const rt::HostTensor *moment = nullptr;
    for (const rt::Tensor &state : plan.tensors)
      if (state.of == tensor.name && isMoment(state))
        moment = &want.tensors.at(state.name);
    return compare("tensor '" + tensor.name + "'", got.tensors.at(tensor.name),
                   reference->second, moment);
  }

  std::string compare(const std::string &where, const rt::HostTensor &a,
                      const rt::HostTensor &b,
                      const rt::HostTensor *moment) const {
    if (a.shape != b.shape)
      return where + " has shape " + rt::describe(a.dtype, a.shape) +
             ", one device has " + rt::describe(b.dtype, b.shape);
    double tolerance = 2e-4 * largest(b) + 1e-6;
    if (!moment)
      tolerance += 1e-5 * largestMoment;
    for (int64_t i = 0, e = b.elements(); i < e; ++i) {
      double difference = std::abs(a.at(i) - b.at(i));
      double allowed = tolerance + (moment ? roundedUpdates(moment->at(i)) : 0);
      if (!(difference <= allowed) &&
          !(std::isnan(b.at(i)) && std::isnan(a.at(i))) && a.at(i) != b.at(i))
        return where + " differs from one device: element " +
               std::to_string(i) + " is " + std::to_string(a.at(i)) + ", not " +
               std::to_string(b.at(i));
    }
    return "";
  }
};

} // namespace

/// Runs both plans for `request.steps` and compares them.
static std::string compareRuns(const PlanInFolder &plan,
                               const PlanInFolder &reference,
                               const rt::RunRequest &request) {
  auto got = rt::runPlan(plan.plan, plan.dir, request);
  if (!got)
    return "the plan does not run: " + got.status().message();
  auto want = rt::runPlan(reference.plan, reference.dir, request);
  if (!want)
    return "the plan for one device does not run: " + want.status().message();
  Comparison comparison(plan.plan, *got, *want);
  std::string why = comparison.compareOutputs();
  if (why.empty() && request.steps == 1)
    why = comparison.compareTensors();
  return why;
}

std::string verifyAgainstOneDevice(const PlanInFolder &plan,
                                   const PlanInFolder &reference,
                                   const std::string &init) {
  auto choice = rt::InitChoice::parse(init.empty() ? "random:1" : init);
  if (!choice)
    return choice.status().message();
  rt::RunRequest request;
  request.inputs = randomBatches(plan.plan);
  request.poison = true;
  request.init = *choice;
  for (request.steps = 1; request.steps <= kSteps; ++request.steps) {
    std::string why = compareRuns(plan, reference, request);
    if (!why.empty())
      return why;
  }
  return "";
}

} // namespace dpc
