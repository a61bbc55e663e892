//===- BandsTest.cpp - Masks by the distance of keys ----------------------===//
#include "passes/graph/AttentionBands.h"
#include "test/unit/graph/GraphTest.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace dpc::test {
namespace {

struct BandCase {
  std::string name;
  int64_t queries, keys;
  std::string mask;     ///< ops that define %m from the positions %t and %s
  std::string expected; ///< "none", or the parts of the band
};

std::string describe(const std::optional<Band> &band) {
  if (!band)
    return "none";
  std::string text = band->causal ? "causal" : "";
  if (band->window)
    text += " window " + std::to_string(*band->window);
  return text;
}

/// Fills in $I, $B for the types of positions and of conditions.
std::string programOf(const BandCase &one) {
  std::string shape = "tensor<2x1x" + std::to_string(one.queries) + "x" +
                      std::to_string(one.keys) + "x";
  std::string text = "func.func @f() -> $B {\n"
                     "  %t = dpc.iota dim = 2 : $I\n"
                     "  %s = dpc.iota dim = 3 : $I\n" +
                     one.mask + "\n  return %m : $B\n}";
  for (auto [name, type] : {std::pair("$I", "i64>"), {"$B", "i1>"}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, 2, shape + type);
  return text;
}

std::string compare(const std::string &name, const std::string &kind,
                    const std::string &a, const std::string &b) {
  return "  " + name + " = dpc.compare " + kind + " " + a + ", " + b +
         " : ($I, $I) -> $B\n";
}

std::string number(const std::string &name, int64_t value) {
  return "  " + name + " = dpc.constant dense<" + std::to_string(value) +
         "> : $I -> $I\n";
}

std::string combine(const std::string &name, const std::string &kind,
                    const std::string &a, const std::string &b,
                    const std::string &type = "$B") {
  return "  " + name + " = dpc.binary " + kind + " " + a + ", " + b + " : (" +
         type + ", " + type + ") -> " + type + "\n";
}

std::vector<BandCase> bandCases() {
  std::string past = compare("%p", "le", "%s", "%t"),
              near = number("%w", 3) + combine("%d", "sub", "%t", "%w", "$I") +
                     compare("%n", "gt", "%s", "%d"),
              both = combine("%m", "logical_and", "%p", "%n");
  std::string future = compare("%f", "gt", "%s", "%t"),
              distant = number("%w", 3) +
                        combine("%d", "sub", "%t", "%s", "$I") +
                        compare("%n", "ge", "%d", "%w"),
              neither = combine("%e", "logical_or", "%f", "%n") +
                        "  %m = dpc.unary logical_not %e : $B -> $B\n";
  std::string hole = number("%w", 2) + compare("%n", "ne", "%s", "%w");
  std::string rows = "[[true, false, false], [true, true, false], "
                     "[true, true, true]]",
              other = "[[true, true, false], [true, true, false], "
                      "[true, true, true]]";
  auto dense = [](const std::string &a, const std::string &b) {
    return "  %m = dpc.constant dense<[[" + a + "], [" + b + "]]> : $B -> $B";
  };
  return {
      {"causal", 5, 5, compare("%m", "le", "%s", "%t"), "causal"},
      {"window", 5, 5, past + near + both, "causal window 3"},
      {"by_distance", 5, 5, future + distant + neither, "causal window 3"},
      {"long_window", 3, 3, past + near + both, "causal"},
      {"one_query", 1, 5, number("%w", 2) + compare("%m", "ge", "%s", "%w"),
       " window 3"},
      {"reversed", 4, 4, compare("%m", "ge", "%s", "%t"), " window 1"},
      {"all", 4, 4, compare("%m", "ge", "%s", "%s"), ""},
      {"starts_early", 3, 5, past + near + both, "none"},
      {"hole", 5, 5, past + hole + both, "none"},
      {"union", 6, 6,
       past + number("%w", 2) + combine("%d", "add", "%t", "%w", "$I") +
           compare("%n", "gt", "%s", "%d") +
           combine("%m", "logical_or", "%p", "%n"),
       "none"},
      {"dense", 3, 3, dense(rows, rows), "causal"},
      {"samples_differ", 3, 3, dense(rows, other), "none"},
      {"hidden_own_key", 4, 4, compare("%m", "lt", "%s", "%t"), "none"},
  };
}

class Bands : public testing::TestWithParam<BandCase> {};

TEST_P(Bands, AreFound) {
  auto module = parse(programOf(GetParam()));
  ASSERT_TRUE(module);
  auto f = module->lookupSymbol<func::FuncOp>("f");
  Value mask = f.getBody().front().getTerminator()->getOperand(0);
  EXPECT_EQ(describe(BandReader().ofCondition(mask, true)),
            GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Masks, Bands, testing::ValuesIn(bandCases()),
                         [](const testing::TestParamInfo<BandCase> &info) {
                           return info.param.name;
                         });

} // namespace
} // namespace dpc::test
