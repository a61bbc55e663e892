//===- ShareTime.cpp - Step time with uneven batch shares -----------------===//
#include "passes/price/ShareTime.h"

#include "cost-model/strategy/BatchShares.h"

using namespace mlir;
using namespace dpc;

SharedSeconds dpc::secondsOfShares(ArrayRef<cost::LoopSeconds> onGroups,
                                   ArrayRef<cost::StageDevices> devices,
                                   ArrayRef<int64_t> shares) {
  double loop = -1, rest = 0, loopCompute = 0, restCompute = 0;
  for (auto [own, share] : llvm::zip_equal(devices, shares)) {
    const cost::LoopSeconds &seconds = onGroups[own.group];
    auto count = static_cast<double>(share);
    if (count * seconds.microBatch > loop) {
      loop = count * seconds.microBatch;
      loopCompute = count * seconds.microBatchCompute;
    }
    rest = std::max(rest, seconds.rest);
    restCompute = std::max(restCompute, seconds.restCompute);
  }
  return {loop + rest, loopCompute + restCompute};
}

static std::vector<cost::ShareOfRanks>
runsOf(ArrayRef<int64_t> shares, ArrayRef<cost::StageDevices> devices,
       ArrayRef<cost::LoopSeconds> onGroups, const cost::Cluster &cluster) {
  std::vector<cost::ShareOfRanks> runs;
  for (auto [share, own] : llvm::zip_equal(shares, devices)) {
    const std::string &device = cluster.groups[own.group].device.name;
    if (runs.empty() || runs.back().device != device ||
        runs.back().microBatches != share)
      runs.push_back({device, 0, share, onGroups[own.group].microBatch});
    ++runs.back().dataRanks;
  }
  return runs;
}

void dpc::shareBatch(cost::Evaluation &evaluation, const cost::Cluster &cluster,
                     const LoweringSpec &spec) {
  if (evaluation.groupSeconds.empty() || spec.dp == 1)
    return;
  std::vector<cost::StageDevices> devices = cost::devicesOfDataRanks(
      cluster, evaluation.decisions.order, 0, cost::DType::F32);
  std::vector<double> seconds;
  seconds.reserve(devices.size());
  for (const cost::StageDevices &own : devices)
    seconds.push_back(evaluation.groupSeconds[own.group].microBatch);
  std::vector<int64_t> shares =
      cost::fastestShares(seconds, spec.dp * spec.numMicroBatches);
  SharedSeconds shared =
      secondsOfShares(evaluation.groupSeconds, devices, shares);
  // A smaller improvement is a rounding error.
  constexpr double kWorth = 0.999;
  if (shared.step >= kWorth * evaluation.stepSeconds)
    return;
  evaluation.shares = runsOf(shares, devices, evaluation.groupSeconds, cluster);
  evaluation.evenSeconds = evaluation.stepSeconds;
  evaluation.decisions.batchShares = std::move(shares);
  evaluation.stepSeconds = shared.step;
  evaluation.computeSeconds = shared.compute;
  evaluation.exposedCommunicationSeconds =
      std::max(0.0, shared.step - shared.compute);
}
