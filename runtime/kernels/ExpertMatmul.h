//===- ExpertMatmul.h - products of rows with their experts -----*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <algorithm>

namespace dpc::rt {

/// The arrays of an ExpertMatmulOp, and the experts of the rank.
struct ExpertArrays {
  const void *x = nullptr, *ids = nullptr;
  void *w = nullptr, *y = nullptr;
  DType idType = DType::I64;
  DType resultType = DType::F32;
  int64_t first = 0, valid = 0;
};

/// Returns the arrays of `op`. `own` returns the value of a ScalarExpr, and
/// `data` the address of a buffer.
template <typename Own, typename Data>
ExpertArrays expertArrays(const Plan &plan, const ExpertMatmulOp &op, Own &&own,
                          Data &&data) {
  bool isForward = op.kind == ExpertMatmulKind::Forward;
  return {.x = data(op.x),
          .ids = data(op.ids),
          .w = data(op.w),
          .y = data(op.y),
          .idType = plan.buffers[op.ids].dtype,
          .resultType = plan.buffers[isForward ? op.y : op.w].dtype,
          .first = own(op.first),
          .valid = std::clamp<int64_t>(own(op.valid), 0, op.experts)};
}

/// Computes `op` (see ExpertMatmulOp). Sorts the rows by their experts and runs
/// one GEMM per expert for at most kExpertTile rows at a time, which it copies
/// unless they are adjacent. The copies need memory in addition to the plan's
/// arena: kExpertTile rows of x and y, the sums of one expert's gradient, and
/// 16 bytes for each row. Any rows may be of one expert. Fails if a GEMM fails.
Status runExpertMatmul(const ExpertMatmulOp &op, const ExpertArrays &arrays);

inline constexpr int64_t kExpertTile = 1024;

} // namespace dpc::rt
