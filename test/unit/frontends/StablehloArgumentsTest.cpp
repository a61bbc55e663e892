//===- StablehloArgumentsTest.cpp - Roles and shardings of arguments ------===//
#include "frontends/stablehlo/HloSharding.h"
#include "frontends/stablehlo/Shardings.h"
#include "ir/Attributes.h"
#include "test/unit/frontends/StablehloText.h"

using namespace dpc;
using namespace dpc::frontend;
using namespace dpc::test;
using namespace mlir;

TEST(Shardings, AreRead) {
  auto mesh = hlo::parseMesh("mesh<[\"data\"=2, \"model\"=4]>");
  ASSERT_TRUE(mesh);
  ASSERT_EQ(mesh->size(), 2u);
  EXPECT_EQ((*mesh)[1].name, "model");
  EXPECT_EQ((*mesh)[1].size, 4);
  auto sharding =
      hlo::parseSharding("sharding<@mesh, [{\"data\", \"x\"}, {?}, {}]>");
  ASSERT_TRUE(sharding);
  EXPECT_EQ(sharding->mesh, "mesh");
  ASSERT_EQ(sharding->dims.size(), 3u);
  EXPECT_EQ(sharding->dims[0], (std::vector<std::string>{"data", "x"}));
  EXPECT_TRUE(sharding->isOpen);
  for (StringRef bad : {"", "sharding<@m>", "sharding<@m, [{\"x\":(1)2}]>",
                        "sharding<@m, [{\"x\"}", "sharding<mesh, []>"})
    EXPECT_FALSE(hlo::parseSharding(bad)) << bad.str();
  for (StringRef bad : {"mesh<>", "mesh<[\"x\"=0]>", "mesh<[\"x\"]>"})
    EXPECT_FALSE(hlo::parseMesh(bad)) << bad.str();
}

namespace {

using List = std::vector<int32_t>;

/// Returns the tile of each device, for each dimension.
std::vector<List> listsOf(const std::optional<hlo::HloSharding> &sharding) {
  auto lists = sharding ? sharding->tileOf() : std::nullopt;
  EXPECT_TRUE(lists);
  return lists.value_or(std::vector<List>(8));
}

} // namespace

TEST(Shardings, OfHloAreRead) {
  auto tiles = hlo::parseHloSharding("{devices=[2,1]0,1}");
  ASSERT_TRUE(tiles);
  EXPECT_EQ(tiles->tiles, (Shape{2, 1}));
  EXPECT_EQ(listsOf(tiles)[0], (List{0, 1}));
  EXPECT_TRUE(listsOf(tiles)[1].empty());
  tiles = hlo::parseHloSharding("{devices=[4,2]<=[8]}");
  ASSERT_TRUE(tiles);
  EXPECT_EQ(listsOf(tiles)[0], (List{0, 0, 1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(listsOf(tiles)[1], (List{0, 1, 0, 1, 0, 1, 0, 1}));
  // Two spellings of a tensor that one axis of a 2 x 2 mesh shards.
  for (StringRef text :
       {"{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
        "{devices=[2,1,2]0,2,1,3 last_tile_dims={replicated}}"}) {
    tiles = hlo::parseHloSharding(text);
    ASSERT_TRUE(tiles) << text.str();
    EXPECT_EQ(tiles->tiles, (Shape{2, 1}));
    EXPECT_EQ(listsOf(tiles)[0], (List{0, 1, 0, 1}));
  }
  auto whole = hlo::parseHloSharding("{replicated}");
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->tiles.empty() && !whole->isOpen);
  EXPECT_TRUE(hlo::parseHloSharding("{maximal device=0}")->isOpen);
  for (StringRef bad :
       {"", "replicated", "{devices=[2,1]0}", "{devices=[2,2]<=[2,2]T(0,0)}",
        "{devices=[2,2]<=[3]}", "{devices=[0]<=[0]}", "{manual}",
        "{devices=[1048576,1048576]<=[2]}", "{devices=[2]<=[2] later}",
        "{devices=[2]<=[2] last_tile_dims={manual}}", "{devices=[2]<=[2]"})
    EXPECT_FALSE(hlo::parseHloSharding(bad)) << bad.str();
  for (StringRef bad : {"{devices=[2]0,0}", "{devices=[2]0,7}"})
    EXPECT_FALSE(hlo::parseHloSharding(bad)->tileOf()) << bad.str();
  std::string ones = "1";
  for (int n = 0; n < 100000; ++n)
    ones += ",1";
  EXPECT_FALSE(
      hlo::parseHloSharding("{devices=[1048576]<=[1048576," + ones + "]}"));
}

namespace {

/// A model whose arguments %w, %v and %x have these mhlo.shardings.
std::string sharded(const std::string &w, const std::string &v,
                    const std::string &x) {
  auto of = [](const std::string &text) {
    return text.empty() ? "" : " {mhlo.sharding = \"" + text + "\"}";
  };
  std::string text = R"(
  %h = "stablehlo.dot"(%x, %w) : (tensor<12x8xf32>, tensor<8x16xf32>) -> tensor<12x16xf32>
  %o = "stablehlo.dot"(%h, %v) : (tensor<12x16xf32>, tensor<16x4xf32>) -> tensor<12x4xf32>
  func.return %o : tensor<12x4xf32>)";
  return program("%w: tensor<8x16xf32>" + of(w) + ", %v: tensor<16x4xf32>" +
                     of(v) + ", %x: tensor<12x8xf32>" + of(x),
                 "tensor<12x4xf32>", text);
}

} // namespace

TEST(Shardings, OfHloAreConstraints) {
  ImportOptions options;
  options.trainable = {"arg0", "arg1"};
  Outcome outcome = import(
      sharded("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}",
              "{replicated}", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
      options);
  ASSERT_EQ(outcome.error, "");
  auto degrees =
      (*outcome.module)->getAttrOfType<DictionaryAttr>(attr::kUserDegrees);
  ASSERT_TRUE(degrees);
  EXPECT_EQ(degrees.getAs<IntegerAttr>("dp").getInt(), 2);
  EXPECT_EQ(degrees.getAs<IntegerAttr>("tp").getInt(), 2);
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  auto split = [&](unsigned i) {
    return forward.getArgAttrOfType<DenseI64ArrayAttr>(i, attr::kUserSplit);
  };
  EXPECT_EQ(split(0).asArrayRef(), ArrayRef<int64_t>{1});
  EXPECT_TRUE(split(1).empty());
  std::string batch = "{devices=[2,1]0,1}";
  expectRefused(sharded(batch, "", batch),
                {"'arg0' is split over 'axis0'", "--strategy=zero=3"}, options);
  expectRefused(sharded("{devices=[4,1]<=[4]}", "",
                        "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"),
                {"4 devices in ways that are not axes of one mesh"}, options);
  expectRefused(sharded("{devices=[4,1]<=[4]}", "", batch),
                {"over 2 devices, others are over 4"}, options);
  expectRefused(sharded("{devices=[2]<=[2]}", "", ""),
                {"'arg0' is not understood", "{devices=[2]<=[2]}"}, options);
}

/// Short texts can describe a million devices in many ways.
TEST(Shardings, OfHloTakeLittleMemoryAndTime) {
  auto argument = [](size_t number, const std::string &sharding) {
    return (number ? ", %a" : "%a") + std::to_string(number) +
           ": tensor<8x8x8xf32> {mhlo.sharding = \"" + sharding + "\"}";
  };
  auto of = [](const std::string &arguments) {
    return program(arguments, "tensor<8x8x8xf32>",
                   "  func.return %a0 : tensor<8x8x8xf32>");
  };
  // Each argument is sharded by a different bit of the device number.
  std::string grids, alike;
  for (size_t bit = 0; bit < 200; ++bit) {
    std::string low = std::to_string(1 << bit % 20),
                high = std::to_string(1 << (19 - bit % 20));
    grids += argument(bit, "{devices=[2,1,1,524288]<=[" + high + ",2," + low +
                               "]T(1,0,2) last_tile_dim_replicate}");
    alike += argument(bit, bit % 2 ? "{devices=[1024,1024,1]<=[1048576]}"
                                   : "{devices=[1024,1,1024]<=[1048576]}");
  }
  expectRefused(of(grids),
                {"'arg9'", "in too many ways", "1048576 devices", "accepted"});
  EXPECT_EQ(import(of(alike)).error, "");
  expectRefused(of(argument(0, "{devices=[2,2,1]<=[4]}") +
                   argument(1, "{devices=[1,1,4]<=[2,2]T(1,0)}")),
                {"4 devices in ways that are not axes of one mesh"});
}

TEST(StablehloArguments, DonatedArgumentsFindTheirResultsByPath) {
  // Attributes tie the arguments in order, but the paths take precedence.
  std::string text = R"("builtin.module"() ({
  "func.func"() <{arg_attrs = [{tf.aliasing_output = 0 : i32}, {tf.aliasing_output = 1 : i32}], function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>), res_attrs = [{jax.result_info = "result[0]['b']"}, {jax.result_info = "result[0]['a']"}], sym_name = "main"}> ({
  ^bb0(%a: tensor<4xf32> loc("p['a']"), %b: tensor<4xf32> loc("p['b']")):
    %0 = "stablehlo.negate"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%b, %0) : (tensor<4xf32>, tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ())";
  Outcome outcome = import(text);
  ASSERT_EQ(outcome.error, "");
  auto step = outcome.module->lookupSymbol<func::FuncOp>("train_step");
  Operation *ret = step.front().getTerminator();
  for (unsigned i = 0; i < 2; ++i) {
    auto tied = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies).getInt();
    EXPECT_EQ(isa<BlockArgument>(ret->getOperand(i)), tied == 1);
  }
}

namespace {

/// Whether the first argument's next value is its negative.
bool isNegatedNext(Outcome &outcome) {
  auto step = outcome.module->lookupSymbol<func::FuncOp>("train_step");
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (step.getResultAttrOfType<IntegerAttr>(i, attr::kTies).getInt() == 0)
      return !isa<BlockArgument>(step.front().getTerminator()->getOperand(i));
  return false;
}

} // namespace

/// Both arguments have the path 'w', so attributes decide if they name the
/// results with this path. Otherwise the order decides.
TEST(StablehloArguments, AttributesDecideAmongEqualPaths) {
  auto step = [](const std::string &ofFirst, const std::string &ofSecond) {
    return R"("builtin.module"() ({
  "func.func"() <{arg_attrs = [{)" +
           ofFirst + "}, {" + ofSecond +
           R"(}], function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>), res_attrs = [{jax.result_info = "result[0]['w']"}, {jax.result_info = "result[1]['w']"}, {jax.result_info = "result[2]['other']"}], sym_name = "main"}> ({
  ^bb0(%p: tensor<4xf32> loc("p['w']"), %s: tensor<4xf32> loc("s['w']")):
    %0 = "stablehlo.negate"(%p) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stablehlo.abs"(%p) : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%s, %0, %1) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ())";
  };
  auto alias = [](const std::string &result) {
    return "tf.aliasing_output = " + result;
  };
  Outcome outcome = import(step(alias("1 : i32"), alias("0 : i32")));
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(isNegatedNext(outcome));
  EXPECT_EQ(outcome.remarks.size(), 1u); // output `result.2.other` is dropped
  for (const auto &[first, second] :
       {std::pair(alias("0 : i32"), alias("1 : i32")),
        std::pair(alias("1 : i32"), alias("2 : i32"))}) {
    outcome = import(step(first, second));
    ASSERT_EQ(outcome.error, "");
    EXPECT_FALSE(isNegatedNext(outcome)) << first << ", " << second;
  }
  for (const char *bad : {"4294967296 : i64", "3 : i32", "-1 : i32", "true",
                          "\"1\"", "36893488147419103232 : i128"})
    expectRefused(step(alias(bad), alias("0 : i32")),
                  {"tf.aliasing_output of argument 'p.w' is ", bad,
                   "accepted: the number of a result, less than 3"});
}

namespace {

/// A step with two donated arguments a and b of 4 elements, without names. Its
/// results are (b, -a), named `first` and `second`.
std::string nameless(const std::string &ofA, const std::string &ofB,
                     const std::string &first, const std::string &second) {
  auto info = [](const std::string &text) {
    return text.empty() ? "" : " {jax.result_info = \"" + text + "\"}";
  };
  return program(
      "%a: tensor<4xf32> {" + ofA + "}, %b: tensor<4xf32> {" + ofB + "}",
      "tensor<4xf32>" + info(first) + ", tensor<4xf32>" + info(second),
      "  %n = \"stablehlo.negate\"(%a) : (tensor<4xf32>) -> "
      "tensor<4xf32>\n  func.return %b, %n : tensor<4xf32>, "
      "tensor<4xf32>");
}

} // namespace

TEST(StablehloArguments, DonatedArgumentsWithoutNames) {
  // Attributes choose the results. The paths of the results distinguish
  // parameters from states.
  Outcome outcome = import(nameless("tf.aliasing_output = 1 : i32",
                                    "tf.aliasing_output = 0 : i32",
                                    "result[1].mu['w']", "result[0]['w']"));
  ASSERT_EQ(outcome.error, "");
  EXPECT_TRUE(isNegatedNext(outcome));
  EXPECT_TRUE(outcome.remarks.empty());
  EXPECT_EQ(
      argumentsOf(outcome.module->lookupSymbol<func::FuncOp>("train_step")),
      (std::vector<std::string>{"arg0 parameter", "arg1 state arg0"}));
  // Without attributes and names, the order decides, and a remark says so.
  std::string donor = "jax.buffer_donor = true";
  outcome = import(nameless(donor, donor, "", ""));
  ASSERT_EQ(outcome.error, "");
  EXPECT_FALSE(isNegatedNext(outcome));
  ASSERT_EQ(outcome.remarks.size(), 1u);
  EXPECT_NE(
      outcome.remarks[0].find("2 donated arguments of type [4] f32, 'arg0' "
                              "first, are tied"),
      std::string::npos)
      << outcome.remarks[0];
  // With more results than donated arguments, the choice is ambiguous.
  expectRefused(
      nameless(donor, "", "", ""),
      {"'arg0' is donated", "2 results of type [4] f32", "tf.aliasing_output"});
  EXPECT_EQ(import(nameless("tf.aliasing_output = 1 : i32", "", "", "")).error,
            "");
}
