//===- CoverageTest.cpp - Every op has a gradient or a reason -------------===//
#include "test/unit/graph/GraphTest.h"

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

namespace {

/// All ops of the graph altitude must have a gradient, except these ops, for
/// the reason in the second string.
const std::map<std::string, std::string> kWithout = {
    {"dpc.constant", "no operands"},
    {"dpc.iota", "no operands"},
    {"dpc.softmax_grad", "made by differentiation"},
    {"dpc.norm_grad", "made by differentiation"},
    {"dpc.attention_grad", "made by differentiation"},
    {"dpc.expert_matmul_grad", "made by differentiation"},
    {"dpc.cross_entropy_grad", "made by differentiation"},
    {"dpc.cross_entropy_sums", "made after differentiation"},
    {"dpc.max_pool_grad", "made by differentiation"},
    {"dpc.batch_norm_grad", "made by differentiation"},
    {"dpc.global_norm", "made by differentiation"},
    {"dpc.adamw", "made by differentiation"},
    {"dpc.sgd", "made by differentiation"},
    {"dpc.reshard", "sharded altitude"},
};

TEST(Coverage, EveryGraphOpHasAGradientOrAReason) {
  unsigned withGradient = 0;
  for (RegisteredOperationName name : context().getRegisteredOperations()) {
    if (name.getDialectNamespace() != "dpc")
      continue;
    // Only ops of the local altitude have no sharding rule.
    if (!name.hasInterface<ShardingRuleOpInterface>())
      continue;
    std::string text = name.getStringRef().str();
    bool has = name.hasInterface<VjpOpInterface>();
    withGradient += has;
    EXPECT_NE(has, kWithout.contains(text)) << text;
  }
  EXPECT_GE(withGradient, 24u);
}

} // namespace
