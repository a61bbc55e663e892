//===- FormulaEstimate.cpp - Strategies estimated by formula --------------===//
//
// A rank takes s = ceil(G / dp) samples of the global batch G, in
// m = ceil(s / mb) micro-batches of mb samples.
//
//   memory    Parameters, gradients and optimizer states, divided by tp * pp.
//             ZeRO divides optimizer states (stage 1), gradients (stage 2) and
//             parameters (stage 3) by dp * cp as well, or by hybrid_shard * cp.
//             If the compute type differs from that of the parameters, these
//             are sharded like optimizer states, and copies of them stay whole
//             up to stage 2. One micro-batch keeps the gradients of two blocks.
//             Activations of the micro-batches in flight, divided by tp * pp *
//             cp: m micro-batches for GPipe, else min(m, pp); interleaved 1F1B
//             has 1 + (pp - 1) / (pp * vpp) times as many, at most m. Without
//             sp, tp keeps 10 of 34 parts of a block's activations whole
//             (Korthikanti et al. 2022, equations 1 to 4); with sp and
//             without recompute, it keeps the two gathered inputs of GEMMs; a
//             tensor grid keeps nothing whole.
//   compute   The GEMMs of m micro-batches of mb samples (GemmTimes.h), the
//             other FLOPs divided by the rate of the block's largest GEMM, and
//             the launches of the other kernels of each micro-batch, plus the
//             time to read or write the activations 3 times, plus the same for
//             parameters, gradients and optimizer states, and to read and write
//             the sums of gradients over several micro-batches, to which GEMMs
//             add. On heterogeneous devices: the time of the slowest device
//             times heterogeneousShare (HeterogeneousCluster.h).
//   recompute Full keeps a block's input, for a third more FLOPs. Selective
//             keeps the results of GEMMs (about 18 of 34 parts of a block's
//             activations), for one more pass over the activations.
//   bubble    The time t of a micro-batch, times (pp - 1) / vpp. If m < pp, the
//             chunks of a rank wait for each other: pp + (m - 1) / vpp - m
//             times t. ZB-H1 fills a third of t for each micro-batch, so that
//             (pp - 1) / 3 times t remains, and (2 (pp - 1) - (m - 1)) / 3
//             times t if this is longer.
//   pp        A message of a block's output per micro-batch, chunk and
//             direction, which sp splits over tp. Messages travel behind the
//             computation of other micro-batches, except those of the first
//             and of the last one, which all stages wait for. Gradients of tied
//             parameters travel to the first stage, behind the backward pass of
//             a single micro-batch, and the parameters travel back.
//   tp        2 all_reduces of a block's output in each of the forward and the
//             backward pass, per block and micro-batch, all exposed. In a grid
//             a x b, each factor reduces the parts that the other one split.
//   cp        Ring: keys and values travel around the ring in the forward pass;
//             keys, values and their gradients do so in the backward pass.
//             Ulysses: 4 all_to_alls of a block's output, twice.
//   ep        A fraction f of the parameters is split over the e ranks that
//             share experts. Each rank holds, gathers and reduces 1 - f + f / e
//             of the parameters. The inputs and outputs of slots of experts
//             travel between all e ranks, forward and backward, in every block.
//             Without slots, tokens are gathered and sums are scattered, and no
//             rank keeps rows of experts.
//   offload   Offloaded values only take memory for two blocks in transfer.
//             Optimizer states travel both ways once a step. Parameters arrive
//             in every pass of every micro-batch and return once. All these
//             transfers overlap with computation.
//   dp        Gradients: all_reduce, or reduce_scatter for ZeRO, in stages 2
//             and 3 for every micro-batch. A single micro-batch hides half
//             of this time. Parameters: ZeRO 1 and 2 gather them before the
//             loop. ZeRO 3 gathers them twice per micro-batch instead, behind
//             the computation. With hybrid_shard = h, these collectives join h
//             neighbours, whose shards of the gradients are reduced over the
//             dp / h groups.
//
//===----------------------------------------------------------------------===//
#include "cost-model/search/FormulaEstimate.h"

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/machine/ComputeCost.h"
#include "cost-model/machine/HeterogeneousCluster.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

namespace {

class Formula {
public:
  Formula(const Cluster &cluster, const ModelTotals &totals,
          const GemmTimes &gemms, const Strategy &strategy);
  Evaluation estimate();

private:
  void estimateMemory();
  double splitOfTensors() const;
  /// Returns the bytes of activations of a sample.
  double activationBytes() const {
    return totals.activationBytesPerSample -
           (strategy.ep > 1 ? totals.expertRowBytesPerSample : 0);
  }
  /// Returns the bytes of all parameters as ZeRO gathers them.
  double gatheredBytes() const {
    return totals.copyBytes > 0 ? totals.copyBytes : totals.parameterBytes;
  }
  double computeSeconds() const;
  /// Adds `times` collectives to the traffic, and returns their seconds.
  double communicate(Collective kind, double bytes, const GroupPlacement &group,
                     double times);
  double inFlight() const;
  double tensorSeconds();
  double sequenceSeconds();
  double expertSeconds();
  double dataSeconds(double compute);
  double pipelineSeconds(double compute);
  double idleMicroBatches() const;
  double offloadSeconds() const;
  void offloadMemory();

  const Cluster &cluster;
  const ModelTotals &totals;
  const GemmTimes &gemms;
  const Strategy &strategy;
  const Device &device;
  DType type;
  double dp, tp, pp, cp;
  double shards;          ///< Ranks that split parameters: tp * pp.
  double zeroShards;      ///< Ranks that ZeRO splits states over.
  double expertRanks = 1; ///< Data-parallel ranks that share experts.
  double kept = 1;        ///< Fraction of parameters on a rank.
  double microBatch, numMicroBatches;
  double layersPerStage;
  Evaluation result;
};

} // namespace

Formula::Formula(const Cluster &cluster, const ModelTotals &totals,
                 const GemmTimes &gemms, const Strategy &strategy)
    : cluster(cluster), totals(totals), gemms(gemms), strategy(strategy),
      device(cluster.slowestDevice(
          computeType(cluster.groups.front().device, totals.computeType))),
      type(computeType(device, totals.computeType)), dp(double(strategy.dp)),
      tp(double(strategy.tp)), pp(double(strategy.pp)), cp(double(strategy.cp)),
      shards(tp * pp), zeroShards(dp * cp) {
  if (strategy.hybridShard > 1)
    zeroShards = double(strategy.hybridShard) * cp;
  if (strategy.ep > 1) {
    bool isData = strategy.dp % strategy.ep == 0;
    expertRanks = double(isData ? strategy.ep : strategy.ep / strategy.tp);
    double share = totals.expertParameters / std::max(totals.parameters, 1.0);
    kept = 1 - share + share / expertRanks;
  }
  double local = std::ceil(double(totals.globalBatch) / dp);
  microBatch = strategy.microBatch > 0
                   ? std::min(double(strategy.microBatch), local)
                   : local;
  numMicroBatches = std::ceil(local / microBatch);
  layersPerStage = std::ceil(double(totals.layers) / pp);
  result.bytesPerLevel.assign(cluster.levels.size(), 0.0);
}

/// Returns the number of samples whose activations a stage holds at once.
double Formula::inFlight() const {
  double batches = pp;
  if (strategy.schedule == ScheduleKind::GPipe && pp > 1)
    batches = numMicroBatches;
  if (strategy.vpp > 1)
    batches *= 1 + (pp - 1) / (pp * double(strategy.vpp));
  return std::min(batches, numMicroBatches) * microBatch;
}

/// Returns which fraction of a block's activations a rank of tp has.
double Formula::splitOfTensors() const {
  constexpr double wholeParts = 10.0 / 34.0;
  bool splitsAll = strategy.sp || !strategy.tp.grid.empty();
  return splitsAll ? 1 / tp : wholeParts + (1 - wholeParts) / tp;
}

void Formula::estimateMemory() {
  double zero = double(strategy.zero), layers = double(totals.layers);
  bool hasCopies = totals.copyBytes > 0;
  auto shareOf = [&](bool isSharded) {
    return (isSharded ? 1 / zeroShards : kept) / shards;
  };
  MemoryBreakdown &memory = result.memory;
  memory[MemoryCategory::Parameters] =
      totals.parameterBytes * shareOf(zero >= (hasCopies ? 1 : 3));
  if (zero < 3)
    memory[MemoryCategory::Parameters] += totals.copyBytes * kept / shards;
  else // the parameters of two blocks at a time
    memory[MemoryCategory::Communication] =
        2 * gatheredBytes() * kept / tp / layers;
  if (totals.training) {
    memory[MemoryCategory::Gradients] =
        totals.gradientBytes * shareOf(zero >= 2);
    if (numMicroBatches == 1)
      memory[MemoryCategory::Gradients] =
          std::min(memory[MemoryCategory::Gradients],
                   2 * totals.gradientBytes * kept / tp / layers);
    memory[MemoryCategory::Optimizer] =
        totals.optimizerBytes * shareOf(zero >= 1);
  }
  constexpr double keptParts = 18.0 / 34.0;
  double activations = activationBytes() * splitOfTensors();
  if (strategy.sp && tp > 1 && strategy.recompute == Recompute::None)
    activations += 2 * totals.hiddenBytesPerSample * layers;
  if (strategy.recompute == Recompute::Full)
    activations = totals.hiddenBytesPerSample * layers + activations / layers;
  if (strategy.recompute == Recompute::Selective)
    activations *= keptParts;
  memory[MemoryCategory::Activations] = inFlight() * activations / (pp * cp);
  offloadMemory();
}

void Formula::offloadMemory() {
  MemoryBreakdown &memory = result.memory;
  auto move = [&](MemoryCategory category) {
    double &away = strategy.offloadTo == OffloadTarget::Disk ? result.diskBytes
                                                             : result.hostBytes;
    away += memory[category];
    memory[MemoryCategory::Communication] +=
        2 * memory[category] / layersPerStage;
    memory[category] = 0;
  };
  if (strategy.offload == Offload::Optimizer ||
      strategy.offload == Offload::All)
    move(MemoryCategory::Optimizer);
  if (strategy.offload == Offload::Parameters ||
      strategy.offload == Offload::All)
    move(MemoryCategory::Parameters);
}

double Formula::offloadSeconds() const {
  if (strategy.offload == Offload::None)
    return 0;
  double zero = double(strategy.zero), bytes = 0;
  if (strategy.offload != Offload::Parameters)
    bytes += 2 * totals.optimizerBytes / shards / (zero >= 1 ? zeroShards : 1);
  if (strategy.offload != Offload::Optimizer)
    bytes += ((totals.training ? 2 : 1) * numMicroBatches + 2) *
             totals.parameterBytes / shards / (zero >= 3 ? zeroShards : 1);
  return bytes / hostLinkBytesPerSecond(cluster, strategy.offloadTo ==
                                                     OffloadTarget::Disk);
}

double Formula::computeSeconds() const {
  double samples = numMicroBatches * microBatch;
  double others = totals.flopsPerStep * samples / double(totals.globalBatch) -
                  gemms.flops(samples);
  double passesSeconds =
      numMicroBatches / pp *
          (gemms.seconds(microBatch / cp, strategy.tp, expertRanks) +
           totals.otherKernels * device.launchSeconds) +
      std::max(0.0, others) / (shards * cp) /
          gemms.rate(microBatch / cp, strategy.tp);
  if (strategy.recompute == Recompute::Full)
    passesSeconds *= 4.0 / 3.0;
  double passes = strategy.recompute == Recompute::Selective ? 4 : 3;
  double traffic = passes * samples * activationBytes() * splitOfTensors() / pp;
  double update = 0;
  if (totals.training)
    update =
        3 *
        (totals.parameterBytes + totals.gradientBytes + totals.optimizerBytes) /
        shards * (strategy.zero >= 1 ? 1 / zeroShards : kept);
  if (totals.training && numMicroBatches > 1)
    update += 2 * numMicroBatches * totals.gradientBytes / shards *
              (strategy.zero >= 2 ? 1 / zeroShards : kept);
  double heterogeneous =
      isHeterogeneous(cluster)
          ? heterogeneousShare(cluster, strategy, std::llround(numMicroBatches),
                               type)
          : 1;
  return heterogeneous *
             (passesSeconds + traffic / cp / achievableBandwidth(device)) +
         update / achievableBandwidth(device);
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
  if (strategy.recompute == Recompute::Full)
    passes += 2;
  double bytes = totals.hiddenBytesPerSample * microBatch / cp;
  double times = passes * layersPerStage * numMicroBatches;
  if (strategy.tp.grid.empty())
    return communicate(Collective::AllReduce, bytes,
                       placeAxis(cluster, 1, strategy.tp), times);
  double seconds = 0;
  int64_t stride = strategy.tp;
  for (int64_t factor : strategy.tp.grid) {
    stride /= factor;
    seconds += communicate(Collective::AllReduce, bytes * double(factor) / tp,
                           placeAxis(cluster, stride, factor), times);
  }
  return seconds;
}

double Formula::sequenceSeconds() {
  if (strategy.cp == 1)
    return 0;
  GroupPlacement group = placeAxis(cluster, strategy.tp, strategy.cp);
  double bytes = totals.hiddenBytesPerSample * microBatch / (cp * tp);
  double times = layersPerStage * numMicroBatches;
  if (strategy.cpKind == CpKind::Ulysses)
    return communicate(Collective::AllToAll, bytes, group,
                       (totals.training ? 8 : 4) * times);
  GroupPlacement pair = placeAxis(cluster, strategy.tp, 2);
  return communicate(Collective::SendRecv, bytes, pair,
                     (totals.training ? 6 : 2) * (cp - 1) * times);
}

double Formula::expertSeconds() {
  if (strategy.ep == 1)
    return 0;
  GroupPlacement group =
      placeAxis(cluster, strategy.tp * strategy.cp, int64_t(expertRanks));
  double times = (totals.training ? 2 : 1) * layersPerStage * numMicroBatches;
  double samples = microBatch / cp;
  if (totals.expertRowBytesPerSample == 0)
    return communicate(Collective::AllToAll,
                       totals.routedBytesPerSample * samples, group, times);
  double tokens = totals.hiddenBytesPerSample * samples * expertRanks;
  return communicate(Collective::AllGather, tokens, group, times) +
         communicate(Collective::ReduceScatter, tokens, group, times);
}

double Formula::dataSeconds(double compute) {
  // On the link levels, tp is the innermost axis, then come cp, dp and pp.
  int64_t sharing =
      strategy.hybridShard > 1 ? strategy.hybridShard : strategy.dp;
  GroupPlacement group = placeAxis(cluster, strategy.tp, strategy.cp * sharing);
  auto gather = [&](double times) {
    return communicate(Collective::AllGather, gatheredBytes() * kept / shards,
                       group, times);
  };
  double exposed = 0;
  if (strategy.zero >= 3)
    exposed += std::max(
        0.0, gather((totals.training ? 2 : 1) * numMicroBatches) - compute);
  if (!totals.training)
    return exposed;
  if (strategy.zero == 1 || strategy.zero == 2)
    exposed += gather(1);
  double gradients = totals.gradientBytes * kept / shards;
  double times = strategy.zero >= 2 ? numMicroBatches : 1;
  double reduce = 0;
  if (strategy.zero == 0)
    reduce = communicate(
        Collective::AllReduce, gradients,
        placeAxis(cluster, strategy.tp, strategy.cp * strategy.dp), 1);
  else
    reduce = communicate(Collective::ReduceScatter, gradients, group, times);
  if (strategy.zero > 0 && sharing < strategy.dp)
    reduce +=
        communicate(Collective::AllReduce, gradients / zeroShards,
                    placeAxis(cluster, strategy.tp * strategy.cp * sharing,
                              strategy.dp / sharing),
                    1);
  double hidden = numMicroBatches == 1 ? std::min(reduce, compute) / 2 : 0;
  return exposed + reduce - hidden;
}

/// Returns the seconds of the messages that `compute` does not hide.
double Formula::pipelineSeconds(double compute) {
  if (strategy.pp == 1)
    return 0;
  double directions = totals.training ? 2 : 1;
  double bytes = totals.hiddenBytesPerSample * microBatch / cp;
  if (strategy.sp)
    bytes /= tp;
  double times = directions * numMicroBatches * double(strategy.vpp);
  const int64_t inside = strategy.tp * strategy.cp * strategy.dp;
  double seconds = communicate(Collective::SendRecv, bytes,
                               placeAxis(cluster, inside, 2), times);
  double first = directions * (pp - 1) * seconds / times;
  double tied = 0;
  if (totals.training && totals.tiedBytes > 0) {
    double shard =
        totals.tiedBytes / tp / (strategy.zero >= 1 ? zeroShards : 1);
    tied = communicate(Collective::SendRecv, shard,
                       placeAxis(cluster, inside * (strategy.pp - 1), 2),
                       numMicroBatches > 1 ? 2 : 1);
  }
  return first + std::max(0.0, seconds - compute) + tied;
}

/// Returns how many micro-batches a rank could run while it waits for stages.
double Formula::idleMicroBatches() const {
  double m = numMicroBatches, others = pp - 1, vpp = double(strategy.vpp);
  if (splitsBackward(strategy.schedule)) // Schedule.h: ZB-H1
    return std::max(others, 2 * others - (m - 1)) / 3;
  return m < pp ? pp + (m - 1) / vpp - m : others / vpp;
}

Evaluation Formula::estimate() {
  estimateMemory();
  double compute = computeSeconds();
  double tensor = tensorSeconds() + sequenceSeconds() + expertSeconds();
  double data = dataSeconds(compute);
  double pipeline = pipelineSeconds(compute);
  double busy = compute + tensor;
  double bubble = idleMicroBatches() * busy / numMicroBatches;
  result.computeSeconds = compute;
  result.exposedCommunicationSeconds = tensor + data + pipeline;
  result.stepSeconds =
      std::max(busy + data + pipeline + bubble, offloadSeconds());
  result.bubbleFraction =
      result.stepSeconds > 0 ? bubble / result.stepSeconds : 0;
  result.flops = totals.flopsPerStep;
  return result;
}

Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const GemmTimes &gemms, const Strategy &strategy) {
  return Formula(cluster, totals, gemms, strategy).estimate();
}

Evaluation estimateByFormula(const Cluster &cluster, const ModelTotals &totals,
                             const Strategy &strategy) {
  return estimateByFormula(cluster, totals, GemmTimes(cluster, totals),
                           strategy);
}

} // namespace dpc::cost
