//===- Baselines.cpp - Strategies estimated by formula --------------------===//
//
// Used for what this build cannot execute, from the totals of the model alone.
// With ranks N = dp * tp * pp, local batch s = ceil(G / dp), m = ceil(s / mb)
// micro-batches:
//   memory   parameters / (tp * pp), / dp for zero 3; gradients the same, / dp
//            from zero 2; optimizer states the same, / dp from zero 1;
//            activations of min(m, pp) micro-batches in flight, / (tp * pp).
//            tp without sp leaves 10 of 34 parts of a block's activations whole
//            (Korthikanti et al. 2022, equations 1 to 4).
//   compute  FLOPs of the padded share over the rate of the block's products,
//            plus 3 passes over the activations and 3 over the update's state.
//   bubble   (pp - 1) / vpp slots of one micro-batch.
//   tp       2 all_reduces of a block's output forward, 2 backward, per block
//            and micro-batch, all exposed.
//   dp       gradients: all_reduce, or reduce_scatter + all_gather (zero 1, 2);
//            zero 3 gathers parameters twice per micro-batch instead. Half of
//            the last micro-batch's time hides it.
//
//===----------------------------------------------------------------------===//

#include "cost-model/CollectiveCost.h"
#include "cost-model/ComputeCost.h"
#include "cost-model/Search.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

namespace {

/// The quantities every formula needs.
class Formula {
public:
  Formula(const Cluster &cluster, const ModelTotals &totals,
          const Strategy &strategy);
  Evaluation estimate();

private:
  void estimateMemory();
  double computeSeconds() const;
  double rate() const;
  /// Adds a collective of a group, `times` times; returns its seconds.
  double communicate(Collective kind, double bytes, const GroupPlacement &group,
                     double times);
  double tensorSeconds();
  double dataSeconds();
  double pipelineSeconds();

  const Cluster &cluster;
  const ModelTotals &totals;
  const Strategy &strategy;
  const Device &device;
  DType type;
  double dp, tp, pp, shards; ///< shards = tp * pp.
  double microBatch, numMicroBatches;
  double layersPerStage;
  Evaluation result;
};

} // namespace

Formula::Formula(const Cluster &cluster, const ModelTotals &totals,
                 const Strategy &strategy)
    : cluster(cluster), totals(totals), strategy(strategy),
      device(cluster.slowestDevice(
          computeType(cluster.groups.front().device, totals.computeType))),
      type(computeType(device, totals.computeType)), dp(double(strategy.dp)),
      tp(double(strategy.tp)), pp(double(strategy.pp)), shards(tp * pp) {
  double local = std::ceil(double(totals.globalBatch) / dp);
  microBatch = strategy.microBatch > 0
                   ? std::min(double(strategy.microBatch), local)
                   : local;
  numMicroBatches = std::ceil(local / microBatch);
  layersPerStage = std::ceil(double(totals.layers) / pp);
  result.bytesPerLevel.assign(cluster.levels.size(), 0.0);
}

void Formula::estimateMemory() {
  double zero = double(strategy.zero);
  double share = shards;
  MemoryBreakdown &memory = result.memory;
  memory[MemoryCategory::Parameters] =
      totals.parameterBytes / share / (zero >= 3 ? dp : 1);
  // A block's parameters are whole while they are used.
  if (zero >= 3)
    memory[MemoryCategory::Communication] =
        2 * totals.parameterBytes / tp / double(totals.layers);
  if (totals.training) {
    memory[MemoryCategory::Gradients] =
        totals.gradientBytes / share / (zero >= 2 ? dp : 1);
    memory[MemoryCategory::Optimizer] =
        totals.optimizerBytes / share / (zero >= 1 ? dp : 1);
  }
  constexpr double wholeParts = 10.0 / 34.0;
  double split = strategy.sp ? 1 / tp : wholeParts + (1 - wholeParts) / tp;
  double inFlight = std::min(numMicroBatches, pp) * microBatch;
  double activations = totals.activationBytesPerSample * split;
  if (strategy.recompute == "full")
    activations = totals.hiddenBytesPerSample * double(totals.layers) +
                  activations / double(totals.layers);
  memory[MemoryCategory::Activations] = inFlight * activations / pp;
}

/// FLOP/s of a rank on the products of a block.
double Formula::rate() const {
  double hidden = totals.hiddenBytesPerSample / totals.tokensPerSample /
                  bytesPerElement(totals.computeType);
  double peak = device.peak(type);
  if (hidden < 1)
    return peak * device.gemm.peakFraction;
  GemmShape shape;
  shape.m =
      std::max<int64_t>(1, std::llround(microBatch * totals.tokensPerSample));
  shape.n = std::max<int64_t>(1, std::llround(4 * hidden / tp));
  shape.k = std::max<int64_t>(1, std::llround(hidden));
  return shape.flops() / gemmSeconds(device, type, shape);
}

double Formula::computeSeconds() const {
  double samples = numMicroBatches * microBatch;
  double flops = totals.flopsPerStep * samples / double(totals.globalBatch);
  if (strategy.recompute == "full")
    flops *= 4.0 / 3.0;
  double traffic = 3 * samples * totals.activationBytesPerSample / shards;
  double update = 0;
  if (totals.training)
    update =
        3 *
        (totals.parameterBytes + totals.gradientBytes + totals.optimizerBytes) /
        shards / (strategy.zero >= 1 ? dp : 1);
  return flops / shards / rate() +
         (traffic + update) / achievableBandwidth(device);
}

double Formula::communicate(Collective kind, double bytes,
                            const GroupPlacement &group, double times) {
  CollectiveEstimate one = estimateCollective(cluster, kind, bytes, group);
  for (size_t i = 0; i < one.bytesPerLevel.size(); ++i)
    result.bytesPerLevel[i] += times * one.bytesPerLevel[i];
  return times * one.seconds;
}

double Formula::tensorSeconds() {
  double passes = totals.training ? 4 : 2;
  if (strategy.recompute == "full")
    passes += 2;
  return communicate(Collective::AllReduce,
                     totals.hiddenBytesPerSample * microBatch,
                     placeAxis(cluster, 1, strategy.tp),
                     passes * layersPerStage * numMicroBatches);
}

double Formula::dataSeconds() {
  // Order on the levels: tp innermost, then dp, then pp.
  GroupPlacement group = placeAxis(cluster, strategy.tp, strategy.dp);
  double seconds = 0;
  if (strategy.zero >= 3)
    seconds +=
        communicate(Collective::AllGather, totals.parameterBytes / shards,
                    group, (totals.training ? 2 : 1) * numMicroBatches);
  if (!totals.training)
    return seconds;
  double gradients = totals.gradientBytes / shards;
  if (strategy.zero == 0)
    return communicate(Collective::AllReduce, gradients, group, 1);
  seconds += communicate(Collective::ReduceScatter, gradients, group, 1);
  if (strategy.zero < 3)
    seconds += communicate(Collective::AllGather,
                           totals.parameterBytes / shards, group, 1);
  return seconds;
}

double Formula::pipelineSeconds() {
  if (strategy.pp == 1)
    return 0;
  return communicate(
      Collective::SendRecv, totals.hiddenBytesPerSample * microBatch,
      placeAxis(cluster, strategy.tp * strategy.dp, strategy.pp),
      (totals.training ? 2 : 1) * numMicroBatches * double(strategy.vpp));
}

Evaluation Formula::estimate() {
  estimateMemory();
  double compute = computeSeconds();
  double perMicroBatch = compute / numMicroBatches;
  double tensor = tensorSeconds();
  double hidden = totals.training ? perMicroBatch / 2 : 0;
  double data = std::max(0.0, dataSeconds() - hidden);
  double pipeline = pipelineSeconds();
  double busy = compute + tensor + pipeline;
  double bubble = (pp - 1) / double(strategy.vpp) * busy / numMicroBatches;
  result.computeSeconds = compute;
  result.exposedCommunicationSeconds = tensor + data + pipeline;
  result.stepSeconds = busy + data + bubble;
  result.bubbleFraction =
      result.stepSeconds > 0 ? bubble / result.stepSeconds : 0;
  result.flops = totals.flopsPerStep;
  return result;
}

Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy) {
  return Formula(cluster, totals, strategy).estimate();
}

} // namespace dpc::cost
