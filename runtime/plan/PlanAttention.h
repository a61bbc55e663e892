//===- PlanAttention.h - attention instructions of a plan -------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANATTENTION_H
#define DPC_RUNTIME_PLAN_PLANATTENTION_H

#include "runtime/base/DType.h"

#include <cstdint>
#include <vector>

namespace dpc::rt {

/// The shapes of q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and out [B, H,
/// T, E]. Query head h uses key head h / (H / G).
struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0, groups = 0;     ///< H and G
  int64_t queries = 0, keys = 0;     ///< T and S
  int64_t depth = 0, valueDepth = 0; ///< D and E
  double scale = 1;
  bool causal = false; ///< query t attends to the keys s <= t + S - T
  /// Type of all four-dimensional operands: F32, BF16 or F16. Products are
  /// summed in f32, and results are rounded once.
  DType compute = DType::F32;
};

/// The location of a four-dimensional operand. The last dimension is
/// contiguous. Offset and strides are in elements.
struct AttentionTensor {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides; ///< of the batch, head and position dimensions
};

/// out = P v with P = softmax(scale * q k^T) by rows. lse [B, H, T], dense f32,
/// is the natural logarithm of the sum of exp(scale * q k^T) over each row. A
/// query that attends to no key has out 0 and lse -inf. cuDNN rounds P to the
/// type of v before the multiplication; the CPU does not.
struct AttentionOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out;
  int lse = -1;
};

/// The gradients of AttentionOp: dv = P^T dout, dS = P (dout v^T - rowsum(dout
/// out)), dq = scale dS k, dk = scale dS^T q. P follows from q, k and lse. dv
/// and dk of a key head are summed over its query heads.
struct AttentionGradOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out, dout;
  int lse = -1;
  AttentionTensor dq, dk, dv;
  int workspace = -1; ///< a buffer of scratch memory, or -1
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANATTENTION_H
