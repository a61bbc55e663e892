//===- TestPlans.h - small hand-written plans -------------------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt::test {

/// Gradient descent on loss = |x w|^2, for x [rows, 4] and w [4, 2], without
/// kernels. The mesh axis "dp" and the micro-batches split the rows. The
/// gradient g = 2 x^T x w and the loss are accumulated and then all-reduced.
/// The update w -= g / 64 is a GEMM with the identity matrix "eye".
Plan leastSquares(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// leastSquares() with w in host memory or on disk. Each micro-batch and the
/// update fetch w, and the update stores it.
Plan leastSquaresOffloaded(Space space, int64_t dp, int64_t microBatches,
                           int64_t rows = 8);

/// Computes a step of leastSquares(): updates `w` and returns the loss.
double leastSquaresStep(const HostTensor &x, HostTensor &w);

/// Gradient descent on loss = |x a b|^2 in two pipeline stages: a [4, 3] is on
/// stage 0, b [3, 2] on stage 1. All micro-batches run forward before the first
/// one runs backward. x and x a are in frames with a slot for each micro-batch.
Plan twoStages(int64_t dp, int64_t microBatches, int64_t rows = 8);

/// Computes a step of twoStages(): updates `a` and `b` and returns the loss.
double twoStagesStep(const HostTensor &x, HostTensor &a, HostTensor &b);

/// For each epilogue, adds a GEMM of two 8 x 8 parameters of `type` to the
/// update. The results are the parameters "c.gelu", "aux.gelu_aux", ..., whose
/// initial values are random.
void addEpilogues(Plan &plan, DType type = DType::F32);

/// Adds fp8 GEMMs of bf16 parameters to the update, and returns their number.
/// There is one for each combination of transposes and formats (some with beta
/// 1, some with f32 results), and two for each epilogue, with bf16 and f32
/// results. The results are the parameters "f.0", "f.1", ...
int addFp8(Plan &plan);

/// Adds GEMMs to the update in which m, n, k or the batch is 0, with and
/// without beta, and returns their number. The results are the parameters
/// "n.0", "n.1", ...
int addEmptyProducts(Plan &plan, DType type = DType::F32);

/// Adds convolutions with one to three spatial dimensions, and their gradients,
/// to the update, and returns their number. The results are the parameters
/// "conv.0", "conv.1", ...
int addConvs(Plan &plan, DType type = DType::F32);

/// Adds a causal attention and its gradient to the update: two samples, four
/// query heads, two key heads, six positions, head_dim 8. q, k and v are parts
/// of the parameter "a.qkv" [2, 6, 8 heads, 8]. The results are the parameters
/// "a.out", "a.lse", "a.dq", "a.dk" and "a.dv".
void addAttention(Plan &plan, DType type = DType::F32);

/// Adds products of experts and their gradients to the update, and returns
/// their number. The experts are split over "dp", three for each rank, and the
/// ids of 20 rows are the parameter "m.ids", which has no initial value. Two
/// rows share a row of x. The results are the parameters "m.0", "m.1", ...
int addExperts(Plan &plan, DType type = DType::F32);

/// Adds a buffer and returns its id. The buffer is at the end of the arena of
/// `stage`, or at the end of a slot of `frame` unless `frame` is -1.
int addBuffer(Plan &plan, const std::string &name, BufferKind kind,
              std::vector<int64_t> shape, DType dtype = DType::F32,
              int64_t stage = 0, int frame = -1);

/// Returns a tensor with the values 0, 1, 2, ... times `scale`, minus `shift`.
HostTensor ramp(std::vector<int64_t> shape, double scale = 1, double shift = 0);

} // namespace dpc::rt::test
