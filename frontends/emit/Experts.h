//===- Experts.h - Products of rows with their experts ----------*- C++ -*-===//
//
// PyTorch sorts the rows of a mixture by their experts, multiplies groups of
// rows, and sorts them back. Here a product has the ids of experts
// (dpc.expert_matmul) instead of the ends of groups, so that dpc-simplify can
// move it in front of the sort (passes/graph/SimplifyExperts.cpp).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Returns how often each of 0, .., depth - 1 occurs in `ids`, as a list of
/// `element`. Other ids do not count.
Val countIds(Emitter &e, Val ids, int64_t depth, mlir::Type element);

/// Returns y[r] = x[r] w[g], where rows `ends`[g - 1] to `ends`[g] - 1 of `x`
/// [rows, k] are group g, and w is [groups, k, n]. Rows after the last group
/// give zeros.
Val groupedMatmul(Emitter &e, Val x, Val w, Val ends);

/// Returns dw[g] = sum of x[r]^T y[r] over the rows r of group g, for `x`
/// [rows, k] and `y` [rows, n]; zero for an empty group.
Val groupedOuter(Emitter &e, Val x, Val y, Val ends);

/// Returns the inverse of `positions`, which must be a permutation.
Val inversePermutation(Emitter &e, Val positions);

/// Whether `positions` are those of all elements of a sorted list.
bool isPermutation(const Val &positions);

} // namespace dpc::frontend
