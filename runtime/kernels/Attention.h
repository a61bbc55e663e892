//===- Attention.h - attention on the CPU -----------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/PlanAttention.h"

#include <type_traits>

namespace dpc::rt {

/// The addresses of the buffers of an attention or its gradient.
struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *out = nullptr, *lse = nullptr; ///< inputs of the gradient
  // Only for the gradient:
  const void *dout = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void *workspace = nullptr; ///< unused on the CPU
};

/// at(id) returns the address of buffer `id`.
template <typename Op, typename At>
AttentionData attentionData(const Op &op, const At &at) {
  AttentionData data;
  data.q = at(op.q.buffer);
  data.k = at(op.k.buffer);
  data.v = at(op.v.buffer);
  data.out = at(op.out.buffer);
  data.lse = at(op.lse);
  if constexpr (std::is_same_v<Op, AttentionGradOp>) {
    data.dout = at(op.dout.buffer);
    data.dq = at(op.dq.buffer);
    data.dk = at(op.dk.buffer);
    data.dv = at(op.dv.buffer);
    data.workspace = op.workspace < 0 ? nullptr : at(op.workspace);
  }
  return data;
}

/// Computes an attention with plain loops in f32, without rounding of
/// probabilities. Other backends are compared with these loops. One key head is
/// copied as f32, in addition to the plan's arena.
Status runAttention(const AttentionOp &op, const AttentionData &data);
Status runAttention(const AttentionGradOp &op, const AttentionData &data);

} // namespace dpc::rt
