//===- ExpertTiles.h - tiles of rows sorted by their experts ----*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/kernels/ExpertRows.h"
#include "runtime/plan/Plan.h"

#include <algorithm>
#include <functional>

namespace dpc::rt {

/// Returns the ids of `op`, which are at `ids`. `own` returns the value of a
/// ScalarExpr.
template <typename Own>
ExpertIds expertIds(const Plan &plan, const ExpertTilesOp &op, Own &&own,
                    const void *ids) {
  return {ids, plan.buffers[op.ids].dtype, own(op.first),
          std::clamp<int64_t>(own(op.valid), 0, op.experts)};
}

/// Runs `op` on the rows with `ids`. `data` returns the address of a buffer,
/// and `runBody` runs the body once.
Status runExpertTiles(const Plan &plan, const ExpertTilesOp &op,
                      const ExpertIds &ids,
                      const std::function<char *(int)> &data,
                      const std::function<Status()> &runBody);

} // namespace dpc::rt
