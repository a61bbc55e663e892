//===- LocalTest.cpp - Helpers of the tests of passes/local ---------------===//
#include "test/unit/local/LocalTest.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassRegistry.h"
#include "passes/local/Passes.h"

using namespace mlir;

namespace dpc::test {

MLIRContext &testContext() {
  static MLIRContext *context = [] {
    auto *made = new MLIRContext(MLIRContext::Threading::DISABLED);
    made->loadDialect<DpcDialect, func::FuncDialect>();
    registerLocalPasses();
    return made;
  }();
  return *context;
}

OwningOpRef<ModuleOp> parse(const std::string &source) {
  auto module = parseSourceString<ModuleOp>(source, &testContext());
  EXPECT_TRUE(module) << source;
  return module;
}

bool runPasses(ModuleOp module, const std::string &pipeline) {
  PassManager manager(&testContext());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(parsePassPipeline(pipeline, manager, stream))) {
    ADD_FAILURE() << message;
    return false;
  }
  return succeeded(manager.run(module));
}

std::vector<HostArray> makeInputs(func::FuncOp func, bool fractions) {
  std::vector<HostArray> inputs;
  uint64_t state = 12345;
  for (BlockArgument argument : func.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    HostArray input({type.getShape().begin(), type.getShape().end()});
    bool integers = isa<IntegerType>(type.getElementType());
    for (int64_t i = 0; i < input.size(); ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      int64_t draw = static_cast<int64_t>(state >> 33);
      if (integers)
        input[i] = static_cast<double>(draw % 5);
      else
        input[i] = fractions ? static_cast<double>(draw % 2001 - 1000) / 1000
                             : static_cast<double>(draw % 7 - 3);
    }
    // Second moments must not be negative. Scalars are 1, because they are step
    // numbers or learning rates.
    auto role =
        func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kRole);
    if (role && role.getValue() == role::kState)
      for (double &x : input.data)
        x = std::abs(x);
    if (type.getRank() == 0)
      input[0] = 1;
    roundTo(type.getElementType(), input);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

static std::string compare(const HostArray &got, const HostArray &want,
                           double tolerance, size_t index) {
  if (got.shape != want.shape)
    return "result " + std::to_string(index) + " has another shape";
  for (int64_t i = 0; i < got.size(); ++i) {
    double limit = tolerance * (1 + std::abs(want[i]));
    if (got[i] == want[i] || std::abs(got[i] - want[i]) <= limit)
      continue;
    return "result " + std::to_string(index) + " element " + std::to_string(i) +
           ": " + std::to_string(got[i]) + ", one device has " +
           std::to_string(want[i]);
  }
  return "";
}

std::string compareWithOneDevice(ModuleOp module, double tolerance,
                                 const std::string &passes,
                                 llvm::function_ref<void(ModuleOp)> mutate) {
  auto sharded = module.lookupSymbol<func::FuncOp>("train_step");
  if (!sharded)
    sharded = module.lookupSymbol<func::FuncOp>("forward");
  std::vector<HostArray> inputs = makeInputs(sharded, tolerance > 0);
  std::vector<HostArray> want = runGlobal(sharded, inputs);
  if (!runPasses(module, "dpc-partition" + passes + ",dpc-verify-local"))
    return "passes failed";
  if (mutate)
    mutate(module);
  RankResult got = runRanks(module.lookupSymbol<func::FuncOp>("step"), inputs);
  if (tolerance == 0 && !got.disagreement.empty())
    return got.disagreement;
  for (size_t i = 0; i < want.size(); ++i) {
    std::string difference = compare(got.outputs[i], want[i], tolerance, i);
    if (!difference.empty())
      return difference;
  }
  return "";
}

int dropMasks(ModuleOp module) {
  int count = 0;
  module.walk([&](MaskOp mask) {
    mask.getResult().replaceAllUsesWith(mask.getX());
    mask.erase();
    ++count;
  });
  return count;
}

int countOps(ModuleOp module, llvm::StringRef name) {
  int count = 0;
  module.lookupSymbol<func::FuncOp>("step").walk(
      [&](Operation *op) { count += op->getName().getStringRef() == name; });
  return count;
}

std::string fillIn(std::string text,
                   const std::map<std::string, std::string> &bindings) {
  // In reverse order, so that $ab is not read as $a.
  for (const auto &[name, value] : llvm::reverse(bindings))
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  return text;
}

} // namespace dpc::test
