#include "runtime/plan/PlanExperts.h"
#include "runtime/plan/PlanChecks.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::leastSquares;

/// Replaces the GEMM x w by a product of two experts, whose matrices are the
/// halves of `eye`. Each choice of the ids is a row of y.
ExpertMatmulOp &experts(Plan &p) {
  const MatmulOp product = std::get<MatmulOp>(p.phases["forward"][1].op);
  ExpertMatmulOp op;
  op.x = product.a;
  op.w = 1;
  op.y = product.c;
  op.rows = numElements(p.buffers[op.y].shape) / 2;
  op.experts = op.n = 2;
  op.k = 4;
  op.valid.value = 2;
  op.ids = static_cast<int>(p.buffers.size());
  Buffer ids;
  ids.id = op.ids;
  ids.name = "ids";
  ids.dtype = DType::I64;
  ids.shape = {op.rows};
  ids.bytes = 8 * op.rows;
  ids.offset = p.arenaBytes[0];
  p.arenaBytes[0] += (ids.bytes + 63) / 64 * 64;
  ids.kind = BufferKind::Parameter;
  p.buffers.push_back(ids);
  Tensor tensor;
  tensor.name = "ids";
  tensor.role = TensorRole::Buffer;
  tensor.buffer = ids.id;
  tensor.dtype = ids.dtype;
  tensor.globalShape = ids.shape;
  tensor.layout = Layout::replicated(ids.shape);
  p.tensors.push_back(tensor);
  p.phases["forward"][1].op = op;
  return std::get<ExpertMatmulOp>(p.phases["forward"][1].op);
}

/// Adds a workspace.
ExpertMatmulOp &expertsOnGpus(Plan &p) {
  ExpertMatmulOp &op = experts(p);
  op.workspace =
      test::addBuffer(p, "order", BufferKind::Workspace,
                      {expertWorkspaceBytes(op.rows, op.experts)}, DType::U8);
  return op;
}

TEST(PlanExperts, RoundTrips) {
  Plan plan = leastSquares(2, 2);
  ExpertMatmulOp &op = expertsOnGpus(plan);
  op.first = {ScalarKind::Offset, 0, 4, {"dp"}};
  op.valid = {ScalarKind::Valid, 0, 4, {"dp"}};
  test::expectRoundTrip(plan);
}

TEST(PlanExperts, AllComputeTypesAreAccepted) {
  for (DType type : {DType::F32, DType::F64, DType::BF16, DType::F16}) {
    Plan plan = leastSquares(2, 2);
    ExpertMatmulOp &op = experts(plan);
    op.compute = type;
    for (int buffer : {op.x, op.w, op.y})
      plan.buffers[buffer].dtype = type;
    EXPECT_EQ(checkExpertMatmul(plan, op).message(), "") << nameOf(type);
    bool isHalf = type == DType::BF16 || type == DType::F16;
    plan.buffers[op.y].dtype = DType::F32;
    EXPECT_EQ(checkExpertMatmul(plan, op).ok(), isHalf || type == DType::F32)
        << nameOf(type);
  }
}

TEST(PlanExperts, GpusNeedAWorkspace) {
  Plan plan = leastSquares(2, 2);
  ExpertMatmulOp &op = expertsOnGpus(plan);
  plan.targetGpu = "sm_90";
  EXPECT_EQ(checkExpertMatmul(plan, op).message(), "");
  op.workspace = -1;
  EXPECT_EQ(checkExpertMatmul(plan, op).message(),
            "workspace is -1, expected a buffer in a plan for GPUs");
}

using test::Mutation;
const Mutation kMutations[] = {
    {"buffer", [](Plan &p) { experts(p).w = 99; }, "w is 99"},
    {"compute", [](Plan &p) { experts(p).compute = DType::I32; },
     "compute is i32, expected f32, f64, bf16 or f16"},
    {"type", [](Plan &p) { experts(p).compute = DType::F64; },
     "compute is f64, but x holds f32"},
    {"ids", [](Plan &p) { experts(p).ids = 0; },
     "ids holds f32, expected i64 or i32"},
    {"rows", [](Plan &p) { experts(p).rows = -1; }, "rows is -1"},
    {"shares", [](Plan &p) { experts(p).sharesX = 3; }, "shares_x is 3"},
    {"shared_results", [](Plan &p) { experts(p).sharesY = 2; },
     "shares_y is 2, expected 1 in a forward product"},
    {"elements", [](Plan &p) { experts(p).experts = 3; }, "elements of w"},
    {"transposed_gradient",
     [](Plan &p) {
       ExpertMatmulOp &op = experts(p);
       op.kind = ExpertMatmulKind::GradWeight;
       op.transW = true;
     },
     "trans_w is true"},
    {"axis",
     [](Plan &p) { experts(p).first = {ScalarKind::Offset, 0, 4, {"tp"}}; },
     "axes names \"tp\""},
    {"overlap",
     [](Plan &p) {
       ExpertMatmulOp &op = experts(p);
       p.buffers[op.y].offset = p.buffers[op.w].offset;
     },
     "w overlaps y, which is written"},
    {"workspace_buffer", [](Plan &p) { expertsOnGpus(p).workspace = 99; },
     "workspace is 99"},
    {"workspace_kind",
     [](Plan &p) {
       p.buffers[expertsOnGpus(p).workspace].kind = BufferKind::Activation;
     },
     "expected a workspace that is not a view"},
    {"workspace_bytes",
     [](Plan &p) {
       Buffer &workspace = p.buffers[expertsOnGpus(p).workspace];
       workspace.shape = {--workspace.bytes};
     },
     "bytes, expected at least 80"},
    {"workspace_overlap",
     [](Plan &p) {
       ExpertMatmulOp &op = expertsOnGpus(p);
       p.buffers[op.workspace].offset = p.buffers[op.ids].offset;
     },
     "ids overlaps workspace"},
};
DPC_TEST_MUTATIONS(ExpertsMutation, leastSquares(2, 2),
                   "forward[1] (expert_matmul): ", kMutations);

} // namespace
} // namespace dpc::rt
