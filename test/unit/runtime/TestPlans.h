//===- TestPlans.h - small hand-written plans -------------------*- C++ -*-===//
#ifndef DPC_TEST_UNIT_RUNTIME_TESTPLANS_H
#define DPC_TEST_UNIT_RUNTIME_TESTPLANS_H

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt::test {

/// Gradient descent on loss = |x w|^2 with x [rows, 4] and w [4, 2], without
/// any kernel. Rows are split over "dp" and micro-batches, the gradient 2 x' (x
/// w) and the loss are accumulated and then all-reduced, and the update w -=
/// 1/64 g is a GEMM with the identity parameter "eye".
Plan leastSquares(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// The same with w in another space: fetched for each micro-batch and for the
/// update, and stored after it.
Plan leastSquaresOffloaded(Space space, int64_t dp, int64_t microBatches,
                           int64_t rows = 8);

/// The reference result: one step on `x`, which changes `w`; returns the loss.
double leastSquaresStep(const HostTensor &x, HostTensor &w);

/// The same for loss = |x a b|^2 with a [4, 3] on pipeline stage 0 and b [3, 2]
/// on stage 1. All micro-batches run forward, then all run backward: x and x a
/// are in frames with one slot per micro-batch. Rows are split over "dp" and
/// micro-batches.
Plan twoStages(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// The reference result: one step on `x`, which changes `a` and `b`; returns
/// the loss.
double twoStagesStep(const HostTensor &x, HostTensor &a, HostTensor &b);

/// Adds to the update, for every epilogue, a GEMM of two 8 x 8 parameters of
/// `type`, which writes parameters "c.gelu", "aux.gelu_aux", ... Values are
/// random until they are written.
void addEpilogues(Plan &plan, DType type = DType::F32);

/// Adds to the update fp8 GEMMs of bf16 parameters: one for each pair of
/// transposes and formats, some added to C, one into f32, and two for every
/// epilogue, into bf16 and f32. They write the parameters "f.0", "f.1", ...;
/// returns their number.
int addFp8(Plan &plan);

/// Adds to the update empty GEMMs and GEMMs of empty factors, with and without
/// beta, whose C are parameters "n.0", "n.1", ...; returns their number.
int addEmptyProducts(Plan &plan, DType type = DType::F32);

/// Adds to the update convolutions and their gradients, of one to three spatial
/// dimensions, which write parameters "conv.0", "conv.1", ...; returns their
/// number.
int addConvs(Plan &plan, DType type = DType::F32);

/// Adds to the update a causal attention with two samples, four query heads,
/// two key heads, six positions and a head_dim of eight, and its gradient. q, k
/// and v are parts of one parameter "a.qkv" of [2, 6, 8 heads, 8]; the results
/// are parameters "a.out", "a.lse", "a.dq", "a.dk" and "a.dv".
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
