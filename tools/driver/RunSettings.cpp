//===- RunSettings.cpp - What a plan records of its training --------------===//
#include "tools/driver/RunSettings.h"

#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/TensorUtils.h"
#include "passes/graph/GraphHash.h"
#include "passes/graph/Passes.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/RunSettings.h"
#include "tools/driver/Load.h"
#include "tools/driver/Pipelines.h"

#include <charconv>
#include <iterator>

using namespace mlir;

namespace dpc {

/// Hashes the loss of @forward, or all results if none is the loss.
static GraphHash hashForward(func::FuncOp forward, bool trains) {
  Operation *end = forward.front().getTerminator();
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (forward.getResultAttr(i, attr::kLoss))
      return hashGraph(end->getOperand(i), trains);
  return hashGraph(end->getOperands(), trains);
}

static void addGraph(std::vector<rt::Setting> &settings, const char *graph,
                     const char *constants, func::FuncOp forward, bool trains) {
  GraphHash hash = hashForward(forward, trains);
  settings.push_back({graph, rt::hashDigits(hash.structure)});
  settings.push_back({constants, rt::hashDigits(hash.values)});
}

/// Returns whether importing for inference would change the model.
static bool differsInEvaluation(ModuleOp model) {
  return hasDropout(model) ||
         model.walk([](BatchNormOp) { return WalkResult::interrupt(); })
             .wasInterrupted();
}

static LogicalResult addEvalGraph(Session &session, ModuleOp model,
                                  std::vector<rt::Setting> &settings) {
  auto forward = model.lookupSymbol<func::FuncOp>(kForwardFunction);
  OwningOpRef<ModuleOp> evaluated;
  if (differsInEvaluation(model)) {
    CompileOptions options = session.options();
    options.infer = true;
    evaluated = loadModel(options, session.context());
    if (!evaluated || failed(runPasses(*evaluated, lossPasses(options))))
      return failure();
    forward = evaluated->lookupSymbol<func::FuncOp>(kForwardFunction);
  }
  addGraph(settings, rt::kEvalGraph, rt::kEvalConstants, forward,
           /*trains=*/false);
  return success();
}

/// Returns the shortest text that reads back as `value`.
static std::string shown(double value) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), value).ptr};
}

static std::string scheduleText(const CompileOptions &options) {
  std::string text = options.lrSchedule;
  if (options.warmup > 0)
    text += " after " + std::to_string(options.warmup) + " warmup steps";
  // A constant rate does not end.
  if (options.totalSteps > 0 && options.lrSchedule != "constant")
    text += " to " + shown(options.minLr) + " at step " +
            std::to_string(options.totalSteps);
  return text;
}

static void addOptimizer(std::vector<rt::Setting> &settings,
                         const CompileOptions &options) {
  bool isSgd = options.train == "sgd";
  auto add = [&](const char *name, const std::string &value) {
    settings.push_back({name, value});
  };
  add("optimizer", isSgd ? "sgd" : "adamw");
  add("lr", shown(options.lr));
  add("lr_schedule", scheduleText(options));
  if (isSgd) {
    add("momentum", shown(options.momentum));
  } else {
    add("betas", shown(options.beta1) + " " + shown(options.beta2));
    add("eps", shown(options.eps));
  }
  add("weight_decay", shown(options.weightDecay.value_or(isSgd ? 0 : 0.01)));
  if (options.clipGradNorm > 0)
    add("clip_grad_norm", shown(options.clipGradNorm));
  if (!options.compressGradients.empty())
    add("compress_gradients", options.compressGradients);
  if (!options.compressWeights.empty())
    add("compress_weights", options.compressWeights);
}

/// Returns what the report says as well: --precision, unless the GEMMs of the
/// model have doubles, which no precision narrows.
static std::string precisionOf(func::FuncOp forward,
                               const CompileOptions &options) {
  bool hasDoubles = false; // the last GEMM decides
  forward.walk([&](MatmulOp matmul) {
    hasDoubles = elementTypeOf(matmul.getA()).isF64();
  });
  return hasDoubles ? "fp64" : options.precision;
}

FailureOr<std::vector<rt::Setting>> settingsOf(Session &session, ModuleOp model,
                                               bool trains) {
  const CompileOptions &options = session.options();
  std::vector<rt::Setting> settings;
  auto forward = model.lookupSymbol<func::FuncOp>(kForwardFunction);
  addGraph(settings, rt::kGraph, rt::kGraphConstants, forward, trains);
  settings.push_back({rt::kPrecision, precisionOf(forward, options)});
  if (!trains)
    return settings;
  addOptimizer(settings, options);
  if (hasDropout(model))
    settings.push_back({rt::kDropoutSeed, std::to_string(options.seed)});
  if (failed(addEvalGraph(session, model, settings)))
    return failure();
  return settings;
}

} // namespace dpc
