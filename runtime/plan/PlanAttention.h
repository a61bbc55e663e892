//===- PlanAttention.h - the attention of a plan ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANATTENTION_H
#define DPC_RUNTIME_PLAN_PLANATTENTION_H

#include "runtime/base/DType.h"

#include <cstdint>
#include <vector>

namespace dpc::rt {

/// What q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and out [B, H, T, E]
/// have in common. Query head h reads key head h / (H / G).
struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0, groups = 0;     ///< H and G
  int64_t queries = 0, keys = 0;     ///< T and S
  int64_t depth = 0, valueDepth = 0; ///< D and E
  double scale = 1;
  bool causal = false; ///< query t sees the keys s <= t + S - T
  /// Type of all four-dimensional operands: F32, BF16 or F16. Sums are in f32,
  /// and what is written is rounded once.
  DType compute = DType::F32;
};

/// Where an operand of four dimensions lies: the elements of its last one are
/// neighbours, the others are `strides` apart. In elements.
struct AttentionTensor {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides; ///< of batch, head and position
};

/// out = P v with P = softmax(scale * q k^T) by rows; lse [B, H, T], dense f32,
/// the natural logarithm of each row's sum of exp(scale * q k^T). A row that
/// sees no key is 0, its lse -inf. Whether probabilities are rounded to the
/// type of v before they are multiplied is up to what runs it: cuDNN does, the
/// CPU does not.
struct AttentionOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out;
  int lse = -1;
};

/// Its gradients, from out, lse and dL/dout: dv = P^T dout, dS = P (dout v^T -
/// rowsum(dout out)), dq = scale dS k, dk = scale dS^T q; dv and dk are sums
/// over the query heads of a key head.
struct AttentionGradOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out, dout;
  int lse = -1;
  AttentionTensor dq, dk, dv;
  int workspace = -1; ///< a buffer that holds anything before and after, or -1
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_PLANATTENTION_H
