//===- StablehloTest.cpp - Import and rejection of StableHLO --------------===//
#include "frontends/stablehlo/AttrText.h"

#include "test/support/RankInterpreter.h"
#include "test/unit/frontends/StablehloText.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <gtest/gtest.h>

using namespace dpc;
using namespace dpc::frontend;
using namespace dpc::test;
using namespace mlir;

namespace {

test::HostArray array(std::vector<int64_t> shape, std::vector<double> data) {
  test::HostArray result(std::move(shape));
  result.data.assign(data.begin(), data.end());
  return result;
}

std::vector<double> run(const std::string &text,
                        const std::vector<test::HostArray> &arguments) {
  Outcome outcome = import(text);
  if (!outcome.module) {
    ADD_FAILURE() << outcome.error;
    return {};
  }
  func::FuncOp function = *outcome.module->getOps<func::FuncOp>().begin();
  auto results = test::runGlobal(function, arguments);
  return {results[0].data.begin(), results[0].data.end()};
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

constexpr const char *kModels = DPC_FIXTURES "/stablehlo/models/";

} // namespace

TEST(AttrText, ReadsFields) {
  auto fields = hlo::parseFields("dot<a = [1, 2], b = [], c = 3>");
  ASSERT_TRUE(fields);
  EXPECT_EQ((*fields)["a"], (Shape{1, 2}));
  EXPECT_EQ((*fields)["b"], Shape{});
  EXPECT_EQ((*fields)["c"], Shape{3});
  EXPECT_TRUE(hlo::parseFields("gather<>"));
  for (StringRef bad : {"", "dot", "dot<", "dot<a>", "dot<a = >", "dot<a = [1>",
                        "dot<a = 1> b", "dot<a = [1,]>"})
    EXPECT_FALSE(hlo::parseFields(bad)) << bad.str();
}

TEST(AttrText, ReadsConvolutions) {
  auto dims = hlo::parseConv("conv<[b, 1, 0, f]x[0, 1, i, o]->[f, b, 0, 1]>");
  ASSERT_TRUE(dims);
  EXPECT_EQ(dims->input.spatial, (Shape{2, 1}));
  EXPECT_EQ(dims->filter.first, 3);
  EXPECT_EQ(dims->output.second, 0);
  for (StringRef bad :
       {"conv<>", "conv<[b, f]x[i, o]>", "conv<[b, 2, f]x[0, i, o]->[b, 0, f]>",
        "conv<[b, 0, f]x[i, o]->[b, f]>", "conv<[b, b]x[i, o]->[b, f]>"})
    EXPECT_FALSE(hlo::parseConv(bad)) << bad.str();
}

TEST(Stablehlo, IsKnownByItsContent) {
  EXPECT_TRUE(isStableHlo("  %0 = \"stablehlo.add\"(%a, %a) : ()"));
  EXPECT_TRUE(isStableHlo("  %0 = stablehlo.add %a, %a : tensor<f32>"));
  EXPECT_TRUE(isStableHlo("ML\xefRStableHLO_v1.0"));
  EXPECT_FALSE(isStableHlo("  %0 = dpc.unary exp %x : tensor<f32>"));
}

TEST(Stablehlo, StepHasParametersStatesAndInputs) {
  Outcome outcome =
      import(contents(std::string(kModels) + "step-mlp/model.mlir"));
  ASSERT_EQ(outcome.error, "");
  auto step = outcome.module->lookupSymbol<func::FuncOp>("train_step");
  ASSERT_TRUE(step);
  std::vector<std::string> arguments = argumentsOf(step);
  EXPECT_EQ(arguments[0], "params.hidden.b parameter");
  EXPECT_TRUE(llvm::is_contained(arguments,
                                 "opt.1.0.mu.hidden.w state params.hidden.w"));
  EXPECT_TRUE(llvm::is_contained(arguments, "opt.1.0.count state"));
  EXPECT_EQ(arguments.back(), "y input");
  unsigned ties = 0;
  for (unsigned i = 0; i < step.getNumResults(); ++i)
    if (auto tied = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies)) {
      ++ties;
      EXPECT_EQ(step.getResultAttr(i, attr::kName),
                step.getArgAttr(tied.getInt(), attr::kName));
    }
  EXPECT_EQ(ties, step.getNumArguments() - 2);
  EXPECT_TRUE(step.getResultAttr(0, attr::kLoss));
}

TEST(Stablehlo, AStepReportsTheResultCalledLossOrElseTheFirst) {
  // The third result is the next value of the donated argument.
  auto lossOf = [](const std::string &first, const std::string &second) {
    auto named = [](const std::string &name) {
      return "tensor<f32> {jax.result_info = \"" + name + "\"}";
    };
    Outcome outcome = import(program(
        "%w: tensor<f32> {tf.aliasing_output = 2 : i32}, %x: tensor<f32>",
        named(first) + ", " + named(second) +
            ", tensor<f32> {jax.result_info = \"w\"}",
        "  %r = \"stablehlo.add\"(%w, %x) : (tensor<f32>, tensor<f32>) -> "
        "tensor<f32>\n"
        "  %s = \"stablehlo.multiply\"(%r, %r) : (tensor<f32>, tensor<f32>) "
        "-> tensor<f32>\n"
        "  func.return %r, %s, %s : tensor<f32>, tensor<f32>, tensor<f32>"));
    EXPECT_EQ(outcome.error, "");
    int loss = -1;
    if (outcome.module) {
      auto step = outcome.module->lookupSymbol<func::FuncOp>("train_step");
      for (unsigned i = 0; i < step.getNumResults(); ++i)
        if (step.getResultAttr(i, attr::kLoss))
          loss = loss < 0 ? i : 99;
    }
    return loss;
  };
  EXPECT_EQ(lossOf("ce", "loss"), 1);
  EXPECT_EQ(lossOf("loss", "ce"), 0);
  EXPECT_EQ(lossOf("ce", "aux"), 0);
}

TEST(Stablehlo, FirstContainerOfALossIsParameters) {
  std::string text = contents(std::string(kModels) + "loss-gpt/model.mlir");
  Outcome outcome = import(text);
  ASSERT_EQ(outcome.error, "");
  auto forward = outcome.module->lookupSymbol<func::FuncOp>("forward");
  std::vector<std::string> arguments = argumentsOf(forward);
  EXPECT_TRUE(llvm::is_contained(arguments, "params.layers.qkv parameter"));
  EXPECT_EQ(arguments.back(), "labels input");
  EXPECT_TRUE(forward.getResultAttr(0, attr::kLoss));
  ImportOptions frozen;
  frozen.frozen = {"params.w*"};
  arguments = argumentsOf(
      import(text, frozen).module->lookupSymbol<func::FuncOp>("forward"));
  EXPECT_TRUE(llvm::is_contained(arguments, "params.wte buffer"));
  frozen.frozen = {"nothing"};
  expectRefused(text, {"--frozen", "nothing"}, frozen);
}

TEST(Stablehlo, RefusesWhatItCannotDo) {
  expectRefused("module {", {"m.mlir:1:"});
  expectRefused(program("%a: tensor<4xf32>", "tensor<4xf32>",
                        "  %0 = stablehlo.abs %a : tensor<4xf32>\n  "
                        "func.return %0 : tensor<4xf32>"),
                {"pretty form", "print_generic_op_form=True"});
  expectRefused("ML\xefRStableHLO_v1.0", {"bytecode", "generic text"});
  expectRefused("module { \"stablehlo.x\"() : () -> () }", {"@main"});
  expectRefused(
      one("\"stablehlo.fft\"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
          "tensor<4x6xf32>"),
      {"m.mlir:3:8", "'stablehlo.fft': is not supported",
       "frontends/stablehlo/README.md"});
  expectRefused(
      one("\"stablehlo.rng\"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
          "tensor<4x6xf32>"),
      {"random numbers", "as arguments"});
  expectRefused(
      one("\"stablehlo.all_reduce\"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
          "tensor<4x6xf32>"),
      {"whole arrays"});
  expectRefused(
      one("\"stablehlo.abs\"(%a) : (tensor<4x6xf32>) -> tensor<?x6xf32>",
          "tensor<?x6xf32>"),
      {"static shape"});
  expectRefused(one("\"stablehlo.custom_call\"(%a) {call_target_name = \"cu\"} "
                    ": (tensor<4x6xf32>) -> tensor<4x6xf32>",
                    "tensor<4x6xf32>"),
                {"calls 'cu'", "accepted: Sharding"});
  expectRefused(program("%a: tensor<4xcomplex<f32>>", "tensor<4xcomplex<f32>>",
                        "  func.return %a : tensor<4xcomplex<f32>>"),
                {"argument 0", "accepted"});
}

TEST(Stablehlo, RefusesWhatDoesNotFit) {
  const char *f = "tensor<4x6xf32>";
  expectRefused(one("\"stablehlo.reshape\"(%a) : (tensor<4x6xf32>) -> "
                    "tensor<4x6xi32>",
                    "tensor<4x6xi32>"),
                {"but the file says"});
  for (
      const auto &[op, part] : std::vector<std::pair<std::string, std::string>>{
          {"\"stablehlo.abs\"() : () -> tensor<4x6xf32>", "operands"},
          {"\"stablehlo.transpose\"(%a) {permutation = array<i64: 0, 0>} : "
           "(tensor<4x6xf32>) -> tensor<4x6xf32>",
           "permutation"},
          {"\"stablehlo.transpose\"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
           "no list of integers 'permutation'"},
          {"\"stablehlo.slice\"(%a) {start_indices = array<i64: 0, 9>, "
           "limit_indices = array<i64: 4, 15>, strides = array<i64: 1, 1>} : "
           "(tensor<4x6xf32>) -> tensor<4x6xf32>",
           "is not within"},
          {"\"stablehlo.broadcast_in_dim\"(%a) {broadcast_dimensions = "
           "array<i64: 0, 5>} : (tensor<4x6xf32>) -> tensor<4x6xf32>",
           "broadcast_dimensions"},
          {"\"stablehlo.concatenate\"(%a) {dimension = 7 : i64} : "
           "(tensor<4x6xf32>) -> tensor<4x6xf32>",
           "dimension 7"},
          {"\"stablehlo.iota\"() {iota_dimension = 2 : i64} : () -> "
           "tensor<4x6xf32>",
           "dimension 2"},
          {"\"stablehlo.pad\"(%a, %a) {edge_padding_low = array<i64: 0>, "
           "edge_padding_high = array<i64: 0>, interior_padding = array<i64: "
           "0>} : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
           "pads"},
          {"\"stablehlo.dot_general\"(%a, %a) {dot_dimension_numbers = "
           "#stablehlo.dot<lhs_contracting_dimensions = [9], "
           "rhs_contracting_dimensions = [0]>} : (tensor<4x6xf32>, "
           "tensor<4x6xf32>) -> tensor<4x6xf32>",
           "dimension numbers"},
          {"\"stablehlo.gather\"(%a, %a) {slice_sizes = array<i64: 1, 6>} : "
           "(tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>",
           "dimension_numbers"},
          {"\"stablehlo.convolution\"(%a, %a) : (tensor<4x6xf32>, "
           "tensor<4x6xf32>) -> tensor<4x6xf32>",
           "dimension_numbers"},
          {"\"stablehlo.reduce\"(%a) : (tensor<4x6xf32>) -> tensor<4x6xf32>",
           "initial values"},
          {"\"func.call\"(%a) {callee = @main} : (tensor<4x6xf32>) -> "
           "tensor<4x6xf32>",
           "deeper than"},
          {"\"stablehlo.composite\"(%a) {decomposition = @none} : "
           "(tensor<4x6xf32>) -> tensor<4x6xf32>",
           "not a function"},
          {"\"stablehlo.reduce_precision\"(%a) {exponent_bits = 4 : i32, "
           "mantissa_bits = 3 : i32} : (tensor<4x6xf32>) -> tensor<4x6xf32>",
           "mantissa bits"}})
    expectRefused(one(op, f), {part});
}

/// A comparison with a second key for ties is refused.
TEST(Stablehlo, SortsByOneKeyOnly) {
  auto sorted = [](const std::string &before) {
    return program(
        "%a: tensor<4xf32>, %b: tensor<4xf32>", "tensor<4xf32>",
        "  %r:2 = \"stablehlo.sort\"(%a, %b) <{dimension = 0 : i64}> ({\n"
        "  ^bb0(%p: tensor<f32>, %q: tensor<f32>, %s: tensor<f32>, %t: "
        "tensor<f32>):\n" +
            before +
            "  }) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, "
            "tensor<4xf32>)\n  func.return %r#1 : tensor<4xf32>");
  };
  auto compare = [](const char *result, const char *a, const char *b,
                    const char *direction) {
    return std::string("    ") + result + " = \"stablehlo.compare\"(" + a +
           ", " + b + ") <{comparison_direction = #stablehlo<" +
           "comparison_direction " + direction +
           ">}> : (tensor<f32>, tensor<f32>) -> tensor<i1>\n";
  };
  auto end = [](const char *value) {
    return std::string("    \"stablehlo.return\"(") + value +
           ") : (tensor<i1>) -> ()\n";
  };
  EXPECT_EQ(import(sorted(compare("%l", "%p", "%q", "LT") + end("%l"))).error,
            "");
  std::string two =
      compare("%l", "%p", "%q", "LT") + compare("%e", "%p", "%q", "EQ") +
      compare("%m", "%s", "%t", "LT") +
      "    %n = \"stablehlo.and\"(%e, %m) : (tensor<i1>, tensor<i1>) -> "
      "tensor<i1>\n"
      "    %o = \"stablehlo.or\"(%l, %n) : (tensor<i1>, tensor<i1>) -> "
      "tensor<i1>\n" +
      end("%o");
  expectRefused(sorted(two), {"stablehlo.sort", "the first operand alone"});
}

TEST(Stablehlo, ResultsThatAreNotThere) {
  expectRefused(program("%a: tensor<4xf32>", "tensor<4xf32>",
                        "  \"stablehlo.abs\"(%a) : (tensor<4xf32>) -> ()\n"
                        "  func.return %a : tensor<4xf32>"),
                {"stablehlo.abs"});
}

TEST(Stablehlo, LoopsOnDataAreRefused) {
  expectRefused(one(R"("stablehlo.while"(%a) ({
  ^bb0(%x: tensor<4x6xf32>):
    %c = "stablehlo.constant"() <{value = dense<0.0> : tensor<f32>}> : () -> tensor<f32>
    %s = "stablehlo.slice"(%x) <{start_indices = array<i64: 0, 0>, limit_indices = array<i64: 1, 1>, strides = array<i64: 1, 1>}> : (tensor<4x6xf32>) -> tensor<1x1xf32>
    %t = "stablehlo.reshape"(%s) : (tensor<1x1xf32>) -> tensor<f32>
    %m = "stablehlo.compare"(%t, %c) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "stablehlo.return"(%m) : (tensor<i1>) -> ()
  }, {
  ^bb0(%x: tensor<4x6xf32>):
    "stablehlo.return"(%x) : (tensor<4x6xf32>) -> ()
  }) : (tensor<4x6xf32>) -> tensor<4x6xf32>)",
                    "tensor<4x6xf32>"),
                {"the number of iterations depends on data", "known length"});
}

/// Damaged texts lead to a module or a one-line message, not to a crash.
TEST(Stablehlo, BrokenTextsMakeOneLine) {
  std::string text = contents(DPC_FIXTURES "/stablehlo/control.mlir");
  ASSERT_GT(text.size(), 10000u);
  for (size_t length = 0; length < text.size(); length += text.size() / 97)
    EXPECT_NE(import(text.substr(0, length)).error, "") << length;
  // Replace one digit at a time.
  size_t changes = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!llvm::isDigit(text[at]) || at % 41 != 0)
      continue;
    std::string changed = text;
    changed[at] = changed[at] == '9' ? '1' : '9';
    import(changed);
    ++changes;
  }
  EXPECT_GT(changes, 50u);
}

TEST(Stablehlo, BatchedRowsDoNotMix) {
  // An infinity in one row must not turn adjacent rows into NaN.
  std::string gather = R"(
  %r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 2>}> : (tensor<2x3x2xf32>, tensor<2x2x1xi32>) -> tensor<2x2x2xf32>
  func.return %r : tensor<2x2x2xf32>)";
  EXPECT_EQ(run(program("%x: tensor<2x3x2xf32>, %i: tensor<2x2x1xi32>",
                        "tensor<2x2x2xf32>", gather),
                {array({2, 3, 2}, {kInf, 1, 2, 3, 4, -kInf, 5, 6, 7, 8, 9, 10}),
                 array({2, 2, 1}, {1, 2, 0, 2})}),
            (std::vector<double>{2, 3, 4, -kInf, 5, 6, 9, 10}));
  std::string scatter = R"(
  %r = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [2], inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = "stablehlo.add"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "stablehlo.return"(%s) : (tensor<f32>) -> ()
  }) : (tensor<2x3x2xf32>, tensor<2x2x1xi32>, tensor<2x2x2xf32>) -> tensor<2x3x2xf32>
  func.return %r : tensor<2x3x2xf32>)";
  EXPECT_EQ(run(program("%x: tensor<2x3x2xf32>, %i: tensor<2x2x1xi32>, "
                        "%u: tensor<2x2x2xf32>",
                        "tensor<2x3x2xf32>", scatter),
                {array({2, 3, 2}, std::vector<double>(12, 1)),
                 array({2, 2, 1}, {1, 2, 0, 0}),
                 array({2, 2, 2}, {kInf, 1, 2, 3, 4, 5, 6, 7})}),
            (std::vector<double>{1, 1, kInf, 2, 3, 4, 11, 13, 1, 1, 1, 1}));
}

TEST(Stablehlo, NanIsTheGreatestWhereTheRegionSaysSo) {
  std::string body = R"(
  %p = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<2x4xi32>
  %n = "stablehlo.constant"() <{value = dense<0xFF800000> : tensor<f32>}> : () -> tensor<f32>
  %z = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
  %r:2 = "stablehlo.reduce"(%a, %p, %n, %z) <{dimensions = array<i64: 1>}> ({
  ^bb0(%v: tensor<f32>, %i: tensor<i32>, %w: tensor<f32>, %j: tensor<i32>):
    %1 = "stablehlo.compare"(%v, %w) <{comparison_direction = #stablehlo<comparison_direction GT>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %2 = "stablehlo.compare"(%v, %v) <{comparison_direction = #stablehlo<comparison_direction NE>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = "stablehlo.or"(%1, %2) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %4 = "stablehlo.compare"(%v, %w) <{comparison_direction = #stablehlo<comparison_direction EQ>}> : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %5 = "stablehlo.compare"(%i, %j) <{comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = "stablehlo.and"(%4, %5) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %7 = "stablehlo.or"(%3, %6) : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %8 = "stablehlo.select"(%3, %v, %w) : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
    %9 = "stablehlo.select"(%7, %i, %j) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    "stablehlo.return"(%8, %9) : (tensor<f32>, tensor<i32>) -> ()
  }) : (tensor<2x4xf32>, tensor<2x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<2xf32>, tensor<2xi32>)
  func.return %r#1 : tensor<2xi32>)";
  EXPECT_EQ(run(program("%a: tensor<2x4xf32>", "tensor<2xi32>", body),
                {array({2, 4}, {1, kNan, 3, 2, 1, 2, 4, 3})}),
            (std::vector<double>{1, 2}));
}

TEST(Stablehlo, WorksOnBitsOfIntegers) {
  auto of = [](const std::string &op) {
    std::string type = "tensor<3xi32>";
    return run(program("%a: " + type + ", %b: " + type, type,
                       "  %r = \"stablehlo." + op + "\"(%a, %b) : (" + type +
                           ", " + type + ") -> " + type +
                           "\n  func.return %r : " + type),
               {array({3}, {12, -1, 5}), array({3}, {10, 7, 5})});
  };
  EXPECT_EQ(of("and"), (std::vector<double>{8, 7, 5}));
  EXPECT_EQ(of("or"), (std::vector<double>{14, -1, 5}));
  EXPECT_EQ(of("xor"), (std::vector<double>{6, -8, 0}));
}

TEST(Stablehlo, RefusesPadsThatCannotBeCounted) {
  for (StringRef sizes : {"4611686018427387904, 0", "0, -9223372036854775808",
                          "2000000000, 2000000000"})
    expectRefused(
        program("%a: tensor<4x6xf32>, %z: tensor<f32>", "tensor<4x6xf32>",
                "  %r = \"stablehlo.pad\"(%a, %z) <{edge_padding_high = "
                "array<i64: 0, 0>, edge_padding_low = array<i64: " +
                    sizes.str() +
                    ">, interior_padding = array<i64: 0, 0>}> : "
                    "(tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>\n  "
                    "func.return %r : tensor<4x6xf32>"),
        {"pads "});
}
