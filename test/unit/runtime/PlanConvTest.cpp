#include "runtime/plan/PlanChecks.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::leastSquares;
using test::Mutation;

/// Replaces the GEMM x w by a convolution.
ConvOp &conv(Plan &p) {
  const MatmulOp product = std::get<MatmulOp>(p.phases["forward"][1].op);
  ConvOp conv;
  conv.x = product.a;
  conv.w = product.b;
  conv.y = product.c;
  conv.xShape = {numElements(p.buffers[product.a].shape) / 4, 1, 4};
  conv.wShape = {2, 1, 4};
  conv.yShape = {conv.xShape[0], 2, 1};
  conv.strides = conv.dilations = {1};
  conv.pads = {0, 0};
  p.phases["forward"][1].op = conv;
  return std::get<ConvOp>(p.phases["forward"][1].op);
}

TEST(PlanConv, RoundTrips) {
  Plan plan = leastSquares(2, 2);
  conv(plan);
  test::expectRoundTrip(plan);
}

TEST(PlanConv, AllComputeTypesAreAccepted) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 2);
    ConvOp &op = conv(plan);
    op.compute = type;
    for (int buffer : {op.x, op.w, op.y})
      plan.buffers[buffer].dtype = type;
    EXPECT_EQ(checkConv(plan, op).message(), "") << nameOf(type);
  }
}

// y in its frame and w in the arena have equal offsets but do not overlap.
TEST(PlanConv, OffsetsInFramesDifferFromOffsetsInTheArena) {
  Plan plan = leastSquares(2, 2);
  const ConvOp op = conv(plan);
  Buffer &y = plan.buffers[op.y];
  y.frame = 0;
  y.offset = plan.buffers[op.w].offset;
  plan.frames = {{0, 0, 0, 64, 2, plan.arenaBytes[0]}};
  plan.arenaBytes[0] += 2 * 64;
  for (auto &schedule : plan.schedule)
    for (ScheduleEntry &entry : schedule)
      if (entry.phase == "forward" || entry.phase == "backward")
        entry.slots = {{0, entry.microBatch}};
  EXPECT_EQ(validatePlan(plan, "plan.json").message(), "");
  // A frame that overlaps w is refused.
  plan.frames[0].offset = 0;
  EXPECT_HAS(validatePlan(plan, "plan.json").message(), "overlaps");
}

const Mutation kMutations[] = {
    {"buffer", [](Plan &p) { conv(p).w = 99; }, "w is 99"},
    {"compute", [](Plan &p) { conv(p).compute = DType::I32; },
     "compute is i32, expected f32, f64, bf16 or f16"},
    {"half", [](Plan &p) { conv(p).compute = DType::BF16; },
     "compute is bf16, but x holds f32"},
    {"type", [](Plan &p) { conv(p).compute = DType::F64; }, "x holds f32"},
    {"rank", [](Plan &p) { conv(p).wShape = {2, 4}; },
     "number of dimensions of w is 2"},
    {"elements", [](Plan &p) { conv(p).xShape[2] = 5; }, "elements of x"},
    {"strides", [](Plan &p) { conv(p).strides = {}; }, "number of strides"},
    {"stride", [](Plan &p) { conv(p).strides = {0}; }, "strides is 0"},
    {"pads", [](Plan &p) { conv(p).pads = {0, -1}; }, "pads is -1"},
    {"dilation", [](Plan &p) { conv(p).dilations = {int64_t(1) << 40}; },
     "dilations is 1099511627776"},
    {"groups", [](Plan &p) { conv(p).wShape = {1, 2, 4}; }, "w_shape[1] is 2"},
    {"window", [](Plan &p) { conv(p).pads = {1, 1}; }, "y_shape[2] is 1"},
    {"overlap",
     [](Plan &p) {
       ConvOp &op = conv(p);
       op.kind = ConvKind::GradInput;
       op.w = op.x;
     },
     "w overlaps x, which is written"},
};
DPC_TEST_MUTATIONS(ConvMutation, leastSquares(2, 2),
                   "forward[1] (conv): ", kMutations);

} // namespace
} // namespace dpc::rt
