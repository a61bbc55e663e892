//===- TorchOpsTest.cpp - ATen targets against torch ----------------------===//
//
// test/fixtures/torch/*.pt2 contain the inputs and torch's results.
//
//===----------------------------------------------------------------------===//
#include "frontends/torch/Archive.h"
#include "frontends/torch/Import.h"
#include "frontends/torch/Json.h"
#include "test/support/RankInterpreter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <gtest/gtest.h>
#include <limits>

using namespace dpc;
using namespace dpc::test;
using namespace mlir;

namespace {

constexpr double kTolerance = 2e-5;

HostArray arrayOf(const nlohmann::json &json) {
  HostArray array(json["shape"].get<std::vector<int64_t>>());
  array.data.clear();
  for (const auto &value : json["data"])
    array.data.push_back(
        value == "inf"    ? std::numeric_limits<double>::infinity()
        : value == "-inf" ? -std::numeric_limits<double>::infinity()
        : value == "nan"  ? std::numeric_limits<double>::quiet_NaN()
                          : value.get<double>());
  return array;
}

void expectAlike(const HostArray &got, const HostArray &want) {
  ASSERT_EQ(got.shape, want.shape);
  for (int64_t n = 0; n < got.size(); ++n) {
    if (std::isnan(want[n]))
      EXPECT_TRUE(std::isnan(got[n])) << "element " << n;
    else if (std::isinf(want[n]))
      EXPECT_EQ(got[n], want[n]) << "element " << n;
    else
      EXPECT_NEAR(got[n], want[n],
                  kTolerance * std::max(1.0, std::abs(want[n])))
          << "element " << n;
  }
}

class TorchOps : public testing::TestWithParam<const char *> {};

} // namespace

namespace {

/// Imports test/fixtures/torch/NAME.pt2 and compares its results with torch's.
void expectTorchs(const std::string &name, const ImportOptions &options) {
  std::string path = DPC_FIXTURES "/torch/" + name + ".pt2";
  auto buffer = llvm::MemoryBuffer::getFile(path);
  ASSERT_TRUE(buffer) << path;
  auto archive = frontend::pt2::Archive::open(std::move(*buffer), path);
  ASSERT_TRUE(!!archive);
  const auto *record = (*archive)->find("expected.json");
  ASSERT_TRUE(record);
  auto text = (*archive)->read("expected.json", *record, 1 << 24);
  ASSERT_TRUE(!!text);
  nlohmann::json expected = nlohmann::json::parse(*text);

  MLIRContext context;
  auto module = importTorch(path, context, options);
  ASSERT_TRUE(succeeded(module));
  auto function = (*module)->lookupSymbol<func::FuncOp>("forward");
  std::vector<HostArray> inputs;
  for (const auto &input : expected["inputs"])
    inputs.push_back(arrayOf(input));
  std::vector<HostArray> got = runGlobal(function, inputs);
  ASSERT_EQ(got.size(), expected["outputs"].size());
  for (size_t n = 0; n < got.size(); ++n) {
    SCOPED_TRACE("result " + std::to_string(n) + " '" +
                 function
                     .getResultAttrOfType<StringAttr>(static_cast<unsigned>(n),
                                                      attr::kName)
                     .getValue()
                     .str() +
                 "'");
    expectAlike(got[n], arrayOf(expected["outputs"][n]));
  }
}

} // namespace

TEST_P(TorchOps, EveryResultIsTorchs) { expectTorchs(GetParam(), {}); }

// As after .eval(): a batch norm without running statistics still normalizes by
// the statistics of the batch. "spatial" has one.
TEST(TorchInference, BatchNormWithoutRunningStatistics) {
  ImportOptions options;
  options.evaluates = true;
  expectTorchs("spatial", options);
}

// The model also drops whole channels. Both are off, and attention is one op.
TEST(TorchInference, AttentionDropsNothing) {
  ImportOptions options;
  options.evaluates = true;
  options.globalBatch = 2;
  MLIRContext context;
  auto module =
      importTorch(DPC_FIXTURES "/torch/attention.pt2", context, options);
  ASSERT_TRUE(succeeded(module));
  auto text = (**module)->getAttrOfType<StringAttr>(attr::kEvaluation);
  ASSERT_TRUE(text);
  EXPECT_EQ(text.getValue(), "dropout off");
  int attentions = 0, selects = 0;
  (*module)->walk([&](AttentionOp) { ++attentions; });
  (*module)->walk([&](SelectOp) { ++selects; });
  EXPECT_EQ(attentions, 1);
  EXPECT_EQ(selects, 0);
}

/// "elementwise" has dropout in evaluation mode, "attention" in training mode.
/// "spatial" has batch norms in both modes.
TEST(TorchModes, EvaluationModeIsNotedUnlessSomethingTrains) {
  for (auto [family, want] :
       {std::pair("elementwise", "dropout is off (1 op)"),
        std::pair("attention", ""), std::pair("spatial", "")}) {
    MLIRContext context;
    ImportOptions options;
    if (family == std::string("attention"))
      options.globalBatch = 2;
    auto module =
        importTorch(DPC_FIXTURES "/torch/" + std::string(family) + ".pt2",
                    context, options);
    ASSERT_TRUE(succeeded(module)) << family;
    auto text = (**module)->getAttrOfType<StringAttr>(attr::kEvaluationMode);
    EXPECT_EQ(text ? text.getValue().str() : "", want) << family;
  }
}

/// Counts the comparisons of indices that refuse all but valid ones, and of
/// these the ones that ignore -100.
static std::pair<int, int> boundedIn(const std::string &family) {
  MLIRContext context;
  auto module =
      importTorch(DPC_FIXTURES "/torch/" + family + ".pt2", context, {});
  EXPECT_TRUE(succeeded(module));
  std::pair<int, int> counts;
  if (succeeded(module))
    (*module)->walk([&](CompareOp op) {
      counts.first += op->hasAttr(attr::kBounded);
      auto label = op->getAttrOfType<IntegerAttr>(attr::kIgnored);
      counts.second += label && label.getInt() == -100;
    });
  return counts;
}

TEST(TorchIndices, OnlyNllLossIgnoresALabel) {
  // nll_loss, gather, scatter twice, and scatter_add.
  EXPECT_EQ(boundedIn("labels"), std::pair(5, 1));
  // one_hot.
  EXPECT_EQ(boundedIn("integers"), std::pair(1, 0));
}

TEST(TorchIndices, BinaryLossesMarkTheirTargets) {
  MLIRContext context;
  auto module = importTorch(DPC_FIXTURES "/torch/rows.pt2", context, {});
  ASSERT_TRUE(succeeded(module));
  int marked = 0;
  (*module)->walk([&](BinaryOp op) {
    auto targets = op->getAttrOfType<IntegerAttr>(attr::kTargets);
    marked += targets && targets.getInt() == 1;
  });
  EXPECT_EQ(marked, 4); // as many as binary losses
}

INSTANTIATE_TEST_SUITE_P(Families, TorchOps,
                         testing::Values("complex", "elementwise", "functions",
                                         "integers", "labels", "losses",
                                         "modes", "movement", "names", "nans",
                                         "places", "products", "recurrent",
                                         "rows", "spatial", "windows",
                                         "writes"),
                         [](const auto &info) { return info.param; });
