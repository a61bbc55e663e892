//===- PlanAttention.h - attention instructions of a plan -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANATTENTION_H
#define DPC_RUNTIME_PLAN_PLANATTENTION_H

#include "runtime/base/DType.h"

#include <cstdint>
#include <vector>

namespace dpc::rt {

/// The common shape of q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and out
/// [B, H, T, E]. Query head h reads key head h / (H / G).
struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0, groups = 0;     ///< H and G
  int64_t queries = 0, keys = 0;     ///< T and S
  int64_t depth = 0, valueDepth = 0; ///< D and E
  double scale = 1;
  bool causal = false; ///< query t sees the keys s <= t + S - T
  /// Type of all four-dimensional operands: F32, BF16 or F16. Sums are in f32,
  /// and results are rounded once.
  DType compute = DType::F32;
};

/// The location of a four-dimensional operand: elements of the last dimension
/// are contiguous, those of the other dimensions are `strides` apart. Offset
/// and strides are in elements.
struct AttentionTensor {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides; ///< of batch, head and position
};

/// out = P v with P = softmax(scale * q k^T) by rows. lse [B, H, T], dense f32,
/// is the natural logarithm of each row's sum of exp(scale * q k^T). A row that
/// sees no key is 0, and its lse is -inf. The backend decides whether
/// probabilities are rounded to the type of v before the multiplication: cuDNN
/// rounds them, the CPU does not.
struct AttentionOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out;
  int lse = -1;
};

/// The gradients of AttentionOp, from out, lse and dL/dout: dv = P^T dout, dS =
/// P (dout v^T - rowsum(dout out)), dq = scale dS k, dk = scale dS^T q. dv and
/// dk are sums over the query heads of a key head.
struct AttentionGradOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out, dout;
  int lse = -1;
  AttentionTensor dq, dk, dv;
  int workspace = -1; ///< a buffer of scratch memory, or -1
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANATTENTION_H
