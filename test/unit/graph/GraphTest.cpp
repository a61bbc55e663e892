//===- GraphTest.cpp - Running graph functions in tests -------------------===//
#include "test/unit/graph/GraphTest.h"
#include "passes/graph/Passes.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <random>

using namespace mlir;
using namespace dpc::test;

MLIRContext &dpc::test::context() {
  static MLIRContext *shared = [] {
    DialectRegistry registry;
    registry.insert<DpcDialect, func::FuncDialect>();
    registerVjpModels(registry);
    registerGraphPasses();
    auto *made = new MLIRContext(registry);
    made->loadAllAvailableDialects();
    return made;
  }();
  return *shared;
}

OwningOpRef<ModuleOp> dpc::test::parse(const std::string &text) {
  auto module = parseSourceString<ModuleOp>(text, &context());
  EXPECT_TRUE(module) << text;
  return module;
}

bool dpc::test::runPasses(ModuleOp module, const std::string &pipeline) {
  PassManager manager(module->getContext());
  if (failed(parsePassPipeline(pipeline, manager)))
    return false;
  return succeeded(manager.run(module));
}

std::vector<HostArray> dpc::test::randomInputs(func::FuncOp func, unsigned seed,
                                               double low, double high,
                                               int64_t integers) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> real(low, high);
  std::uniform_int_distribution<int64_t> integer(0, integers - 1);
  std::vector<HostArray> inputs;
  for (Type type : func.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    HostArray array(tensor.getShape().vec());
    bool isFloat = isa<FloatType>(tensor.getElementType());
    for (double &x : array.data)
      x = isFloat ? real(engine) : static_cast<double>(integer(engine));
    inputs.push_back(std::move(array));
  }
  return inputs;
}

int64_t dpc::test::countOps(ModuleOp module, StringRef name) {
  int64_t count = 0;
  module.walk(
      [&](Operation *op) { count += op->getName().getStringRef() == name; });
  return count;
}

double dpc::test::distance(const HostArray &a, const HostArray &b) {
  if (a.shape != b.shape)
    return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    double difference = std::abs(a[i] - b[i]) / (1.0 + std::abs(b[i]));
    largest = difference <= largest ? largest : difference; // NaN stays
  }
  return largest;
}
