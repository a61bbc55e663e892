//===- PlanAttention.h - attention instructions of a plan -------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace dpc::rt {

/// The sizes of q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and out [B, H,
/// T, E]. Query head h uses key head h / (H / G).
struct AttentionShape {
  int64_t batch = 0;
  int64_t heads = 0, groups = 0;     ///< H and G
  int64_t queries = 0, keys = 0;     ///< T and S
  int64_t depth = 0, valueDepth = 0; ///< D and E
  double scale = 1;
  bool causal = false; ///< query t attends to the keys s <= t + S - T
  /// The type of all operands with four dimensions: F32, BF16 or F16. Products
  /// are summed in f32, and results are rounded once.
  DType compute = DType::F32;
  /// Query t does not attend to the keys s <= t + S - T - window.
  std::optional<int64_t> window = {};
};

/// The location of an operand with four dimensions, in elements. The last
/// dimension is contiguous.
struct AttentionTensor {
  int buffer = -1;
  int64_t offset = 0;
  std::vector<int64_t> strides; ///< of batch, head and position
};

/// Computes out = P v, where P is the softmax of scale * q k^T over each row,
/// and lse [B, H, T] (dense, f32), the natural logarithm of the sum of
/// exp(scale * q k^T) over each row. For a query that attends to no key, out is
/// 0 and lse is -inf. cuDNN rounds P to the type of v before the
/// multiplication; CPUs do not.
struct AttentionOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out;
  int lse = -1;
};

/// Computes the gradients of AttentionOp: dv = P^T dout, dS = P (dout v^T -
/// rowsum(dout out)), dq = scale dS k, dk = scale dS^T q. P is recomputed from
/// q, k and lse. dk and dv of a key head are sums over its query heads.
struct AttentionGradOp {
  AttentionShape shape;
  AttentionTensor q, k, v, out, dout;
  int lse = -1;
  AttentionTensor dq, dk, dv;
  int workspace = -1; ///< scratch memory, or -1
};

} // namespace dpc::rt
