//===- Case.cpp - Compiles and runs one model -----------------------------===//
#include "tools/dpc-cases/Case.h"

#include "passes/graph/Passes.h"
#include "passes/shard/Passes.h"
#include "tools/dpc-cases/CaseProgram.h"
#include "tools/driver/Inputs.h"
#include "tools/driver/Load.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"

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
              " fields; expected name, model and folder, separated by tabs";
    else
      cases.push_back({fields[0].str(), fields[1].str(), fields[2].str()});
  }
  return error.empty() ? cases : std::vector<Case>();
}

CaseRunner::CaseRunner(int64_t ranks) : ranks(ranks) {
  DialectRegistry registry;
  registerEverything(registry);
  // No threads, because a forked process would not have them.
  context =
      std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
}

CaseRunner::~CaseRunner() = default;

std::string fileOf(const std::string &folder, std::string name) {
  llvm::replace(name, '/', '_');
  return folder + "/" + name + ".npy";
}

Expected<rt::HostTensor> readTensor(const std::string &path, rt::DType type) {
  Expected<rt::NpyArray> array = rt::openNpy(path);
  if (!array)
    return array.status();
  rt::HostTensor tensor = rt::HostTensor::zeros(type, array->shape);
  rt::convertElements(array->data, array->dtype, tensor.data.data(), type,
                      tensor.elements());
  return tensor;
}

Expected<std::map<std::string, rt::HostTensor>>
readInputs(const rt::Plan &plan, const std::string &folder) {
  std::map<std::string, rt::HostTensor> inputs;
  for (const rt::Port &port : plan.inputs) {
    std::string path = fileOf(folder, port.name);
    auto tensor = readTensor(path, port.dtype);
    if (!tensor)
      return tensor.status();
    if (tensor->shape != port.globalShape)
      return Status::invalid(
          path + ": found " + rt::describe(tensor->dtype, tensor->shape) +
          ", expected " + rt::describe(port.dtype, port.globalShape));
    inputs[port.name] = std::move(*tensor);
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

OwningOpRef<ModuleOp> loadFused(const CompileOptions &options,
                                MLIRContext &context) {
  OwningOpRef<ModuleOp> program = loadModel(options, context);
  if (!program)
    return {};
  makeSourcesAbsolute(*program);
  bool isFused = succeeded(runPasses(*program, addFusionPhase));
  return isFused ? std::move(program) : OwningOpRef<ModuleOp>();
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
  SilencedErrors error(context.get());
  CompileOptions options;
  options.model = one.model;
  options.infer = true;
  std::string why;
  OwningOpRef<ModuleOp> program = loadFused(options, *context);
  if (!program || failed(runPasses(*program, graphPasses(options, false))))
    why = "import failed";
  else if (auto plan = buildOnRanks(*program, options, ranks, one.folder))
    why = runPlan(*plan, one.folder);
  else
    why = "compilation failed";
  return why.empty() || error.text().empty() ? why : error.text();
}

} // namespace dpc
