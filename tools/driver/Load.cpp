//===- Load.cpp - Reads the files of the command line ---------------------===//
#include "tools/driver/Load.h"

#include "codegen/export/Import.h"
#include "cost-model/machine/HeterogeneousCluster.h"
#include "cost-model/machine/Plausible.h"
#include "frontends/emit/Loss.h"
#include "frontends/onnx/Import.h"
#include "frontends/stablehlo/Import.h"
#include "frontends/torch/Import.h"
#include "ir/Attributes.h"
#include "ir/TensorUtils.h"
#include "runtime/base/OneLine.h"
#include "tools/driver/Calibration.h"
#include "tools/driver/Compile.h"
#include "tools/driver/Inputs.h"

#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mlir;

namespace dpc {

ImportOptions importOptions(const CompileOptions &options) {
  ImportOptions import;
  import.bind = options.bind;
  import.globalBatch = options.globalBatch;
  import.frozen = options.frozen;
  import.trainable = options.trainable;
  import.appendsLoss = !options.loss.empty();
  import.lossOutput = options.lossOutput;
  import.seed = options.seed;
  import.evaluates = options.infer;
  return import;
}

static OwningOpRef<ModuleOp> failWith(const CompileOptions &options,
                                      MLIRContext &context,
                                      const llvm::Twine &why) {
  emitError(UnknownLoc::get(&context)) << options.model << ": " << why;
  return {};
}

static OwningOpRef<ModuleOp> loadIr(const CompileOptions &options,
                                    MLIRContext &context) {
  auto bytes = llvm::MemoryBuffer::getFile(options.model);
  if (bytes && isStableHlo((*bytes)->getBuffer())) {
    auto imported = importStableHlo(std::move(*bytes), options.model, context,
                                    importOptions(options));
    return succeeded(imported) ? std::move(*imported) : OwningOpRef<ModuleOp>();
  }
  auto program = parseSourceFile<ModuleOp>(options.model, &context);
  if (!program)
    return failWith(options, context, "cannot be read as dpc IR");
  if (options.lossOutput.empty())
    return program;
  auto forward = program->lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!forward)
    return failWith(options, context,
                    "--loss-output=" + options.lossOutput +
                        " is for modules with @forward");
  if (llvm::Error error =
          frontend::markLoss(forward, options.lossOutput, options.model)) {
    emitError(UnknownLoc::get(&context)) << llvm::toString(std::move(error));
    return {};
  }
  return program;
}

OwningOpRef<ModuleOp> loadModel(const CompileOptions &options,
                                MLIRContext &context) {
  StringRef file = options.model;
  if (file.ends_with(".mlir") || file.ends_with(".mlirbc"))
    return loadIr(options, context);
  bool isTorch = file.ends_with(".pt2");
  if (!isTorch && !file.ends_with(".onnx"))
    return failWith(options, context,
                    "unknown kind of model; .onnx, .pt2, and .mlir of "
                    "StableHLO or dpc are accepted");
  auto imported = isTorch ? importTorch(file, context, importOptions(options))
                          : importOnnx(file, context, importOptions(options));
  return succeeded(imported) ? std::move(*imported) : OwningOpRef<ModuleOp>();
}

/// Says why `options` cannot apply to a finished training step, or "".
static std::string whyNoStep(const CompileOptions &options, ModuleOp program) {
  if (!program->hasAttr(attr::kWholeStep))
    return "";
  std::string option =
      !options.train.empty()        ? "--train=" + options.train
      : !options.loss.empty()       ? "--loss=" + options.loss
      : !options.lossOutput.empty() ? "--loss-output=" + options.lossOutput
      : options.precision != "fp32" ? "--precision=" + options.precision
      : options.clipGradNorm > 0    ? "--clip-grad-norm"
      : options.balanceExperts > 0  ? "--balance-experts"
      : options.infer               ? "--infer"
                                    : "";
  return option.empty() ? ""
                        : options.model +
                              " is already a training step, with gradients "
                              "and optimizer inside: " +
                              option + " is for models without";
}

namespace {

/// FILE,KEY=VALUE,... of --strategy=@FILE,KEY=VALUE,...
struct NamedFile {
  std::string path;
  std::map<std::string, std::string> keys;
};

} // namespace

/// A file whose name has commas is named alone.
static Expected<NamedFile> splitName(const std::string &text) {
  NamedFile named{text, {}};
  std::error_code code;
  if (std::filesystem::exists(text, code))
    return named;
  llvm::SmallVector<StringRef> parts;
  StringRef(text).split(parts, ',');
  named.path = parts.front().str();
  for (StringRef part : llvm::drop_begin(parts)) {
    auto [key, value] = part.split('=');
    if (key.empty() || value.empty())
      return Error{"--strategy=@" + text + ": '" + part.str() +
                   "'; expected @FILE, or @FILE,KEY=VALUE,..."};
    if (!named.keys.emplace(key.str(), value.str()).second)
      return Error{"--strategy=@" + text + ": key '" + key.str() +
                   "' is given twice; expected once"};
  }
  return named;
}

/// Returns `strategy` with `keys` in the place of its own.
static std::string withKeys(const std::string &strategy,
                            const std::map<std::string, std::string> &keys) {
  llvm::SmallVector<StringRef> parts;
  StringRef(strategy).split(parts, ',');
  llvm::erase_if(parts, [&](StringRef part) {
    return keys.count(part.split('=').first.str()) > 0;
  });
  std::string text = llvm::join(parts, ",");
  for (const auto &[key, value] : keys)
    text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

/// Takes the batch, the precision, the optimizer and the compression from the
/// file at `path`, unless the command line has them, and adds them to `taken`
/// as options. Returns "" or a one-line error.
static std::string takeOptions(CompileOptions &options, const std::string &path,
                               const exports::Imported &imported,
                               std::string &taken) {
  if (imported.globalBatch > 0 && options.globalBatch > 0 &&
      imported.globalBatch != options.globalBatch)
    return path + ": a global batch of " +
           std::to_string(imported.globalBatch) +
           ", but --global-batch=" + std::to_string(options.globalBatch) +
           "; remove this option, or change the file";
  if (imported.globalBatch > 0) {
    options.globalBatch = imported.globalBatch;
    taken += " --global-batch=" + std::to_string(imported.globalBatch);
  }
  if (!options.givesPrecision && !imported.precision.empty()) {
    if (imported.precision != options.precision)
      taken += " --precision=" + imported.precision;
    options.precision = imported.precision;
    options.givesPrecision = true;
  }
  if (imported.usesSgd && options.train.empty() && !options.infer) {
    options.train = "sgd";
    taken += " --train=sgd";
  }
  if (imported.compressesWeights && options.compressWeights.empty()) {
    options.compressWeights = "int8";
    options.words.emplace_back("--compress-weights=int8");
    taken += " --compress-weights=int8";
  }
  return "";
}

/// Sets the micro-batch of a file that states only the number of micro-batches.
/// Returns "" or a one-line error.
static std::string setMicroBatch(const CompileOptions &options,
                                 const std::string &path,
                                 exports::Imported &imported) {
  if (imported.strategy.microBatch > 0 || imported.microBatches == 0 ||
      options.globalBatch == 0)
    return "";
  int64_t count = imported.strategy.dp * imported.microBatches;
  if (options.globalBatch % count != 0)
    return path + ": " + std::to_string(imported.microBatches) +
           " micro-batches on each of " + std::to_string(imported.strategy.dp) +
           " data-parallel ranks do not divide --global-batch=" +
           std::to_string(options.globalBatch) + "; expected a multiple of " +
           std::to_string(count);
  imported.strategy.microBatch = options.globalBatch / count;
  return "";
}

static void noteReading(CompileOptions &options,
                        const exports::Imported &imported,
                        const std::string &taken) {
  std::string note = options.strategyFile + ": read as " + imported.kind +
                     ": --strategy=" + options.strategy + taken;
  size_t others = imported.ignored.size();
  options.readAs = note;
  if (others > 0)
    options.readAs += "; " + std::to_string(others) +
                      (others == 1 ? " setting" : " settings") +
                      " without effect on the plan";
  for (size_t i = 0; i < others; ++i)
    note += (i == 0 ? "; without effect: " : ", ") + imported.ignored[i];
  options.notes.push_back(note);
}

std::string readNamedStrategy(CompileOptions &options) {
  if (!options.strategy.starts_with("@") || options.cluster.empty())
    return "";
  auto named = splitName(options.strategy.substr(1));
  if (!named)
    return named.message();
  std::ifstream in(named->path);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in)
    return "--strategy=@" + named->path + ": cannot be read";
  Expected<cost::Cluster> cluster =
      cost::loadCluster(options.cluster, options.device);
  if (!cluster)
    return cluster.message();
  int64_t devices = cluster->numDevices();
  auto imported =
      exports::readStrategy(text.str(), named->path,
                            {devices, named->keys, cluster->devicesPerNode()});
  if (!imported)
    return named->path + ": " + imported.message();
  options.strategyFile = named->path;
  options.statedSizes = imported->sizes;
  options.chunks = imported->chunks;
  std::string taken;
  if (std::string error = takeOptions(options, named->path, *imported, taken);
      !error.empty())
    return error;
  if (std::string error = setMicroBatch(options, named->path, *imported);
      !error.empty())
    return error;
  options.strategy = withKeys(
      cost::stringifyStrategy(imported->strategy, devices), named->keys);
  noteReading(options, *imported, taken);
  return "";
}

bool printsProgram(const CompileOptions &options) {
  return options.cluster.empty() && options.emit.count("mlir");
}

static LogicalResult loadMachine(Session &session, Machine &machine) {
  const CompileOptions &options = session.options();
  std::string device = options.device, file = options.cluster;
  if (!options.calibrate.empty()) {
    if (std::string error = calibrate(options, session.reporter());
        !error.empty())
      return session.fail(error);
    (options.links.empty() ? device : file) = options.calibrate;
  }
  if (options.cluster.empty())
    return session.fail("--cluster is missing: give a cluster.json, or local:N "
                        "for N ranks on this machine");
  Expected<cost::Cluster> loaded = cost::loadCluster(file, device);
  if (!loaded)
    return session.fail(loaded.message());
  machine.cluster = std::move(*loaded);
  if (!file.starts_with("local:"))
    for (const std::string &line : cost::implausibleNumbers(machine.cluster)) {
      session.reporter().warning(file + ": " + line);
      session.remark(file + ": " + line);
    }
  for (const std::string &line : cost::partialDomains(machine.cluster))
    session.notice(file + ": " + line);
  for (const OtherCluster &other : options.otherClusters) {
    Expected<cost::Cluster> found = cost::loadCluster(other.file, device);
    if (!found)
      return session.fail(found.message());
    machine.others.push_back(std::move(*found));
  }
  Status arranged = cost::arrangeInPlace(
      machine.cluster, cost::groupsNamedIn(options.strategy), machine.places);
  machine.isArranged = !machine.places.empty();
  return arranged ? success() : session.fail(arranged.message());
}

/// Finds the files of weights. Describes them at once, because the offsets in
/// the program are those of the present files.
static LogicalResult findSources(Session &session, Loaded &loaded) {
  const CompileOptions &options = session.options();
  makeSourcesAbsolute(*loaded.model);
  if (printsProgram(options))
    return success();
  for (const std::string &file : removeMissingSources(*loaded.model))
    session.remark("'" + file +
                   "' does not exist: the weights in it have no initial "
                   "values");
  if (!options.emit.count("plan"))
    return success();
  auto files = describeSources(*loaded.model, loaded.initialValues);
  if (!files)
    return session.fail(files.message());
  loaded.sourceFiles = std::move(*files);
  return success();
}

bool hasDropout(ModuleOp model) {
  auto forward = model.lookupSymbol<func::FuncOp>(kForwardFunction);
  if (!forward)
    return false;
  return llvm::any_of(forward.getArguments(), [&](BlockArgument argument) {
    return roleOf(argument) == role::kScalar;
  });
}

FailureOr<Loaded> load(Session &session) {
  const CompileOptions &options = session.options();
  session.begin("reading " + rt::oneLine(options.model));
  Loaded loaded;
  if (!printsProgram(options) && failed(loadMachine(session, loaded.machine)))
    return failure();
  if (!options.init.empty()) {
    Expected<rt::InitChoice> choice = rt::InitChoice::parse(options.init);
    if (!choice)
      return session.fail(choice.status().message());
    if (options.initPartial && !choice->file)
      return session.fail("--init-partial is for --init=FILE, not for --init=" +
                          options.init);
    choice->isPartial = options.initPartial;
    loaded.initialValues = std::move(*choice);
  }
  loaded.model = loadModel(options, session.context());
  if (!loaded.model)
    return session.fail(options.model + ": cannot be imported");
  if (std::string why = whyNoStep(options, *loaded.model); !why.empty())
    return session.fail(why);
  if (options.seed != 0 && !hasDropout(*loaded.model))
    session.notice("--seed=" + std::to_string(options.seed) +
                   " changes nothing: the model has no dropout");
  if (failed(findSources(session, loaded)))
    return failure();
  return loaded;
}

} // namespace dpc
