//===- ReshardTest.cpp - Reshards between all shardings -------------------===//
#include "passes/local/Passes.h"
#include "passes/shard/ReshardPlan.h"
#include "test/unit/local/LocalTest.h"

using namespace mlir;

namespace dpc::test {
namespace {

MeshAttr makeMesh(std::vector<std::pair<std::string, int64_t>> axes) {
  MLIRContext *context = &testContext();
  SmallVector<StringAttr> names;
  SmallVector<int64_t> sizes;
  for (auto &[name, size] : axes) {
    names.push_back(StringAttr::get(context, name));
    sizes.push_back(size);
  }
  return MeshAttr::get(context, names, sizes);
}

/// Returns all shardings of `base`, whose factors have no axes. Each of the
/// first `axes` axes is unused, partial, or splits one factor in any position.
std::vector<ShardingSpec> allStates(const ShardingSpec &base, int64_t axes) {
  std::vector<ShardingSpec> states{base};
  for (int64_t axis = 0; axis < axes; ++axis) {
    std::vector<ShardingSpec> next = states;
    for (const ShardingSpec &state : states) {
      ShardingSpec partial = state;
      partial.partial.push_back({axis, ReduceKind::sum});
      next.push_back(partial);
      for (size_t d = 0; d < state.dims.size(); ++d)
        for (size_t f = 0; f < state.dims[d].size(); ++f)
          for (size_t at = 0; at <= state.dims[d][f].axes.size(); ++at) {
            ShardingSpec split = state;
            auto &list = split.dims[d][f].axes;
            list.insert(list.begin() + at, axis);
            next.push_back(split);
          }
    }
    states = std::move(next);
  }
  return states;
}

bool becomesPartial(const ShardingSpec &from, const ShardingSpec &to) {
  return llvm::any_of(to.partial, [&](const PartialAxis &p) {
    return !from.partialOver(p.axis);
  });
}

OwningOpRef<ModuleOp> reshardModule(const ShardingSpec &from,
                                    const ShardingSpec &to) {
  OpBuilder builder(&testContext());
  Location loc = builder.getUnknownLoc();
  auto shape = from.globalShape();
  auto in = getSharded(shape, builder.getF32Type(), from.toAttr());
  auto out = getSharded(shape, builder.getF32Type(), to.toAttr());
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToEnd(module->getBody());
  auto func = func::FuncOp::create(builder, loc, "forward",
                                   builder.getFunctionType({in}, {out}));
  Block *body = func.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  Value value = ReshardOp::create(builder, loc, out, body->getArgument(0));
  func::ReturnOp::create(builder, loc, value);
  return module;
}

std::string print(const ShardingSpec &spec) {
  std::string text;
  llvm::raw_string_ostream(text) << spec.toAttr();
  return text;
}

/// Checks the reshards from every `fromStep`-th state to every `toStep`-th
/// state, starting at state `toBegin`. Returns how many it checked.
int checkPairs(const std::vector<ShardingSpec> &states, size_t fromStep = 1,
               size_t toBegin = 0, size_t toStep = 1) {
  int pairs = 0;
  for (size_t i = 0; i < states.size(); i += fromStep)
    for (size_t j = toBegin; j < states.size(); j += toStep) {
      if (becomesPartial(states[i], states[j]))
        continue;
      auto module = reshardModule(states[i], states[j]);
      EXPECT_EQ(compareWithOneDevice(*module, 0), "")
          << print(states[i]) << " to " << print(states[j]);
      if (::testing::Test::HasFailure())
        return pairs;
      ++pairs;
    }
  return pairs;
}

class AllPairs : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(AllPairs, TwoDimsTwoAxes) {
  MeshAttr mesh = makeMesh({{"dp", 2}, {"tp", 3}});
  auto states = allStates(ShardingSpec::replicated(mesh, GetParam()), 2);
  EXPECT_EQ(states.size(), 18u);
  EXPECT_GT(checkPairs(states), 200);
}

TEST_P(AllPairs, OtherSizes) {
  MeshAttr mesh = makeMesh({{"dp", 4}, {"tp", 2}});
  auto states = allStates(ShardingSpec::replicated(mesh, GetParam()), 2);
  EXPECT_GT(checkPairs(states), 200);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AllPairs,
                         ::testing::Values(std::vector<int64_t>{8, 16},
                                           std::vector<int64_t>{7, 9},
                                           std::vector<int64_t>{3, 5},
                                           std::vector<int64_t>{1, 5}));

/// A dimension of 60 = 3 x 4 x 5 with factors split over dp and tp.
TEST(Reshard, Factored) {
  MeshAttr mesh = makeMesh({{"dp", 2}, {"tp", 3}});
  ShardingSpec factored = ShardingSpec::replicated(mesh, {6, 60});
  factored.dims[1] = {{3, {}}, {4, {}}, {5, {}}};
  std::vector<ShardingSpec> states = allStates(factored, 2);
  // Splits of the whole dimension do not nest with splits of its factors.
  for (const ShardingSpec &plain :
       allStates(ShardingSpec::replicated(mesh, {6, 60}), 2))
    states.push_back(plain);
  EXPECT_GT(checkPairs(states, 3, 1, 4), 50);
}

TEST(Reshard, ThreeAxesInOneDimension) {
  MeshAttr mesh = makeMesh({{"a", 2}, {"b", 3}, {"c", 2}});
  std::vector<ShardingSpec> states =
      allStates(ShardingSpec::replicated(mesh, {13, 11}), 3);
  EXPECT_GT(checkPairs(states, 11, 5, 17), 0);
}

/// Parses the sharding `text` of a [64, 32] tensor over `mesh`.
ShardingSpec spec(const std::string &mesh, const std::string &text) {
  std::string source = "func.func private @f(tensor<64x32xf32, #dpc.sharding<"
                       "#dpc.mesh<" +
                       mesh + ">, " + text + ">>)";
  auto module = parse(source);
  auto func = *module->getOps<func::FuncOp>().begin();
  return *ShardingSpec::get(cast<RankedTensorType>(func.getArgumentTypes()[0]));
}

llvm::StringRef nameOf(ReshardStepKind kind) {
  constexpr llvm::StringLiteral kNames[] = {"accumulate", "rank_slice",
                                            "all_reduce", "reduce_scatter",
                                            "all_gather", "all_to_all"};
  return kNames[static_cast<int>(kind)];
}

std::string planText(const std::string &mesh, const std::string &from,
                     const std::string &to) {
  std::string why;
  auto steps = planReshard(spec(mesh, from), spec(mesh, to), 4, why);
  if (!steps)
    return why;
  std::string text;
  for (const ReshardStep &step : *steps) {
    text += (text.empty() ? "" : " ") + nameOf(step.kind).str();
    for (int64_t axis : step.axes)
      text += ":" + step.before.mesh.getNames()[axis].str();
  }
  return text;
}

TEST(ReshardPlan, Chains) {
  const char *mesh = "dp=4, tp=2";
  EXPECT_EQ(planText(mesh, "[{dp}, {}]", "[{dp}, {}]"), "");
  EXPECT_EQ(planText(mesh, "[{}, {}]", "[{dp}, {tp}]"),
            "rank_slice:dp rank_slice:tp");
  EXPECT_EQ(planText(mesh, "[{}, {}], partial = {dp : sum}", "[{}, {}]"),
            "all_reduce:dp");
  EXPECT_EQ(
      planText(mesh, "[{}, {}], partial = {dp : sum, tp : sum}", "[{}, {}]"),
      "all_reduce:dp:tp");
  EXPECT_EQ(planText(mesh, "[{}, {}], partial = {dp : sum}", "[{dp}, {}]"),
            "reduce_scatter:dp");
  EXPECT_EQ(planText(mesh, "[{dp}, {}]", "[{}, {dp}]"), "all_to_all:dp");
  EXPECT_EQ(planText(mesh, "[{dp, tp}, {}]", "[{}, {}]"), "all_gather:dp:tp");
  EXPECT_EQ(planText(mesh, "[{dp, tp}, {}]", "[{dp}, {tp}]"), "all_to_all:tp");
  EXPECT_EQ(planText(mesh, "[{dp, tp}, {}]", "[{dp}, {}]"), "all_gather:tp");
}

/// A slice over tp before the all_reduce over dp halves its bytes.
TEST(ReshardPlan, SlicesBeforeItReduces) {
  EXPECT_EQ(
      planText("dp=4, tp=2", "[{}, {}], partial = {dp : sum}", "[{}, {tp}]"),
      "rank_slice:tp all_reduce:dp");
}

TEST(ReshardPlan, MicroBatches) {
  const char *mesh = "dp=4, mb=2";
  EXPECT_EQ(
      planText(mesh, "[{}, {}], partial = {dp : sum, mb : sum}", "[{}, {}]"),
      "accumulate:mb all_reduce:dp");
  EXPECT_EQ(planText(mesh, "[{}, {}]", "[{dp, mb}, {}]"),
            "rank_slice:dp rank_slice:mb");
  EXPECT_NE(
      planText(mesh, "[{dp, mb}, {}]", "[{dp}, {}]").find("not supported"),
      std::string::npos);
  EXPECT_NE(planText(mesh, "[{}, {}]", "[{}, {}], partial = {dp : sum}")
                .find("partial over 'dp'"),
            std::string::npos);
}

TEST(ReshardPlan, SlicesOfOneFactorMerge) {
  const char *mesh = "dp=4, tp=2, mb=2";
  EXPECT_EQ(planText(mesh, "[{}, {}]", "[{dp, tp}, {}]"), "rank_slice:dp:tp");
  EXPECT_EQ(planText(mesh, "[{}, {}]", "[{dp, tp, mb}, {}]"),
            "rank_slice:dp:tp rank_slice:mb");
}

TEST(ReshardPlan, Bytes) {
  const char *mesh = "dp=4, tp=2";
  auto bytes = [&](const std::string &from, const std::string &to) {
    return reshardBytes(spec(mesh, from), spec(mesh, to), 4);
  };
  EXPECT_EQ(bytes("[{}, {}], partial = {dp : sum}", "[{}, {}]"),
            2 * 3 * 64 * 32);
  EXPECT_EQ(bytes("[{dp}, {}]", "[{}, {}]"), 3 * 64 * 32);
  EXPECT_EQ(bytes("[{dp}, {}]", "[{}, {dp}]"), 3 * 16 * 32);
  EXPECT_EQ(bytes("[{dp}, {}]", "[{dp}, {}], partial = {tp : sum}"),
            std::nullopt);
}

} // namespace
} // namespace dpc::test
