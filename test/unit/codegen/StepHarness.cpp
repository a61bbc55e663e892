//===- StepHarness.cpp - Compiles a @step and runs its plan ---------------===//
#include "test/unit/codegen/StepHarness.h"

#include "ir/Dialect.h"
#include "passes/local/FuseEpilogues.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/kernels/Attention.h"
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/kernels/ExpertTiles.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/plan/PlanValidate.h"

#include "mlir/Parser/Parser.h"

#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace mlir;

namespace dpc::test {

#ifdef DPC_TEST_GPU_EMULATION
/// Wraps loose ops in kernels and fuses epilogues, like the passes for GPUs.
static void fuseEpiloguesOf(func::FuncOp step) {
  SmallVector<Operation *> loose;
  for (Operation &op : step.getBody().front())
    if (KernelRole role = kernelRole(&op);
        role == KernelRole::elementwise || role == KernelRole::reduction)
      loose.push_back(&op);
  for (Operation *op : loose) {
    OpBuilder builder(op);
    OperationState state(op->getLoc(), KernelOp::getOperationName());
    state.addOperands(op->getOperands());
    state.addTypes(op->getResultTypes());
    state.addAttributes(op->getDiscardableAttrDictionary().getValue());
    auto *body = new Block;
    state.addRegion()->push_back(body);
    Operation *kernel = builder.create(state);
    IRMapping map;
    for (Value operand : op->getOperands())
      map.map(operand, body->addArgument(operand.getType(), op->getLoc()));
    builder.setInsertionPointToEnd(body);
    Operation *inner = builder.clone(*op, map);
    YieldOp::create(builder, op->getLoc(), inner->getResults());
    op->replaceAllUsesWith(kernel->getResults());
    op->erase();
  }
  fuseEpilogues(step);
}
#endif

BuiltPlan::BuiltPlan(const std::string &text,
                     const codegen::CodegenOptions &options,
                     llvm::function_ref<void(func::FuncOp)> prepare) {
  MLIRContext context;
  context.loadDialect<DpcDialect, func::FuncDialect>();
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return success();
  });
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return;
  SmallVector<func::FuncOp> steps(module->getOps<func::FuncOp>());
  if (prepare)
    llvm::for_each(steps, prepare);
  auto draft = codegen::buildPlan(steps, options);
  if (failed(draft))
    return;
  char name[] = "/tmp/dpc-codegen-XXXXXX";
  folder = mkdtemp(name);
  if (failed(codegen::writeKernels(*draft, folder)))
    return;
  plan = draft->plan;
  auto sourceFiles = rt::findSourceFiles(plan, folder);
  if (!sourceFiles) {
    error = sourceFiles.message();
    return;
  }
  plan.sourceFiles = *sourceFiles;
  rt::Plan checked = plan;
  // The plan names GPU kernels, but emulated kernels are compiled for the CPU.
  if (options.emulatesGpu && !plan.kernelFile.empty())
    checked.kernelFile = "kernels.ptx";
  if (Status status = rt::validatePlan(checked, "test"); !status.ok())
    error = status.message();
}

BuiltPlan::~BuiltPlan() {
  if (!folder.empty())
    std::filesystem::remove_all(folder);
}

static codegen::CodegenOptions optionsFor(const std::string &targetGpu,
                                          bool emulates) {
  codegen::CodegenOptions options;
  options.model = "test";
  options.targetGpu = targetGpu;
  options.emulatesGpu = emulates;
  return options;
}

Step::Step(const std::string &text)
#ifdef DPC_TEST_GPU_EMULATION
    : BuiltPlan(text, optionsFor("sm_90", true), fuseEpiloguesOf) {
#else
    : BuiltPlan(text, optionsFor("", false)) {
#endif
  if (!plan.kernelFile.empty()) {
    std::string path = folder + "/kernels/" + plan.kernelFile;
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      error = dlerror();
  }
  if (plan.arenaBytes.empty())
    return;
  arena.resize(plan.arenaBytes[0] + 64);
  // NaN reveals reads of memory that no instruction has written.
  std::memset(arena.data(), 0xff, arena.size());
}

Step::~Step() {
  if (library)
    dlclose(library);
}

int Step::bufferOf(const std::string &name) const {
  for (const rt::Tensor &tensor : plan.tensors)
    if (tensor.name == name)
      return tensor.buffer;
  for (const rt::ScalarInput &scalar : plan.scalars)
    if (scalar.name == name)
      return scalar.buffer;
  for (const auto *ports : {&plan.inputs, &plan.outputs})
    for (const rt::Port &port : *ports)
      if (port.name == name)
        return port.buffer;
  ADD_FAILURE() << "no buffer called " << name << "; " << error;
  return -1;
}

char *Step::at(int buffer) {
  auto base = reinterpret_cast<uintptr_t>(arena.data());
  uintptr_t aligned = (base + 63) / 64 * 64;
  return reinterpret_cast<char *>(aligned) + plan.buffers[buffer].offset;
}

void Step::set(const std::string &name, const Array &values) {
  int id = bufferOf(name);
  if (id < 0)
    return;
  const rt::Buffer &buffer = plan.buffers[id];
  ASSERT_EQ(static_cast<int64_t>(values.size()), rt::numElements(buffer.shape));
  inputs[name] = values;
  for (size_t i = 0; i < values.size(); ++i)
    rt::storeFromDouble(at(id), buffer.dtype, i, values[i]);
}

Array Step::get(const std::string &name) const {
  int id = bufferOf(name);
  if (id < 0)
    return {};
  const rt::Buffer &buffer = plan.buffers[id];
  Array values(rt::numElements(buffer.shape));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] =
        rt::loadAsDouble(const_cast<Step *>(this)->at(id), buffer.dtype, i);
  return values;
}

void Step::expect(const Values &values, double tolerance) const {
  for (const auto &[name, expected] : values) {
    SCOPED_TRACE(name);
    expectClose(get(name), expected, tolerance);
  }
}

void Step::execute(const rt::Instruction &instruction, int64_t rank,
                   int64_t mb) {
  if (auto *op = std::get_if<rt::KernelOp>(&instruction.op)) {
    auto *function = reinterpret_cast<void (*)(void *const *, const int64_t *)>(
        dlsym(library, op->symbol.c_str()));
    ASSERT_NE(function, nullptr) << op->symbol;
    std::vector<void *> pointers;
    pointers.reserve(op->buffers.size());
    for (int id : op->buffers)
      pointers.push_back(at(id));
    std::vector<int64_t> scalars;
    scalars.reserve(op->scalars.size());
    for (const rt::ScalarExpr &scalar : op->scalars)
      scalars.push_back(rt::evaluate(scalar, plan.mesh, rank, mb));
    function(pointers.data(), scalars.data());
  } else if (auto *op = std::get_if<rt::MatmulOp>(&instruction.op)) {
    auto type = [&](int id) { return plan.buffers[id].dtype; };
    Status status = rt::runMatmul(*op, at(op->a), type(op->a), at(op->b),
                                  type(op->b), at(op->c), type(op->c),
                                  op->bias < 0 ? nullptr : at(op->bias),
                                  op->aux < 0 ? nullptr : at(op->aux));
    EXPECT_EQ(status.message(), "");
  } else if (auto *op = std::get_if<rt::ExpertMatmulOp>(&instruction.op)) {
    auto own = [&](const rt::ScalarExpr &expr) {
      return rt::evaluate(expr, plan.mesh, rank, mb);
    };
    auto arrays =
        rt::expertArrays(plan, *op, own, [&](int id) { return at(id); });
    EXPECT_EQ(rt::runExpertMatmul(*op, arrays).message(), "");
  } else if (auto *op = std::get_if<rt::ExpertTilesOp>(&instruction.op)) {
    runTiles(*op, rank, mb);
  } else if (auto *op = std::get_if<rt::ConvOp>(&instruction.op)) {
    Status status = rt::runConv(*op, at(op->x), at(op->w), at(op->y));
    EXPECT_EQ(status.message(), "");
  } else if (auto *op = std::get_if<rt::AttentionOp>(&instruction.op)) {
    auto data = rt::attentionData(*op, [&](int id) { return at(id); });
    EXPECT_EQ(rt::runAttention(*op, data).message(), "");
  } else if (auto *op = std::get_if<rt::AttentionGradOp>(&instruction.op)) {
    auto data = rt::attentionData(*op, [&](int id) { return at(id); });
    EXPECT_EQ(rt::runAttention(*op, data).message(), "");
  } else if (auto *op = std::get_if<rt::FillOp>(&instruction.op)) {
    const rt::Buffer &buffer = plan.buffers[op->buffer];
    for (int64_t i = 0; i < rt::numElements(buffer.shape); ++i)
      rt::storeFromDouble(at(op->buffer), buffer.dtype, i, op->value);
  } else if (auto *op = std::get_if<rt::CopyOp>(&instruction.op)) {
    std::memcpy(at(op->out) + op->outOffset, at(op->in) + op->inOffset,
                op->bytes);
  } else if (auto *op = std::get_if<rt::LoadInputOp>(&instruction.op)) {
    const rt::Port &port = plan.inputs[op->input];
    if (inputs.count(port.name))
      set(port.name, inputs[port.name]);
  } else if (!std::holds_alternative<rt::StoreOutputOp>(instruction.op) &&
             !std::holds_alternative<rt::AllReduceOp>(instruction.op)) {
    ADD_FAILURE() << "the harness cannot run " << rt::opName(instruction.op);
  }
}

void Step::runTiles(const rt::ExpertTilesOp &op, int64_t rank, int64_t mb) {
  auto own = [&](const rt::ScalarExpr &expr) {
    return rt::evaluate(expr, plan.mesh, rank, mb);
  };
  rt::ExpertCounts counts;
  Status status = rt::runExpertTiles(
      plan, op, rt::expertIds(plan, op, own, at(op.ids)),
      [&](int id) { return at(id); },
      [&] {
        for (const rt::Instruction &inner : op.body)
          execute(inner, rank, mb);
        return Status::success();
      },
      counts);
  EXPECT_EQ(status.message(), "");
}

void Step::run(const Values &arguments, int64_t rank) {
  ASSERT_EQ(error, "");
  for (const auto &[name, values] : arguments)
    set(name, values);
  for (const rt::ScheduleEntry &entry : plan.schedule[rank])
    for (const rt::Instruction &instruction : plan.phases[entry.phase]) {
      execute(instruction, rank, entry.microBatch);
      if (checksNumbers)
        expectNumbers(instruction);
    }
}

void Step::expectNumbers(const rt::Instruction &instruction) {
  for (int id : rt::accessesOf(instruction, plan).writes) {
    const rt::Buffer &buffer = plan.buffers[id];
    for (int64_t i = 0, e = rt::numElements(buffer.shape); i < e; ++i)
      if (std::isnan(rt::loadAsDouble(at(id), buffer.dtype, i))) {
        ADD_FAILURE() << "element " << i << " of " << buffer.name << " after "
                      << instruction.name;
        break;
      }
  }
}

std::string ptxOf(const std::string &text, const std::string &targetGpu) {
  BuiltPlan built(text, optionsFor(targetGpu, false));
  EXPECT_EQ(built.error, "");
  std::ifstream in(built.folder + "/kernels/" + built.plan.kernelFile);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string argument(const std::string &name, const std::string &type,
                     const std::string &role, const std::string &more) {
  return "%" + name + ": tensor<" + type + "> {dpc.role = \"" + role +
         "\", dpc.name = \"" + name + "\"" + more + "}";
}

std::string replaceAll(std::string text, const std::string &from,
                       const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string substitute(std::string text,
                       const std::map<std::string, std::string> &words) {
  for (const auto &[name, word] : words)
    text = replaceAll(std::move(text), "${" + name + "}", word);
  return text;
}

size_t countOf(const std::string &text, const std::string &what) {
  return llvm::StringRef(text).count(what);
}

void expectSays(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

Array randomArray(int64_t count, int seed, double low, double high) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  Array values(count);
  for (double &value : values)
    value = static_cast<float>(distribution(random));
  return values;
}

void adamwReference(Array &p, Array &m, Array &v, const Array &g) {
  for (size_t i = 0; i < p.size(); ++i) {
    double grad = 0.5 * g[i];
    m[i] = 0.9 * m[i] + 0.1 * grad;
    v[i] = 0.95 * v[i] + 0.05 * grad * grad;
    p[i] *= 1 - 0.01 * 0.1;
    p[i] -= 0.01 / (1 - std::pow(0.9, 3)) * m[i] /
            (std::sqrt(v[i]) / std::sqrt(1 - std::pow(0.95, 3)) + 1e-8);
  }
}

void expectClose(const Array &actual, const Array &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isnan(expected[i]) && std::isnan(actual[i]))
      continue;
    if (actual[i] == expected[i])
      continue;
    ASSERT_LE(std::abs(actual[i] - expected[i]),
              tolerance * (1 + std::abs(expected[i])))
        << "at " << i << ": " << actual[i] << " is not " << expected[i];
  }
}

} // namespace dpc::test
