//===- StepBuffersTest.cpp - Shared buffers and lifetimes of a step -------===//
#include "ir/StepBuffers.h"
#include "ir/Lifetimes.h"

#include "mlir/Parser/Parser.h"

#include "gtest/gtest.h"

#include <map>

using namespace dpc;
using namespace mlir;

namespace {

struct Life {
  int64_t bytes, first, last;
};

/// %r reduces a reshape of %g, the gradient of %p. %sum reduces %out, but must
/// not overwrite it, because @step returns it.
const char *const kStep = R"(
!t = tensor<4x2xf32>
!f = tensor<8xf32>
func.func @step(%x: !t {dpc.role = "input"}, %p: !f {dpc.role = "parameter"},
                %m: !f {dpc.role = "state"}, %s: tensor<f32> {dpc.role = "scalar"})
    -> (!f {dpc.ties = 1 : i64}, !f {dpc.ties = 2 : i64}, !t, !t) {
  %out = dpc.unary exp %x {dpc.phase = "forward"} : !t -> !t
  %sum = dpc.all_reduce sum %out axes = ["dp"] {dpc.phase = "forward"} : (!t) -> !t
  %g = dpc.unary neg %out {dpc.phase = "backward"} : !t -> !t
  %v = dpc.reshape %g : !t -> !f
  %r = dpc.all_reduce sum %v axes = ["dp"] {dpc.phase = "update"} : (!f) -> !f
  %new:2 = dpc.kernel %p, %m, %r, %s {dpc.phase = "update"}
      : (!f, !f, !f, tensor<f32>) -> (!f, !f) {
  ^bb0(%a: !f, %b: !f, %c: !f, %d: tensor<f32>):
    %1:2 = dpc.sgd %a, %b, %c, %d, %d, %d momentum = 9.0e-1 weight_decay = 0.0
        : (!f, !f, !f, tensor<f32>, tensor<f32>, tensor<f32>) -> (!f, !f)
    dpc.yield %1#0, %1#1 : !f, !f
  }
  return %new#0, %new#1, %out, %sum : !f, !f, !t, !t
}
)";

class StepBuffersTest : public ::testing::Test {
protected:
  void SetUp() override {
    context.loadDialect<DpcDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(kStep, &context);
    ASSERT_TRUE(module);
    step = module->lookupSymbol<func::FuncOp>("step");
    SmallVector<Operation *> ops;
    for (Operation &op : step.getBody().front().without_terminator())
      ops.push_back(&op);
    buffers = StepBuffers(step, ops);
  }
  OpResult result(size_t op, unsigned number = 0) {
    return buffers.ops[op]->getResult(number);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  func::FuncOp step;
  StepBuffers buffers;
};

TEST_F(StepBuffersTest, AnAllReduceReusesItsOperandUnlessItIsReadOrReturned) {
  EXPECT_EQ(buffers.reusedOperand(result(1)), nullptr);
  OpOperand *operand = buffers.reusedOperand(result(4));
  ASSERT_NE(operand, nullptr);
  EXPECT_EQ(bufferRoot(operand->get()), result(2));
}

TEST_F(StepBuffersTest, AnUpdateReusesTheOldValues) {
  for (unsigned i = 0; i < 2; ++i) {
    OpOperand *operand = buffers.reusedOperand(result(5, i));
    ASSERT_NE(operand, nullptr);
    EXPECT_EQ(operand->get(), step.getArgument(1 + i));
  }
  EXPECT_EQ(buffers.ties.size(), 2u);
  EXPECT_EQ(buffers.outputs.size(), 2u);
}

TEST_F(StepBuffersTest, UsesFollowFromReaders) {
  auto use = [&](OpResult value) {
    return buffers.useOf(value, buffers.lastReaderOf(value));
  };
  EXPECT_EQ(use(result(2)), BufferUse::gradient);
  EXPECT_EQ(use(result(0)), BufferUse::workspace); // returned
  EXPECT_EQ(buffers.useOf(result(0), buffers.ops[2]), BufferUse::activation);
}

/// A sum over micro-batches that a later pass of the loop reduces stays as it
/// is, because each micro-batch reduces it again. An update may overwrite it.
TEST(SumsOverMicroBatches, AreNotReducedInPlaceInTheLoop) {
  for (bool inLoop : {true, false}) {
    MLIRContext context;
    context.loadDialect<DpcDialect, func::FuncDialect>();
    std::string when = inLoop ? "dpc.chunk = 1 : i64, dpc.phase = \"forward\""
                              : "dpc.phase = \"update\"";
    auto module = parseSourceString<ModuleOp>(
        "func.func @step(%x: tensor<4xf32> {dpc.role = \"input\"}) -> "
        "tensor<4xf32> {\n"
        "  %s = dpc.accumulate sum %x {dpc.phase = \"forward\"} : "
        "tensor<4xf32> -> tensor<4xf32>\n"
        "  %r = dpc.all_reduce sum %s axes = [\"dp\"] {" +
            when +
            "} : (tensor<4xf32>) -> tensor<4xf32>\n"
            "  return %r : tensor<4xf32>\n}\n",
        &context);
    ASSERT_TRUE(module);
    auto step = module->lookupSymbol<func::FuncOp>("step");
    SmallVector<Operation *> ops;
    for (Operation &op : step.getBody().front().without_terminator())
      ops.push_back(&op);
    StepBuffers buffers(step, ops);
    EXPECT_EQ(buffers.reusedOperand(ops[1]->getResult(0)) == nullptr, inLoop);
  }
}

TEST(Lifetimes, AnAccessConflictsWithWritesOfWhatItReadsOrWrites) {
  using Ids = std::vector<int>;
  LastAccesses accesses;
  accesses.add(Ids{1}, Ids{2}, 5);
  EXPECT_EQ(accesses.lastConflict(Ids{1}, Ids{}), -1);
  EXPECT_EQ(accesses.lastConflict(Ids{2}, Ids{}), 5);
  EXPECT_EQ(accesses.lastConflict(Ids{}, Ids{1}), 5);
}

TEST(Lifetimes, TheLoopExtendsBuffersThatCrossItsBegin) {
  Life before{8, 0, 4}, after{8, 5, 12}, inside{8, 4, 5};
  extendOverLoop(before, 3, 9, /*isMixed=*/false);
  EXPECT_EQ(before.last, 9);
  extendOverLoop(after, 3, 9, /*isMixed=*/false);
  EXPECT_EQ(after.first, 5);
  extendOverLoop(after, 3, 9, /*isMixed=*/true);
  EXPECT_EQ(after.first, 3);
  extendOverLoop(inside, 3, 9, /*isMixed=*/true);
  EXPECT_EQ(inside.last, 5);
}

TEST(Lifetimes, GapsOfAFrameTakeTheLargestBuffersFirst) {
  FrameGaps gaps(192);
  gaps.occupy(64, Life{64, 0, 9});
  std::vector<Life> lives = {{1, 0, 9}, {64, 0, 9}, {65, 0, 9}, {64, 10, 12}};
  std::map<int64_t, int64_t> offsets;
  gaps.fill({0, 1, 2, 3}, lives,
            [&](int64_t id, int64_t offset) { offsets[id] = offset; });
  EXPECT_EQ(offsets, (std::map<int64_t, int64_t>{{0, 128}, {1, 0}, {3, 0}}));
}

} // namespace
