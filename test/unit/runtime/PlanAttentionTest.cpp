#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::Mutation;

template <typename Op> Op &find(Plan &plan) {
  for (Instruction &instruction : plan.phases["update"])
    if (auto *op = std::get_if<Op>(&instruction.op))
      return *op;
  ADD_FAILURE() << "the plan has none";
  std::abort();
}
AttentionOp &forward(Plan &plan) { return find<AttentionOp>(plan); }
AttentionGradOp &gradient(Plan &plan) { return find<AttentionGradOp>(plan); }

Plan valid(DType type = DType::F32) {
  Plan plan = test::leastSquares(1, 1);
  test::addAttention(plan, type);
  return plan;
}

TEST(PlanAttention, RoundTrips) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    test::expectRoundTrip(valid(type));
}

TEST(PlanAttention, ReadsAndWritesItsOperands) {
  Plan plan = valid();
  auto count = [&](auto op) {
    Accesses accesses = accessesOf({Queue::Compute, {}, -1, "", 0, op}, plan);
    return std::pair(accesses.reads.size(), accesses.writes.size());
  };
  EXPECT_EQ(count(forward(plan)), std::pair(size_t(3), size_t(2)));
  EXPECT_EQ(count(gradient(plan)), std::pair(size_t(6), size_t(4)));
  gradient(plan).workspace = -1;
  EXPECT_EQ(count(gradient(plan)), std::pair(size_t(6), size_t(3)));
  EXPECT_EQ(validatePlan(plan, "plan.json").message(), "");
}

TEST(PlanAttention, StridesOfOneElementDoNotMatter) {
  Plan plan = valid();
  AttentionOp &op = forward(plan);
  op.shape.batch = 1;
  op.lse = test::addBuffer(plan, "one", BufferKind::Workspace, {1, 4, 6});
  for (AttentionTensor *tensor : {&op.q, &op.k, &op.v, &op.out})
    tensor->strides[0] = 0;
  EXPECT_EQ(validatePlan(plan, "plan.json").message(), "");
}

const Mutation kMutations[] = {
    {"buffer", [](Plan &p) { forward(p).k.buffer = 900; }, "k is 900"},
    {"noBuffer", [](Plan &p) { gradient(p).dv.buffer = -1; }, "dv is -1"},
    {"compute", [](Plan &p) { forward(p).shape.compute = DType::F64; },
     "compute is f64, expected f32, bf16 or f16"},
    {"type", [](Plan &p) { forward(p).shape.compute = DType::BF16; },
     "q holds f32, expected bf16, as compute says"},
    {"batch", [](Plan &p) { forward(p).shape.batch = 0; }, "batch is 0"},
    {"huge", [](Plan &p) { forward(p).shape.keys = int64_t(1) << 40; },
     "keys is 1099511627776"},
    {"groups", [](Plan &p) { gradient(p).shape.groups = 3; },
     "heads is 4, expected a multiple of the 3 groups"},
    {"scale", [](Plan &p) { forward(p).shape.scale = 1.0 / 0.0; },
     "scale is not finite"},
    {"strideCount", [](Plan &p) { forward(p).v.strides.pop_back(); },
     "number of strides of v is 2"},
    {"backwards", [](Plan &p) { forward(p).q.strides[1] = -8; },
     "a stride of q is -8"},
    {"begins", [](Plan &p) { forward(p).q.offset = -1; }, "q leaves buffer"},
    {"ends", [](Plan &p) { forward(p).v.offset += 1; }, "v leaves buffer"},
    {"endsByStride", [](Plan &p) { gradient(p).dk.strides[2] += 1; },
     "dk leaves buffer"},
    {"wraps", [](Plan &p) { forward(p).q.strides[2] = INT64_MAX / 2; },
     "q leaves buffer"},
    {"repeats", [](Plan &p) { gradient(p).dq.strides[1] = 0; },
     "a stride of dq is 0, expected at least 8, because the operand is "
     "written"},
    {"rowsOverlap", [](Plan &p) { forward(p).out.strides[2] = 7; },
     "a stride of out is 7"},
    {"lse", [](Plan &p) { forward(p).lse = 901; }, "lse is 901"},
    {"lseType",
     [](Plan &p) {
       forward(p).lse = test::addBuffer(p, "other", BufferKind::Workspace,
                                        {2, 4, 6}, DType::BF16);
     },
     "lse holds bf16, expected f32"},
    {"lseSize",
     [](Plan &p) {
       forward(p).lse =
           test::addBuffer(p, "other", BufferKind::Workspace, {2, 4, 5});
     },
     "elements of lse is 40, expected 48"},
    {"overInput", [](Plan &p) { forward(p).out = forward(p).q; },
     "q overlaps out, which is written"},
    {"overLse",
     [](Plan &p) {
       AttentionOp &op = forward(p);
       op.out.buffer = op.lse;
       op.shape = {1, 1, 1, 1, 6, 8, 8, 1, false, DType::F32};
       op.lse = op.out.buffer =
           test::addBuffer(p, "one", BufferKind::Workspace, {1});
       op.shape.valueDepth = 1;
     },
     "out overlaps lse, which is written"},
    {"overEachOther",
     [](Plan &p) { gradient(p).dk.buffer = gradient(p).dv.buffer; },
     "dk overlaps dv, which is written"},
    {"workspace", [](Plan &p) { gradient(p).workspace = 900; },
     "workspace is 900"},
    {"workspaceIsQ",
     [](Plan &p) { gradient(p).workspace = gradient(p).q.buffer; },
     "q overlaps workspace"},
    {"readsLse",
     [](Plan &p) {
       AttentionGradOp &op = gradient(p);
       op.shape = {1, 1, 1, 1, 6, 1, 8, 1, false, DType::F32};
       op.dq.buffer = op.lse =
           test::addBuffer(p, "one", BufferKind::Workspace, {1});
     },
     "lse overlaps dq, which is written"},
};
DPC_TEST_MUTATIONS(AttentionMutation, valid(), " (attention", kMutations);

} // namespace
} // namespace dpc::rt
