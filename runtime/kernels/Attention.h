//===- Attention.h - attention on the CPU -----------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_ATTENTION_H
#define DPC_RUNTIME_KERNELS_ATTENTION_H

#include "runtime/base/Status.h"
#include "runtime/plan/PlanAttention.h"

#include <type_traits>

namespace dpc::rt {

/// The addresses of the buffers of an attention or its gradient.
struct AttentionData {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void *out = nullptr, *lse = nullptr; ///< read by the gradient
  const void *dout =
      nullptr; ///< this and the members below: only for the gradient
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void *workspace = nullptr; ///< unused on the CPU
};

/// The addresses for `op`; at(buffer) is the address of a buffer.
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

/// Plain loops in f32, the reference for other backends. The loops do not round
/// probabilities. The f32 copies of one key head need memory in addition to the
/// plan's arena.
Status runAttention(const AttentionOp &op, const AttentionData &data);
Status runAttention(const AttentionGradOp &op, const AttentionData &data);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_ATTENTION_H
