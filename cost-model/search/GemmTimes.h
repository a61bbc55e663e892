//===- GemmTimes.h - Seconds of a model's GEMMs -----------------*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"
#include "cost-model/search/Evaluation.h"

#include <map>
#include <shared_mutex>
#include <tuple>

namespace dpc::cost {

/// The times of ModelTotals::gemms for the sizes of shards. Keeps what it
/// computed, because thousands of strategies have equal sizes. Thread-safe.
class GemmTimes {
public:
  /// `cluster` and `totals` must outlive the object.
  GemmTimes(const Cluster &cluster, const ModelTotals &totals);

  /// Returns the seconds of the GEMMs of all layers for `samples` samples, in
  /// the forward pass and, if the model trains, the backward pass. tp splits
  /// the larger dimension of each weight, and stacked weights are split over
  /// `expertRanks` ranks, which exchange their rows.
  double seconds(double samples, int64_t tp, double expertRanks) const;
  /// Returns the FLOPs of these GEMMs without any split.
  double flops(double samples) const;
  /// Returns the FLOP/s of the first of ModelTotals::gemms in the forward pass;
  /// without GEMMs, of large ones.
  double rate(double samples, int64_t tp) const;

private:
  double passes() const { return totals.training ? 3 : 1; }
  double secondsOf(const GemmTotals &gemm, double samples, int64_t tp,
                   double expertRanks) const;

  const ModelTotals &totals;
  const Device &device;
  DType type;
  mutable std::shared_mutex mutex;
  mutable std::map<std::tuple<double, int64_t, double>, double> known;
};

} // namespace dpc::cost
