//===- Pipelines.cpp - The pass pipelines of the options ------------------===//
#include "tools/driver/Pipelines.h"

using namespace mlir;

namespace dpc {

bool scalesLoss(const CompileOptions &options) {
  return options.precision == "fp16" || options.lossScaleInterval == 0;
}

static DpcDifferentiateOptions trainingOptions(const CompileOptions &options) {
  DpcDifferentiateOptions training;
  training.optimizer = options.train.empty() ? "adamw" : options.train;
  training.beta1 = options.beta1;
  training.beta2 = options.beta2;
  training.eps = options.eps;
  training.momentum = options.momentum;
  training.clipGradNorm = options.clipGradNorm;
  if (options.weightDecay)
    training.weightDecay = *options.weightDecay;
  if (scalesLoss(options)) {
    training.lossScale = options.lossScale;
    training.lossScaleInterval = options.lossScaleInterval;
  }
  return training;
}

static StepOptions stepOptions(const CompileOptions &options, bool trains) {
  StepOptions step;
  if (trains)
    step.training = trainingOptions(options);
  return step;
}

PassList lossPasses(const CompileOptions &options) {
  return [text = options.loss](OpPassManager &pm) {
    if (text.empty())
      return;
    auto [kind, output] = StringRef(text).split(':');
    DpcAppendLossOptions loss;
    loss.loss = kind.str();
    loss.output = output.str();
    pm.addPass(createDpcAppendLoss(loss));
  };
}

PassList graphPasses(const CompileOptions &options, bool trains) {
  return [step = stepOptions(options, trains)](OpPassManager &pm) {
    addStepPhase(pm, step);
  };
}

PassList stepPasses(const CompileOptions &options, bool trains) {
  StepOptions step = stepOptions(options, trains);
  if (options.precision != "fp32") {
    step.precision.emplace();
    step.precision->type = options.precision == "fp16" ? "f16" : "bf16";
    step.precision->fp8 = options.precision == "fp8";
  }
  return [step](OpPassManager &pm) { addStepPhase(pm, step); };
}

} // namespace dpc
