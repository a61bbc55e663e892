#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::Mutation;

MatmulOp &product(Plan &plan, Epilogue epilogue) {
  for (Instruction &instruction : plan.phases["update"])
    if (auto *op = std::get_if<MatmulOp>(&instruction.op))
      if (op->epilogue == epilogue)
        return *op;
  ADD_FAILURE() << nameOf(epilogue);
  return std::get<MatmulOp>(plan.phases["forward"][1].op);
}

Plan valid() {
  Plan plan = test::leastSquares(1, 1);
  test::addEpilogues(plan);
  return plan;
}

TEST(PlanEpilogue, SumsOfAPermitBeta) {
  Plan plan = valid();
  product(plan, Epilogue::SumsOfA).beta = 1;
  EXPECT_EQ(validatePlan(plan, "plan.json").message(), "");
}

TEST(PlanEpilogue, AccessesDependOnTheEpilogue) {
  Plan plan = valid();
  auto count = [&](Epilogue epilogue) {
    MatmulOp op = product(plan, epilogue);
    Accesses accesses = accessesOf({Queue::Compute, {}, -1, "", 0, op}, plan);
    return std::pair(accesses.reads.size(), accesses.writes.size());
  };
  EXPECT_EQ(count(Epilogue::Relu), std::pair(size_t(2), size_t(1)));
  EXPECT_EQ(count(Epilogue::ReluBias), std::pair(size_t(3), size_t(1)));
  EXPECT_EQ(count(Epilogue::GeluAuxBias), std::pair(size_t(3), size_t(2)));
  EXPECT_EQ(count(Epilogue::GeluGradBias), std::pair(size_t(3), size_t(2)));
  EXPECT_EQ(count(Epilogue::SumsOfA), std::pair(size_t(2), size_t(2)));
  EXPECT_EQ(count(Epilogue::SumsOfB), std::pair(size_t(3), size_t(2))); // adds
                                                                        // to C
}

const Mutation kMutations[] = {
    {"noBias", [](Plan &p) { product(p, Epilogue::Bias).bias = -1; },
     "bias is -1"},
    {"noAux", [](Plan &p) { product(p, Epilogue::GeluGrad).aux = 500; },
     "aux is 500"},
    {"biasOfNothing",
     [](Plan &p) {
       product(p, Epilogue::Relu).bias = product(p, Epilogue::Bias).bias;
     },
     "epilogue relu has no bias"},
    {"auxOfNothing", [](Plan &p) { product(p, Epilogue::Relu).auxLd = 8; },
     "epilogue relu has no aux"},
    {"biasOfAProductWithout",
     [](Plan &p) { std::get<MatmulOp>(p.phases["forward"][1].op).bias = 0; },
     "epilogue none has no bias"},
    {"biasType",
     [](Plan &p) {
       product(p, Epilogue::Bias).bias = test::addBuffer(
           p, "other", BufferKind::Workspace, {16}, DType::BF16);
     },
     "bias holds bf16, but c holds f32"},
    {"biasEnds", [](Plan &p) { product(p, Epilogue::Bias).biasOffset = 9; },
     "bias leaves buffer"},
    {"biasBegins", [](Plan &p) { product(p, Epilogue::Bias).biasOffset = -1; },
     "bias leaves buffer"},
    {"auxRows", [](Plan &p) { product(p, Epilogue::GeluAux).auxLd = 7; },
     "aux_ld is 7, expected at least 8"},
    {"auxEnds", [](Plan &p) { product(p, Epilogue::GeluAux).auxLd = 18; },
     "aux leaves buffer"},
    {"auxIsC",
     [](Plan &p) {
       MatmulOp &op = product(p, Epilogue::GeluGrad);
       op.aux = op.c;
       op.auxOffset = 0;
       op.auxLd = 8;
     },
     "aux overlaps c"},
    {"sumsOverA",
     [](Plan &p) {
       MatmulOp &op = product(p, Epilogue::SumsOfA);
       op.bias = op.a;
     },
     "bias overlaps a"},
    {"sumsOverAux",
     [](Plan &p) {
       MatmulOp &op = product(p, Epilogue::GeluGradBias);
       op.bias = op.aux;
       op.biasOffset = 20;
     },
     "bias overlaps aux"},
    {"batch",
     [](Plan &p) {
       MatmulOp &op = product(p, Epilogue::Gelu);
       op.batch = 2;
     },
     "one matrix"},
    {"alpha", [](Plan &p) { product(p, Epilogue::Gelu).alpha = 2; },
     "alpha 1 and beta 0"},
    {"beta", [](Plan &p) { product(p, Epilogue::Bias).beta = 1; },
     "alpha 1 and beta 0"},
    {"transposedA",
     [](Plan &p) { product(p, Epilogue::SumsOfA).transA = false; },
     "needs trans_a"},
    {"transposedB",
     [](Plan &p) { product(p, Epilogue::SumsOfB).transB = true; },
     "needs no trans_b"},
    {"empty", [](Plan &p) { product(p, Epilogue::Gelu).k = 0; }, "empty"},
};
DPC_TEST_MUTATIONS(EpilogueMutation, valid(), "", kMutations);

} // namespace
} // namespace dpc::rt
