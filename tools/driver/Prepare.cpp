//===- Prepare.cpp - Makes the program that is sharded --------------------===//
#include "frontends/emit/Loss.h"
#include "frontends/emit/Options.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"
#include "ir/StopGradient.h"
#include "ir/TensorUtils.h"
#include "passes/graph/Passes.h"
#include "passes/graph/RouterBiases.h"
#include "passes/shard/Passes.h"
#include "runtime/kernels/Matmul.h"
#include "tools/driver/Compile.h"
#include "tools/driver/ExportJob.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Remarks.h"
#include "tools/driver/Routers.h"
#include "tools/driver/RunSettings.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;

namespace dpc {

static bool isLeftOut(func::FuncOp func, unsigned parameter) {
  BlockArgument argument = func.getArgument(parameter);
  if (func.getName() != kTrainStepFunction)
    return argument.use_empty();
  return llvm::none_of(argument.getUsers(), llvm::IsaPred<AdamWOp, SgdOp>);
}

/// Parameters that the loss does not depend on are not updated.
static bool trainsAllParameters(func::FuncOp program) {
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (roleOf(program.getArgument(i)) == role::kParameter &&
        isLeftOut(program, i))
      return false;
  return true;
}

/// Lists the names of trained parameters, and of frozen parameters and buffers.
/// `trains` is true for a training step and for a @forward that becomes one;
/// the unused parameters of such a @forward count as frozen.
static void listParameters(func::FuncOp program, bool trains,
                           std::vector<std::string> &trained,
                           std::vector<std::string> &frozen) {
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    auto name = program.getArgAttrOfType<StringAttr>(i, attr::kName);
    StringRef role = roleOf(program.getArgument(i));
    if (!name)
      continue;
    bool isParameter = role == role::kParameter;
    if (role == role::kBuffer ||
        (isParameter && trains && isLeftOut(program, i)))
      frozen.push_back(name.getValue().str());
    else if (isParameter)
      trained.push_back(name.getValue().str());
  }
}

static LogicalResult prepareInference(ModuleOp module, bool infers,
                                      std::string &message) {
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
  removeGradientStops(forward);
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (roleOf(forward.getArgument(i)) == role::kScalar) {
      // --infer turns dropout off, but not what the model draws otherwise.
      if (infers) {
        message = "draws random numbers, which inference does not support; "
                  "export the model after .eval(), or make the numbers an "
                  "input";
        return failure();
      }
      message = "has dropout in training mode, but no loss; accepted: a loss "
                "to train, --infer, which turns dropout off, or a model "
                "without active dropout, such as after .eval()";
      return failure();
    }
  return success();
}

static LogicalResult listParameters(Session &session, Prepared &prepared) {
  const ModelProgram &program = prepared.program;
  func::FuncOp few = findProgram(program.sample()), all = few;
  // If a few layers have no unused parameters, the whole model has none, and
  // the fused model is enough. Otherwise the whole program is needed.
  if (program.isDeep()) {
    FailureOr<ModuleOp> module =
        trainsAllParameters(few) ? program.fused() : program.whole();
    if (failed(module))
      return session.fail("the program cannot be made");
    all = findProgram(*module);
  }
  for (const std::string &text : unreadInputs(all))
    session.notice(text);
  listParameters(all, few.getName() == kTrainStepFunction, prepared.trained,
                 prepared.frozen);
  if (auto names = program.source()->getAttrOfType<ArrayAttr>(attr::kConstants))
    for (auto name : names.getAsRange<StringAttr>())
      prepared.frozen.push_back(name.getValue().str());
  return success();
}

static LogicalResult run(Session &session, ModuleOp model,
                         const PassList &passes) {
  return succeeded(runPasses(model, passes))
             ? success()
             : session.fail("pass pipeline failed: " + textOf(passes));
}

static std::string resultName(func::FuncOp program, unsigned result) {
  auto name = program.getResultAttrOfType<StringAttr>(result, attr::kName);
  return name ? name.getValue().str() : "output" + std::to_string(result);
}

/// Returns the name of the result that is marked as the loss, or "".
static std::string lossOf(func::FuncOp program) {
  for (unsigned i = 0; i < program.getNumResults(); ++i)
    if (program.getResultAttr(i, attr::kLoss))
      return resultName(program, i);
  return "";
}

static bool trainsOn(const CompileOptions &options, const std::string &loss) {
  return !options.infer && !loss.empty();
}

/// Says that an output with the name of a loss cannot be the loss, or returns
/// "".
static std::string whyNoScalar(func::FuncOp forward) {
  for (unsigned i = 0; i < forward.getNumResults(); ++i) {
    auto type = dyn_cast<RankedTensorType>(forward.getResultTypes()[i]);
    std::string name = resultName(forward, i);
    if (type && StringRef(name).ends_with("loss") &&
        !forward.getResultAttr(i, attr::kTies) &&
        !llvm::is_contained(frontend::possibleLosses(forward), i))
      return "'" + name + "' is " + frontend::describe(type) +
             ", and a loss is one float: " + frontend::adviceOnLoss(type);
  }
  return "";
}

/// Returns why it is not clear which output is trained, or "". It is clear if
/// an output is marked as the loss, or if none seems to be the loss.
static std::string whyNoLoss(func::FuncOp forward) {
  SmallVector<unsigned> possible = frontend::possibleLosses(forward);
  std::string why = whyNoScalar(forward);
  if (!lossOf(forward).empty() || (possible.size() <= 1 && why.empty()))
    return "";
  std::string names;
  for (unsigned i : possible)
    names += (names.empty() ? "'" : ", '") + resultName(forward, i) + "'";
  if (why.empty())
    why = "none is called 'loss', and " + names + " are float scalars";
  else if (!names.empty())
    why += ", or train " + names;
  if (!names.empty())
    why += "; choose with --loss-output=NAME";
  return "it is not clear which output is trained: " + why +
         ", or confirm inference with --infer";
}

/// Training computes in bf16 by default if all devices are GPUs with bf16,
/// which sm_80 and later have.
static void choosePrecision(Session &session, const cost::Cluster &cluster) {
  std::set<std::string> names;
  bool haveBf16 = llvm::all_of(cluster.groups, [&](const auto &group) {
    names.insert(group.device.name);
    return group.device.peak(cost::DType::BF16) > 0;
  });
  if (!session.options().givesPrecision && haveBf16 && !names.empty())
    session.choosePrecision("bf16", "default on " + llvm::join(names, ", ") +
                                        "; --precision=fp32 changes it");
}

/// Remarks on `forward`, a fused model.
static void remarkOnForward(Session &session, func::FuncOp forward,
                            bool trains) {
  const CompileOptions &options = session.options();
  if (trains) {
    for (const Suspicion &suspicion : suspicionsOf(forward))
      suspicion.ruins ? session.notice(suspicion.text)
                      : session.remark(suspicion.text);
    if (std::string text = textOnTotal(forward);
        options.lossOutput.empty() && !text.empty())
      session.remark(text);
    for (const std::string &text :
         {remarkOnFrozen(forward), remarkOnRepeatedModules(forward)})
      if (!text.empty())
        session.remark(text);
    const bool isOnnx = StringRef(options.model).ends_with(".onnx");
    if (std::string text = remarkOnLikelyConstants(forward, !isOnnx);
        !text.empty())
      session.notice(text);
    // The frontend names such constants of a .pt2.
    if (std::string text = textOnConstantWeights(forward);
        !StringRef(options.model).ends_with(".pt2") && !text.empty())
      session.notice(text);
  }
  if (std::string text = remarkOnNarrowWeights(forward);
      options.precision == "fp32" && !text.empty())
    session.remark(text);
}

/// Adds the loss to `model`, an imported @forward, and fuses it. Sets `loss` to
/// the name of the output that is the loss, or to "", and `settings` if a plan
/// is written.
static LogicalResult fuse(Session &session, ModuleOp model,
                          const cost::Cluster &cluster, std::string &loss,
                          std::vector<rt::Setting> &settings) {
  const CompileOptions &options = session.options();
  if (failed(run(session, model, lossPasses(options))))
    return failure();
  auto forward = model.lookupSymbol<func::FuncOp>(kForwardFunction);
  if (std::string why = whyNoLoss(forward); !why.empty() && !options.infer)
    return session.fail(options.model + ": " + why);
  loss = lossOf(forward);
  bool trains = trainsOn(options, loss);
  if (!trains && !options.train.empty())
    return session.fail(
        options.model + ": --train=" + options.train +
        " needs a loss, a scalar float output; add one with --loss="
        "cross_entropy or mse");
  if (trains)
    choosePrecision(session, cluster);
  if (!trains && !options.infer)
    session.remark(
        "no output is a loss, so the model is compiled for inference; "
        "--loss=cross_entropy or mse adds a loss, --infer confirms inference");
  if (auto text = model->getAttrOfType<StringAttr>(attr::kEvaluation)) {
    session.remark("--infer: " + text.getValue().str());
    model->removeAttr(attr::kEvaluation);
  }
  if (auto text = model->getAttrOfType<StringAttr>(attr::kEvaluationMode)) {
    if (trains)
      session.notice("the model was exported in evaluation mode: " +
                     text.getValue().str() +
                     "; to change this, export it after model.train()");
    model->removeAttr(attr::kEvaluationMode);
  }
  if (std::string why;
      !trains && failed(prepareInference(model, options.infer, why)))
    return session.fail(options.model + " " + why);
  if (options.emit.count("plan")) {
    auto made = settingsOf(session, model, trains);
    if (failed(made))
      return failure();
    settings = std::move(*made);
  }
  if (failed(run(session, model, addFusionPhase)))
    return failure();
  markBatchDims(model.lookupSymbol<func::FuncOp>(kForwardFunction));
  session.dump("fused", model);
  forward = model.lookupSymbol<func::FuncOp>(kForwardFunction);
  markNormWeights(forward);
  remarkOnForward(session, forward, trains);
  if (options.balanceExperts > 0 && trains &&
      balanceExperts(forward, options.balanceExperts) == 0)
    return session.fail(
        "--balance-experts: " + options.model +
        " has no buffer that shifts only the choice of its experts; accepted: "
        "models such as DeepSeek-V3, in which a router has such a bias");
  std::string why = storeRouting(model, session.options().routing);
  return why.empty() ? success()
                     : session.fail(session.options().model + ": " + why);
}

static FailureOr<ModelProgram> makeProgram(Session &session,
                                           OwningOpRef<ModuleOp> fused,
                                           const cost::Cluster &cluster,
                                           bool trains) {
  const CompileOptions &options = session.options();
  if (std::string why = whyNoFp8(options, cluster); !why.empty())
    return session.fail(why);
  if (std::string text = remarkOnTarget(options.targetGpu, cluster);
      !text.empty())
    session.remark(text);
  if (std::string text = remarkOnNarrowCpu(options, rt::hasBf16Instructions());
      !text.empty())
    session.remark(text);
  if (std::string text = remarkOnLossScale(options); trains && !text.empty())
    session.remark(text);
  if (std::string text = remarkOnBetas(options); trains && !text.empty())
    session.remark(text);
  for (const std::string &text :
       trains ? remarksOnRates(options) : std::vector<std::string>())
    session.remark(text);
  PassList passes = stepPasses(options, trains);
  ModelProgram program(std::move(fused), passes);
  if (!options.dumpIrDir.empty())
    if (FailureOr<ModuleOp> whole = program.whole(); succeeded(whole))
      session.dump(trains ? "train-step" : "forward", *whole);
  if (!program.sample())
    return session.fail("pass pipeline failed: " + textOf(passes));
  return program;
}

static FailureOr<ModelProgram> programOf(Session &session,
                                         OwningOpRef<ModuleOp> model,
                                         const cost::Cluster &cluster,
                                         std::string &loss,
                                         std::vector<rt::Setting> &settings) {
  if ((*model)->hasAttr(attr::kWholeStep) &&
      failed(run(session, *model, [](OpPassManager &pm) {
        pm.addNestedPass<func::FuncOp>(createDpcSimplify());
      })))
    return failure();
  session.dump("import", *model);
  if (auto step = model->lookupSymbol<func::FuncOp>(kTrainStepFunction)) {
    loss = lossOf(step);
    markBatchDims(step);
    return ModelProgram(std::move(model));
  }
  if (!model->lookupSymbol<func::FuncOp>(kForwardFunction))
    return session.fail(session.options().model +
                        ": has no function @forward or @train_step");
  if (failed(fuse(session, *model, cluster, loss, settings)))
    return failure();
  return makeProgram(session, std::move(model), cluster,
                     trainsOn(session.options(), loss));
}

/// Gives the cluster the profile of --for, and limits the search to what the
/// target can express. The profile depends on the precision, whose default
/// depends on the model.
static LogicalResult planForTarget(Session &session, Prepared &prepared) {
  const exports::Target *target = targetOf(session.options());
  if (!target || prepared.machine.cluster.groups.empty())
    return success();
  std::vector<cost::Cluster *> clusters = {&prepared.machine.cluster};
  for (cost::Cluster &other : prepared.machine.others)
    clusters.push_back(&other);
  for (cost::Cluster *cluster : clusters)
    if (std::string error =
            useTarget(session.options(), *cluster, session.remarks());
        !error.empty())
      return session.fail(error);
  exports::Job job = jobOf(session.options(), prepared);
  if (std::string why = whyNeverExpressible(*target, job); !why.empty())
    return session.fail("--for=" + std::string(target->name) + ": " + why);
  prepared.accepts = acceptedBy(*target, job);
  return success();
}

FailureOr<Prepared> prepare(Session &session, Loaded loaded) {
  std::string loss;
  std::vector<rt::Setting> settings;
  FailureOr<ModelProgram> program = programOf(
      session, std::move(loaded.model), loaded.machine.cluster, loss, settings);
  if (failed(program))
    return failure();
  Prepared prepared{.machine = std::move(loaded.machine),
                    .initialValues = std::move(loaded.initialValues),
                    .sourceFiles = std::move(loaded.sourceFiles),
                    .program = std::move(*program),
                    .loss = std::move(loss),
                    .settings = std::move(settings),
                    .trained = {},
                    .frozen = {},
                    .accepts = nullptr};
  if (failed(listParameters(session, prepared)) ||
      failed(planForTarget(session, prepared)))
    return failure();
  return prepared;
}

} // namespace dpc
