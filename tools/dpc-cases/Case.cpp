//===- Case.cpp - One model, compiled and run once ------------------------===//
#include "tools/dpc-cases/Case.h"

#include "frontends/onnx/Import.h"
#include "frontends/torch/Import.h"
#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "tools/dpc-cases/CaseProgram.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <fstream>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

std::vector<Case> readCases(const std::string &path, std::string &error) {
  std::vector<Case> cases;
  std::ifstream file(path);
  if (!file)
    error = path + ": cannot be read";
  for (std::string line; error.empty() && std::getline(file, line);) {
    llvm::SmallVector<StringRef> fields;
    StringRef(line).split(fields, '\t');
    if (fields.size() != 3)
      error = path + ": line " + std::to_string(cases.size() + 1) + " has " +
              std::to_string(fields.size()) +
              " fields; expected name, model and folder between tabs";
    else
      cases.push_back({fields[0].str(), fields[1].str(), fields[2].str()});
  }
  return error.empty() ? cases : std::vector<Case>();
}

CaseRunner::CaseRunner(int64_t ranks) : state(std::make_unique<State>()) {
  state->ranks = ranks;
  registerEverything(state->registry);
  // Threads would not live on in forked processes.
  state->context = std::make_unique<MLIRContext>(
      state->registry, MLIRContext::Threading::DISABLED);
  state->context->loadAllAvailableDialects();
}

CaseRunner::~CaseRunner() = default;

std::string fileOf(const std::string &folder, std::string name) {
  llvm::replace(name, '/', '_');
  return folder + "/" + name + ".npy";
}

Expected<std::map<std::string, rt::HostTensor>>
readInputs(const rt::Plan &plan, const std::string &folder) {
  std::map<std::string, rt::HostTensor> inputs;
  for (const rt::Port &port : plan.inputs) {
    std::string path = fileOf(folder, port.name);
    Expected<rt::NpyArray> array = rt::openNpy(path);
    if (!array)
      return array.status();
    if (array->shape != port.globalShape)
      return Status::invalid(
          path + ": found " + rt::describe(array->dtype, array->shape) +
          ", expected " + rt::describe(port.dtype, port.globalShape));
    rt::HostTensor tensor = rt::HostTensor::zeros(port.dtype, array->shape);
    rt::convertElements(array->data, array->dtype, tensor.data.data(),
                        tensor.dtype, tensor.elements());
    inputs[port.name] = std::move(tensor);
  }
  return inputs;
}

static std::string runPlan(const rt::Plan &plan, const std::string &folder) {
  auto inputs = readInputs(plan, folder + "/in");
  if (!inputs)
    return inputs.status().message();
  rt::RunRequest request;
  request.inputs = {std::move(*inputs)};
  request.poison = true;
  auto result = rt::runPlan(plan, folder, std::move(request));
  if (!result)
    return "the plan does not run: " + result.status().message();
  return writeTensors(result->outputs.front(), folder + "/out");
}

std::string writeTensors(const std::map<std::string, rt::HostTensor> &tensors,
                         const std::string &folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  for (const auto &[name, value] : tensors)
    if (Status status = rt::writeNpy(fileOf(folder, name), value); !status.ok())
      return status.message();
  return "";
}

static FailureOr<OwningOpRef<ModuleOp>>
importModel(const std::string &model, MLIRContext &context,
            const ImportOptions &options) {
  StringRef file = model;
  if (file.ends_with(".pt2"))
    return importTorch(file, context, options);
  if (!file.ends_with(".mlir"))
    return importOnnx(file, context, options);
  auto parsed = parseSourceFile<ModuleOp>(file, &context);
  if (!parsed)
    return failure();
  return parsed;
}

OwningOpRef<ModuleOp> loadFused(const std::string &model, MLIRContext &context,
                                const ImportOptions &options) {
  auto imported = importModel(model, context, options);
  if (failed(imported))
    return {};
  OwningOpRef<ModuleOp> program = std::move(*imported);
  makeSourcesAbsolute(*program);
  bool isFused = succeeded(runPasses(*program, addFusionPhase));
  return isFused ? std::move(program) : OwningOpRef<ModuleOp>();
}

std::string CaseRunner::attempt(
    const std::function<std::string(MLIRContext &)> &work) const {
  MLIRContext &context = *state->context;
  std::string why;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      why = diagnostic.str();
    return success();
  });
  std::string error = work(context);
  return error.empty() || why.empty() ? error : why;
}

std::optional<rt::Plan> buildOnRanks(ModuleOp program,
                                     const CompileOptions &options,
                                     int64_t ranks, const std::string &folder) {
  Expected<cost::Cluster> cluster = cost::makeLocalCluster(ranks);
  if (!cluster) {
    program.emitError(cluster.message());
    return std::nullopt;
  }
  LoweringSpec degrees;
  degrees.dp = ranks;
  rt::InitChoice init;
  return buildForRanks({options, init}, program, *cluster, degrees, folder);
}

std::string CaseRunner::run(const Case &one) const {
  return attempt([&](MLIRContext &context) -> std::string {
    CompileOptions options;
    options.model = one.model;
    options.infer = true;
    OwningOpRef<ModuleOp> program = loadFused(one.model, context, {});
    if (!program || failed(runPasses(*program, graphPasses(options, false))))
      return "import failed";
    auto plan = buildOnRanks(*program, options, state->ranks, one.folder);
    return plan ? runPlan(*plan, one.folder) : "compilation failed";
  });
}

} // namespace dpc
