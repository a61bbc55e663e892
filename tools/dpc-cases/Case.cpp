//===- Case.cpp - One model, compiled and run once ------------------------===//
#include "tools/dpc-cases/Case.h"

#include "frontends/onnx/Import.h"
#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "runtime/exec/Npy.h"
#include "runtime/exec/RunPlan.h"
#include "tools/dpc-opt/BuildPlan.h"
#include "tools/dpc-opt/Compiler.h"
#include "tools/dpc-opt/Inputs.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
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

struct CaseRunner::State {
  DialectRegistry registry;
  std::unique_ptr<MLIRContext> context;
  int64_t ranks;
};

CaseRunner::CaseRunner(int64_t ranks) : state(std::make_unique<State>()) {
  state->ranks = ranks;
  registerEverything(state->registry);
  // Threads would not live on in forked processes.
  state->context = std::make_unique<MLIRContext>(
      state->registry, MLIRContext::Threading::DISABLED);
  state->context->loadAllAvailableDialects();
}

CaseRunner::~CaseRunner() = default;

static std::string fileOf(const std::string &folder, std::string name) {
  llvm::replace(name, '/', '_');
  return folder + "/" + name + ".npy";
}

/// The inputs of `plan`; numpy has no bf16, which is read from f32.
static rt::Expected<std::map<std::string, rt::HostTensor>>
readInputs(const rt::Plan &plan, const std::string &folder) {
  std::map<std::string, rt::HostTensor> inputs;
  for (const rt::Port &port : plan.inputs) {
    std::string path = fileOf(folder, port.name);
    rt::Expected<rt::NpyArray> array = rt::openNpy(path);
    if (!array)
      return array.status();
    if (array->shape != port.globalShape)
      return rt::Status::invalid(
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
  std::error_code code;
  fs::create_directories(folder + "/out", code);
  for (const auto &[name, value] : result->outputs.front())
    if (rt::Status status = rt::writeNpy(fileOf(folder + "/out", name), value);
        !status.ok())
      return status.message();
  return "";
}

/// Imports and fuses; null after a diagnostic.
static OwningOpRef<ModuleOp> loadProgram(const Case &one, MLIRContext &context,
                                         const CompileOptions &options) {
  auto imported = importOnnx(one.model, context, ImportOptions());
  if (failed(imported))
    return {};
  OwningOpRef<ModuleOp> program = std::move(*imported);
  makeSourcesAbsolute(*program);
  PassManager passes(&context);
  std::string pipeline = "func.func(dpc-simplify,dpc-fuse,dpc-simplify)," +
                         graphPipeline(options, /*trains=*/false);
  if (failed(parsePassPipeline(pipeline, passes)) ||
      failed(passes.run(*program)))
    return {};
  return program;
}

std::string CaseRunner::run(const Case &one) const {
  MLIRContext &context = *state->context;
  std::string why;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      why = diagnostic.str();
    return success();
  });
  auto failed = [&](StringRef phase) {
    return why.empty() ? (phase + " failed").str() : why;
  };
  CompileOptions options;
  options.model = one.model;
  options.infer = true;
  OwningOpRef<ModuleOp> program = loadProgram(one, context, options);
  if (!program)
    return failed("import");
  cost::Result<cost::Cluster> cluster = cost::makeLocalCluster(state->ranks);
  if (!cluster)
    return cluster.error();
  ShardDegrees degrees;
  degrees.dp = state->ranks;
  rt::InitChoice init;
  std::optional<rt::Plan> plan =
      PlanBuilder{options, init}.build(*program, *cluster, degrees, one.folder);
  return plan ? runPlan(*plan, one.folder) : failed("compilation");
}

} // namespace dpc
