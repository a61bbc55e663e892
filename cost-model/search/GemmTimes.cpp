//===- GemmTimes.cpp - Seconds of a model's GEMMs -------------------------===//
#include "cost-model/search/GemmTimes.h"

#include "cost-model/machine/ComputeCost.h"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace dpc::cost {

GemmTimes::GemmTimes(const Cluster &cluster, const ModelTotals &totals)
    : totals(totals), device(cluster.slowestDevice(computeType(
                          cluster.groups.front().device, totals.computeType))),
      type(computeType(device, totals.computeType)) {}

static int64_t atLeastOne(double size) {
  return std::max<int64_t>(1, std::llround(size));
}

double GemmTimes::secondsOf(const GemmTotals &gemm, double samples, int64_t tp,
                            double expertRanks) const {
  double experts = gemm.batch > 1 ? expertRanks : 1;
  const int64_t batch = atLeastOne(double(gemm.batch) / experts);
  const int64_t rows = atLeastOne(samples * gemm.rowsPerSample * experts);
  int64_t n = gemm.n, k = gemm.k;
  (n > k ? n : k) = atLeastOne(double(std::max(n, k)) / double(tp));
  auto time = [&](int64_t m, int64_t n, int64_t k) {
    return gemmSeconds(device, type, {.batch = batch, .m = m, .n = n, .k = k});
  };
  double seconds = time(rows, n, k);
  if (totals.training) // the gradients of the rows and of the weight
    seconds += time(rows, k, n) + time(k, n, rows);
  return gemm.count * seconds;
}

double GemmTimes::seconds(double samples, int64_t tp,
                          double expertRanks) const {
  std::tuple key(samples, tp, expertRanks);
  {
    std::shared_lock<std::shared_mutex> lock(mutex);
    if (auto it = known.find(key); it != known.end())
      return it->second;
  }
  double sum = 0;
  for (const GemmTotals &gemm : totals.gemms)
    sum += secondsOf(gemm, samples, tp, expertRanks);
  std::unique_lock<std::shared_mutex> lock(mutex);
  known.emplace(key, sum);
  return sum;
}

double GemmTimes::flops(double samples) const {
  double sum = 0;
  for (const GemmTotals &gemm : totals.gemms)
    sum += gemm.flopsPerSample();
  return passes() * samples * sum;
}

double GemmTimes::rate(double samples, int64_t tp) const {
  if (totals.gemms.empty())
    return device.peak(type) * device.gemm.peakFraction;
  const GemmTotals &gemm = totals.gemms.front();
  GemmShape shape;
  shape.m = atLeastOne(samples * gemm.rowsPerSample);
  shape.n = atLeastOne(double(gemm.n) / double(tp));
  shape.k = gemm.k;
  return shape.flops() / gemmSeconds(device, type, shape);
}

} // namespace dpc::cost
