//===- BatchShares.h - Uneven shares of the batch ----------------*- C++ -*-==//
//
// On heterogeneous devices, faster data-parallel ranks take a larger share of
// the batch: more micro-batches of the same size. The batch has D * M
// micro-batches, where D is the number of data-parallel ranks and M the number
// of micro-batches of a rank with even shares. Rank d takes s(d) >= 1 of them.
// All ranks run the same program, and the result of a step does not change.
//
// If a micro-batch takes t(d) seconds on rank d, the shares solve
//
//   minimize  max over d of s(d) t(d),  where all s(d) add up to D * M
//
// A greedy algorithm is exact: it gives one micro-batch after the other to the
// rank that would finish it first. After each step, the maximum is the smallest
// possible for the micro-batches assigned so far.
//
// A text such as "3:1" gives the ratios of the shares, in the order of the
// data-parallel ranks. Each ratio applies to the same number of adjacent ranks:
// with 4 ranks, 3:1 means 3:3:1:1.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/strategy/KeyValues.h"

#include <cstdint>
#include <vector>

namespace dpc::cost {

/// Divides dp * `microBatches` micro-batches among `dp` ranks by `ratios`.
/// Returns the number for each rank, or an empty list if all shares are equal.
/// Fails if the number of ratios does not divide `dp`, or if a share is not a
/// whole number.
Expected<std::vector<int64_t>>
shareMicroBatches(const std::vector<int64_t> &ratios, int64_t dp,
                  int64_t microBatches);

/// Returns the shares s(d) that the file comment defines, with t(d) =
/// `seconds[d]`. `total` = D * M must be at least the number of ranks. If
/// several ranks would finish at the same time, the first one takes the
/// micro-batch.
std::vector<int64_t> fastestShares(const std::vector<double> &seconds,
                                   int64_t total);

/// Returns the ratios of `shares` (micro-batches per rank) in lowest terms,
/// with one ratio for as many adjacent ranks as possible: 6, 6, 2, 2 gives 3:1.
BatchShares sharesFrom(const std::vector<int64_t> &shares);

} // namespace dpc::cost
