#include "runtime/exec/RunPlan.h"

#include "runtime/exec/Session.h"
#include "runtime/io/InputSource.h"
#include "runtime/plan/PlanValidate.h"

namespace dpc::rt {

static Expected<std::unique_ptr<InputSource>> makeInputs(const Plan &plan,
                                                         RunRequest &request) {
  if (request.inputs.empty())
    return randomInputs(plan, 0);
  return fixedInputs(plan, std::move(request.inputs));
}

Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            RunRequest request) {
  DPC_TRY(validatePlan(plan, dir + "/plan.json"));
  DPC_ASSIGN(KernelLibrary kernels, KernelLibrary::load(plan, dir));
  return runPlan(plan, dir, kernels, std::move(request));
}

Expected<RunResult> runPlan(const Plan &plan, const std::string &dir,
                            const KernelLibrary &kernels, RunRequest request) {
  DPC_TRY(validatePlan(plan, dir + "/plan.json"));
  DPC_ASSIGN(std::unique_ptr<InputSource> inputs, makeInputs(plan, request));
  SessionOptions options;
  options.poison = request.poison;
  options.offloadDir = dir;
  DPC_ASSIGN(auto session,
             Session::create(plan, kernels,
                             makeLocalComms(static_cast<int>(plan.ranks()),
                                            {request.timeoutSeconds}),
                             options));
  InitialValues values(plan, dir, request.init, std::move(request.tensors));
  DPC_TRY(session->initialize(values));
  RunResult result;
  for (int64_t step = 1; step <= request.steps; ++step) {
    DPC_ASSIGN(auto pointers, inputs->load(step));
    DPC_TRY(session->step(step, pointers));
    auto &outputs = result.outputs.emplace_back();
    for (size_t i = 0; i < plan.outputs.size(); ++i)
      outputs[plan.outputs[i].name] = session->outputs()[i];
  }
  for (const Tensor &tensor : plan.tensors) {
    DPC_ASSIGN(result.tensors[tensor.name], session->gather(tensor));
  }
  return result;
}

} // namespace dpc::rt
