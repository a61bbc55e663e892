//===- Blocks.h - Evaluations composed from measured segments ---*- C++ -*-===//
//
// The work of a rank in a layer depends on few keys of a strategy: the tensor,
// sequence and expert ranks, the samples of a micro-batch, recompute, the ZeRO
// stage, and offload. It does not depend on the number of data-parallel ranks,
// the number of stages and chunks, or the schedule. Therefore one small
// pipeline is lowered, and its four segments are measured:
//
//   the ops before the layers | one layer | two layers | the ops after them
//
// The evaluations of all strategies that agree in these keys are composed from
// these segments. The cost of the layers of a stage is a linear function of
// their number, determined by the measurements of one and two layers.
// Collectives over data-parallel ranks are priced again for each strategy. The
// bytes of ZeRO shards are scaled, and the schedule is simulated.
//
// A composed evaluation is an estimate, because the communication of a segment
// does not overlap with other segments. The winner is evaluated again (Fold.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/Evaluation.h"
#include "passes/lower/SharedLowering.h"
#include "passes/price/LayerPlacement.h"
#include "passes/price/StageProfile.h"
#include "passes/shard/LoweringSpec.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace dpc {

/// Returns a text that is equal for strategies that share segments.
/// `globalBatch` is in samples.
std::string blockKeyOf(const LoweringSpec &spec, int64_t globalBatch);

/// The costs of the ops that run once per step.
struct OncePerStep {
  struct Traffic {
    cost::Collective kind;
    double bytes;
    std::vector<std::string> axes;
    /// How many of `bytes` are gradients that are then sent to another stage,
    /// which also stores the parameter. A single stage reduces them only once.
    double sentBytes = 0;
  };
  std::vector<Traffic> setup, update;
  double setupSeconds = 0, updateSeconds = 0; ///< Seconds of computation.
};

class Blocks {
public:
  /// Measures the segments for all strategies that have the key of `like`.
  /// Fails with a diagnostic.
  static mlir::FailureOr<Blocks> measure(ProgramFamily &family,
                                         SharedLowering &lowering,
                                         const LayerPlacement &placement,
                                         const LoweringSpec &like,
                                         int64_t globalBatch);

  /// Composes the evaluation of a strategy that has the same key. Thread-safe.
  /// Returns nothing if there are more stages than layers, or if the schedule
  /// does not exist. If a step certainly takes longer than `limit` seconds, the
  /// result contains only a lower bound of its time.
  std::optional<cost::Composition> compose(const LoweringSpec &spec,
                                           double limit) const;

private:
  /// The segments are the stages of the small pipeline.
  enum SegmentNumber { kBefore, kOne, kTwo, kAfter, kSegments };
  struct Segment {
    StageProfile profile;
    OncePerStep once;
    /// The parameters, gradients and states that data-parallel ranks shard.
    cost::MemoryBreakdown shards;
    /// The parameters that another segment also stores, and their gradients.
    cost::MemoryBreakdown copies;
  };
  /// How many layers each virtual stage has. It may be fractional, because a
  /// cut may be inside a layer. Empty if there are fewer layers than stages.
  using Layout = std::vector<double>;
  struct Plan {
    const LoweringSpec &spec;
    const Layout &layout;
    const std::vector<StageParts> &parts; ///< By segment.
    ScheduleTables tables;

    int64_t stages() const { return spec.stages(); }
  };

  Blocks(const cost::Cluster &cluster, const LayerPlacement &placement)
      : cluster(&cluster), placement(&placement) {}
  StageParts price(const Segment &segment, const LoweringSpec &spec) const;
  const std::vector<StageParts> &pricesFor(const LoweringSpec &spec) const;
  /// Returns null if there are more stages than layers.
  const Layout *layoutOf(int64_t pp, int64_t vpp) const;
  std::vector<int64_t> wholeLayers(int64_t stages) const;
  std::vector<double> workOf(std::vector<double> seconds) const;
  double mostOfRanks(const std::vector<double> &work, int64_t pp) const;
  double leastSeconds(const Plan &plan) const;
  PipelineParts partsOf(const Plan &plan) const;
  void addMessages(const Plan &plan, PipelineParts &result) const;
  StepTime timeOfOne(const Plan &plan) const;
  void addMemory(const Plan &plan, int64_t rank,
                 cost::Evaluation &result) const;

  const cost::Cluster *cluster;
  const LayerPlacement *placement;
  LoweringSpec measured;
  /// The number of layers between the first and the last segment.
  int64_t layers = 0;
  struct Weights {
    double first = 0, layer = 1, last = 0;
  };
  Weights weights;
  /// For each position at which stages may be cut, the seconds before it.
  std::vector<double> cuts;
  std::vector<Segment> segments;
  /// Messages between the segment with one layer and the segment with two.
  std::vector<StageMessage> messages;
  /// Messages between the first and the last segment that run once per step,
  /// for parameters that both segments store.
  std::vector<StageMessage> endMessages;
  std::optional<StageLine> before, layer, after;
  /// Guards `prices` and `layouts`.
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  /// Keyed by dp, pp and the number of micro-batches.
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>,
                   std::vector<StageParts>>
      prices;
  /// Indexed by pp, vpp.
  mutable std::map<std::pair<int64_t, int64_t>, Layout> layouts;
};

} // namespace dpc
