#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::Mutation;

/// Returns the first fp8 GEMM, 32 x 16 by 16 x 48.
MatmulOp &product(Plan &plan) {
  for (Instruction &instruction : plan.phases["update"])
    if (auto *op = std::get_if<MatmulOp>(&instruction.op); op && op->fp8)
      return *op;
  ADD_FAILURE();
  return std::get<MatmulOp>(plan.phases["forward"][1].op);
}

Plan valid() {
  Plan plan = test::leastSquares(1, 1);
  test::addFp8(plan);
  return plan;
}

/// Moves a GEMM with a bias and an aux before all other fp8 GEMMs.
MatmulOp &withEpilogue(Plan &plan) {
  std::vector<Instruction> &update = plan.phases["update"];
  for (Instruction &instruction : update)
    if (auto *op = std::get_if<MatmulOp>(&instruction.op);
        op && op->fp8 && op->bias >= 0 && op->aux >= 0)
      std::swap(product(plan), *op);
  return product(plan);
}

/// Adds a view of buffer `of` without its first `bytes` bytes.
int addView(Plan &plan, int of, int64_t bytes) {
  Buffer view = plan.buffers[of];
  view.id = static_cast<int>(plan.buffers.size());
  view.viewOf = of;
  view.offset += bytes;
  view.bytes -= bytes;
  view.shape = {view.bytes / sizeOf(view.dtype)};
  plan.buffers.push_back(view);
  return view.id;
}

/// Makes the workspace overlap buffer `other`.
void workspaceOver(Plan &plan, int other) {
  int id = product(plan).fp8->workspace;
  plan.buffers[id].offset = plan.buffers[other].offset;
  plan.buffers[id].frame = plan.buffers[other].frame;
}

TEST(PlanFp8, WritesItsWorkspace) {
  Plan plan = valid();
  MatmulOp op = product(plan);
  Accesses accesses = accessesOf({Queue::Compute, {}, -1, "", 0, op}, plan);
  EXPECT_EQ(accesses.writes, (std::vector<int>{op.c, op.fp8->workspace}));
}

const Mutation kMutations[] = {
    {"format", [](Plan &p) { product(p).fp8->a = DType::F8E4M3FNUZ; },
     "fp8.a is f8e4m3fnuz, expected f8e4m3fn or f8e5m2"},
    {"bothOfGradients",
     [](Plan &p) {
       product(p).fp8->a = DType::F8E5M2;
       product(p).fp8->b = DType::F8E5M2;
     },
     "expected f8e4m3fn for one of them"},
    {"type", [](Plan &p) { product(p).compute = DType::F16; },
     "compute is f16"},
    {"factor",
     [](Plan &p) {
       product(p).a = test::addBuffer(p, "wide", BufferKind::Parameter,
                                      {32, 40}, DType::F32);
     },
     "fp8 needs a, b and compute bf16, but a and b are f32 and bf16, and "
     "compute is bf16"},
    {"otherFactor",
     [](Plan &p) {
       product(p).b = test::addBuffer(p, "wide", BufferKind::Parameter,
                                      {48, 40}, DType::F32);
     },
     "fp8 needs a, b and compute bf16, but a and b are bf16 and f32, and "
     "compute is bf16"},
    {"batch", [](Plan &p) { product(p).batch = 2; }, "one matrix"},
    {"batch2", [](Plan &p) { product(p).batch2 = 2; }, "one matrix"},
    {"n", [](Plan &p) { product(p).n = 24; },
     "n is 24, expected a multiple of 16 for fp8"},
    {"m", [](Plan &p) { product(p).m = 24; },
     "m is 24, expected a multiple of 16 for fp8"},
    {"k", [](Plan &p) { product(p).k = 0; },
     "k is 0, expected a multiple of 16 for fp8"},
    {"rowsOfC",
     [](Plan &p) {
       product(p).m = 16;
       product(p).ldc = 50;
     },
     "rows of c at multiples of 16 bytes"},
    {"beginOfC",
     [](Plan &p) {
       product(p).m = 16;
       product(p).cOffset = 4;
     },
     "rows of c at multiples of 16 bytes"},
    {"cIsUnalignedView",
     [](Plan &p) {
       product(p).m = 16;
       product(p).c = addView(p, product(p).c, 8);
     },
     "rows of c at multiples of 16 bytes"},
    {"workspaceIsView",
     [](Plan &p) {
       int whole = test::addBuffer(p, "whole", BufferKind::Workspace, {1352},
                                   DType::U8);
       product(p).fp8->workspace = addView(p, whole, 1);
     },
     "expected a workspace that is not a view"},
    {"workspaceIsParameter",
     [](Plan &p) {
       product(p).fp8->workspace =
           test::addBuffer(p, "kept", BufferKind::Parameter, {1344}, DType::U8);
     },
     "expected a workspace that is not a view"},
    {"noWorkspace", [](Plan &p) { product(p).fp8->workspace = -1; },
     "fp8.workspace is -1, expected a buffer below"},
    {"smallWorkspace",
     [](Plan &p) {
       product(p).fp8->workspace = test::addBuffer(
           p, "small", BufferKind::Workspace, {1343}, DType::U8);
     },
     "of 1343 bytes, expected at least 1344"},
    {"workspaceIsC", [](Plan &p) { workspaceOver(p, product(p).c); },
     "c overlaps fp8.workspace"},
    {"workspaceIsBias", [](Plan &p) { workspaceOver(p, withEpilogue(p).bias); },
     "bias overlaps fp8.workspace"},
    {"workspaceIsAux", [](Plan &p) { workspaceOver(p, withEpilogue(p).aux); },
     "aux overlaps fp8.workspace"},
};
DPC_TEST_MUTATIONS(Fp8Mutation, valid(), "", kMutations);

} // namespace
} // namespace dpc::rt
