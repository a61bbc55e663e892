//===- BatchShares.h - Unlike shares of the batch ----------------*- C++ -*-==//
//
// Where data-parallel ranks lie on unlike devices, fast ones take more of the
// batch: more micro-batches of the same size. The batch is cut into D * M
// micro-batches as for even shares (D data-parallel ranks, M each), and rank d
// takes s(d) >= 1 of them with sum s = D * M. So one program serves all ranks,
// and what they compute together does not change.
//
// With t(d) seconds for a micro-batch on rank d the shares solve
//
//   minimize  max over d of s(d) t(d)
//
// and giving one micro-batch after the other to the rank that ends first with
// it does: in every step the maximum is the least that any shares of so many
// micro-batches have.
//
// Text: ratios by data rank, "3:1", each for as many neighbouring ranks as it
// takes to serve all: of 4 ranks 3:1 means 3:3:1:1.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_STRATEGY_BATCHSHARES_H
#define DPC_COST_MODEL_STRATEGY_BATCHSHARES_H

#include "cost-model/strategy/KeyValues.h"

#include <cstdint>
#include <vector>

namespace dpc::cost {

/// Micro-batches by data rank for ratios, where each of `dp` ranks would have
/// `microBatches`; empty where all have these. One line where `ratios` do not
/// fit the ranks or would cut micro-batches.
Expected<std::vector<int64_t>>
shareMicroBatches(const std::vector<int64_t> &ratios, int64_t dp,
                  int64_t microBatches);

/// The least maximum of the file comment: by rank, for its seconds for a
/// micro-batch. `total` is at least the number of ranks. Of equals the first
/// ranks take more.
std::vector<int64_t> fastestShares(const std::vector<double> &seconds,
                                   int64_t total);

/// The fewest and smallest ratios that give these micro-batches by rank.
BatchShares sharesFrom(const std::vector<int64_t> &shares);

} // namespace dpc::cost

#endif // DPC_COST_MODEL_STRATEGY_BATCHSHARES_H
