//===- Gradients.cpp - Compiled gradients and finite differences ----------===//
#include "passes/graph/Autodiff.h"
#include "passes/graph/Passes.h"
#include "tools/dpc-cases/CaseProgram.h"
#include "tools/driver/Pipelines.h"
#include "tools/driver/Session.h"

#include "llvm/ADT/TypeSwitch.h"

#include <filesystem>
#include <fstream>
#include <set>

using namespace mlir;

namespace fs = std::filesystem;

namespace dpc {

using Tensors = std::map<std::string, rt::HostTensor>;

/// Half the distance between the two points of a central difference. In f64,
/// the error of the formula (step^2 f''' / 6) is about as large as the rounding
/// error (1e-16 f / step).
static constexpr double kStep = 2e-5;

template <typename Kind>
static void addKinds(std::vector<std::string> &ops, StringRef name, Kind last) {
  for (uint32_t i = 0; i <= static_cast<uint32_t>(last); ++i)
    ops.push_back((name + " " + stringifyEnum(static_cast<Kind>(i))).str());
}

std::vector<std::string> CaseRunner::listDifferentiable() const {
  std::vector<std::string> ops;
  for (RegisteredOperationName name : context->getRegisteredOperations())
    if (name.getDialectNamespace() == "dpc" &&
        name.hasInterface<VjpOpInterface>()) {
      StringRef text = name.getStringRef();
      if (text == UnaryOp::getOperationName())
        addKinds(ops, text, UnaryKind(getMaxEnumValForUnaryKind()));
      else if (text == BinaryOp::getOperationName())
        addKinds(ops, text, BinaryKind(getMaxEnumValForBinaryKind()));
      else if (text == ReduceOp::getOperationName())
        addKinds(ops, text, ReduceKind(getMaxEnumValForReduceKind()));
      else if (text == NormOp::getOperationName())
        addKinds(ops, text, NormKind(getMaxEnumValForNormKind()));
      else
        ops.push_back(text.str());
    }
  return ops;
}

static std::string nameOf(Operation &op) {
  StringRef kind =
      llvm::TypeSwitch<Operation *, StringRef>(&op)
          .Case<UnaryOp, BinaryOp, ReduceOp, NormOp>(
              [](auto known) { return stringifyEnum(known.getKind()); })
          .Default(StringRef());
  std::string name = op.getName().getStringRef().str();
  return kind.empty() ? name : name + " " + kind.str();
}

static void writeOps(ModuleOp program, const std::string &path) {
  auto forward = program.lookupSymbol<func::FuncOp>(kForwardFunction);
  SmallVector<Value> parameters;
  for (BlockArgument argument : forward.getArguments()) {
    auto role = forward.getArgAttrOfType<StringAttr>(argument.getArgNumber(),
                                                     attr::kRole);
    if (role && role.getValue() == role::kParameter)
      parameters.push_back(argument);
  }
  llvm::DenseSet<Value> active = dependents(forward.front(), parameters);
  std::set<std::string> names;
  for (Operation &op : forward.front().without_terminator())
    if (llvm::any_of(op.getOperands(),
                     [&](Value value) { return active.contains(value); }))
      names.insert(nameOf(op));
  std::ofstream file(path);
  for (const std::string &name : names)
    file << name << "\n";
}

static Expected<Tensors> givenParameters(const rt::Plan &plan,
                                         const std::string &folder) {
  Tensors given;
  for (const rt::Tensor &tensor : plan.tensors) {
    std::string path = fileOf(folder + "/in", tensor.name);
    if (tensor.role != rt::TensorRole::Parameter || !fs::exists(path))
      continue;
    auto value = readTensor(path, tensor.dtype);
    if (!value)
      return value.status();
    given[tensor.name] = std::move(*value);
  }
  return given;
}

namespace {

class Runner {
public:
  Runner(const rt::Plan &plan, std::string folder)
      : plan(plan), folder(std::move(folder)) {}

  std::string load(const std::string &data) {
    auto loaded = rt::KernelLibrary::load(plan, folder);
    if (!loaded)
      return loaded.status().message();
    kernels.emplace(std::move(*loaded));
    auto read = readInputs(plan, data + "/in");
    if (!read)
      return read.status().message();
    inputs = std::move(*read);
    auto values = givenParameters(plan, data);
    if (!values)
      return values.status().message();
    given = std::move(*values);
    return "";
  }

  Expected<rt::RunResult> run(const Tensors &changed = {}) const {
    rt::RunRequest request;
    request.inputs = {inputs};
    request.poison = true;
    request.tensors = changed;
    request.tensors.insert(given.begin(), given.end());
    return rt::runPlan(plan, folder, *kernels, std::move(request));
  }

private:
  const rt::Plan &plan;
  std::string folder;
  std::optional<rt::KernelLibrary> kernels;
  Tensors inputs, given;
};

} // namespace

static bool isTrained(const rt::Plan &plan, const std::string &name) {
  return llvm::any_of(plan.tensors, [&](const rt::Tensor &tensor) {
    return tensor.name == name && tensor.role == rt::TensorRole::Parameter;
  });
}

/// Returns the name of the only output of the model. Other outputs count
/// faults.
static const std::string &modelOutput(const rt::Plan &plan) {
  auto output = llvm::find_if(
      plan.outputs, [](const rt::Port &port) { return port.faults.empty(); });
  return output->name;
}

static std::string writeDifferences(const rt::Plan &plan, const Runner &runner,
                                    const Tensors &values,
                                    const std::string &folder) {
  Tensors slopes;
  const std::string &lossName = modelOutput(plan);
  for (const auto &[name, value] : values) {
    if (!isTrained(plan, name))
      continue;
    rt::HostTensor slope = rt::HostTensor::zeros(rt::DType::F64, value.shape);
    for (int64_t i = 0; i < value.elements(); ++i) {
      double loss[2] = {};
      for (int side : {0, 1}) {
        Tensors moved = {{name, value}};
        moved[name].set(i, value.at(i) + (side ? kStep : -kStep));
        auto result = runner.run(moved);
        if (!result)
          return result.status().message();
        loss[side] = result->outputs.front().at(lossName).at(0);
      }
      slope.set(i, (loss[1] - loss[0]) / (2 * kStep));
    }
    slopes[name] = std::move(slope);
  }
  return writeTensors(slopes, folder);
}

static std::string writeGradients(const rt::Plan &plan, const Runner &runner,
                                  const Tensors &before,
                                  const std::string &folder) {
  auto result = runner.run();
  if (!result)
    return "the training step does not run: " + result.status().message();
  Tensors gradients;
  for (const auto &[name, value] : before) {
    auto after = result->tensors.find(name);
    if (!isTrained(plan, name) || after == result->tensors.end())
      continue;
    rt::HostTensor gradient =
        rt::HostTensor::zeros(rt::DType::F64, value.shape);
    for (int64_t i = 0; i < value.elements(); ++i)
      gradient.set(i, value.at(i) - after->second.at(i));
    gradients[name] = std::move(gradient);
  }
  return writeTensors(gradients, folder);
}

static std::string differentiateModel(const Case &one, int64_t ranks,
                                      MLIRContext &context) {
  CompileOptions options;
  options.model = one.model;
  options.train = "sgd";
  options.lr = 1;
  if (StringRef(one.model).ends_with(".onnx"))
    options.trainable = {"*"}; // also train weights that look like tables
  auto forward = loadFused(options, context);
  if (!forward)
    return "import failed";
  OwningOpRef<ModuleOp> step = forward->clone();
  writeOps(*forward, one.folder + "/ops.txt");
  std::string there = one.folder + "/forward", back = one.folder + "/step";
  std::error_code code;
  fs::create_directories(there, code);
  fs::create_directories(back, code);
  std::optional<rt::Plan> plan, training;
  if (succeeded(runPasses(*forward, graphPasses(options, false))))
    plan = buildOnRanks(*forward, options, 1, there);
  if (plan && succeeded(runPasses(*step, graphPasses(options, true))))
    training = buildOnRanks(*step, options, ranks, back);
  if (!training)
    return plan ? "differentiation failed" : "compilation failed";
  Runner forwards(*plan, there), steps(*training, back);
  for (Runner *runner : {&forwards, &steps})
    if (std::string why = runner->load(one.folder); !why.empty())
      return why;
  auto start = forwards.run();
  if (!start)
    return "the plan does not run: " + start.status().message();
  std::string why = writeGradients(*training, steps, start->tensors,
                                   one.folder + "/gradient");
  return why.empty() ? writeDifferences(*plan, forwards, start->tensors,
                                        one.folder + "/numeric")
                     : why;
}

std::string CaseRunner::differentiate(const Case &one) const {
  SilencedErrors error(context.get());
  std::string why = differentiateModel(one, ranks, *context);
  return why.empty() || error.text().empty() ? why : error.text();
}

} // namespace dpc
