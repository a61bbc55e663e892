//===- TestPlans.h - small hand-written plans -------------------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_RUNTIME_TESTPLANS_H
#define DPC_TEST_UNIT_RUNTIME_TESTPLANS_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt::test {

/// Gradient descent on loss = |x w|^2 with x [rows, 4] and w [4, 2], without
/// kernels. Rows are split over "dp" and micro-batches. The gradient g = 2 x'
/// (x w) and the loss are accumulated and then all-reduced. The update w -= g /
/// 64 is a GEMM with the identity matrix "eye".
Plan leastSquares(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// The same with w in another space. It is fetched for each micro-batch and for
/// the update, and stored after the update.
Plan leastSquaresOffloaded(Space space, int64_t dp, int64_t microBatches,
                           int64_t rows = 8);

/// The reference: updates `w` by one step on `x` and returns the loss.
double leastSquaresStep(const HostTensor &x, HostTensor &w);

/// Like leastSquares() for loss = |x a b|^2, with a [4, 3] on pipeline stage 0
/// and b [3, 2] on stage 1. All micro-batches run forward before the first one
/// runs backward. x and x a are in frames with one slot per micro-batch.
Plan twoStages(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// The reference: updates `a` and `b` by one step on `x` and returns the loss.
double twoStagesStep(const HostTensor &x, HostTensor &a, HostTensor &b);

/// Adds a GEMM of two 8 x 8 parameters of `type` for each epilogue to the
/// update. They write the parameters "c.gelu", "aux.gelu_aux", ..., whose
/// initial values are random.
void addEpilogues(Plan &plan, DType type = DType::F32);

/// Adds fp8 GEMMs of bf16 parameters to the update: one for each combination of
/// transposes and formats (some with beta 1, some into f32), and for each
/// epilogue one into bf16 and one into f32. They write the parameters "f.0",
/// "f.1", ... Returns their number.
int addFp8(Plan &plan);

/// Adds GEMMs with m, n, k or batch 0 to the update, with and without beta.
/// They write the parameters "n.0", "n.1", ... Returns their number.
int addEmptyProducts(Plan &plan, DType type = DType::F32);

/// Adds convolutions with one to three spatial dimensions and their gradients
/// to the update. They write the parameters "conv.0", "conv.1", ... Returns
/// their number.
int addConvs(Plan &plan, DType type = DType::F32);

/// Adds a causal attention and its gradient to the update: two samples, four
/// query heads, two key heads, six positions, and a head_dim of eight. q, k and
/// v are parts of the parameter "a.qkv" [2, 6, 8 heads, 8]. The results are the
/// parameters "a.out", "a.lse", "a.dq", "a.dk" and "a.dv".
void addAttention(Plan &plan, DType type = DType::F32);

/// Appends a buffer after the end of the stage's arena, or of the frame's slot,
/// and returns its id.
int addBuffer(Plan &plan, const std::string &name, BufferKind kind,
              std::vector<int64_t> shape, DType dtype = DType::F32,
              int64_t stage = 0, int frame = -1);

/// Values 0, 1, 2, ... times `scale`, minus `shift`.
HostTensor ramp(std::vector<int64_t> shape, double scale = 1, double shift = 0);

} // namespace dpc::rt::test

#endif // DPC_TEST_UNIT_RUNTIME_TESTPLANS_H
