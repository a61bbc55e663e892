//===- Blocks.h - Evaluations composed from measured segments ---*- C++ -*-===//
//
// The work of a rank in a layer depends on few keys of a strategy: the tensor,
// sequence and expert ranks, the samples of a micro-batch, recompute, the ZeRO
// stage, and offload. It does not depend on the number of data-parallel ranks,
// the number of stages and chunks, or the schedule. So one small pipeline is
// lowered, and its four segments are measured:
//
//   the ops before the layers | one layer | two layers | the ops after them
//
// The evaluations of all strategies with these keys in common are composed from
// these segments. Stages have whole layers, whose costs are a linear function
// through the measurements of one and two layers. The collectives over
// data-parallel ranks are priced again, shards of states are scaled, and the
// schedule is simulated as for other evaluations.
//
// A composed evaluation is an estimate: stages are cut between layers only, and
// communication does not overlap with other segments. The winner is evaluated
// again (Fold.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_BLOCKS_H
#define DPC_PASSES_PRICE_BLOCKS_H

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

/// A key that is equal for strategies that share segments. `globalBatch` is the
/// number of samples.
std::string blockKeyOf(const LoweringSpec &spec, int64_t globalBatch);

/// The collectives that run once per step, and the seconds of other ops that
/// do.
struct OncePerStep {
  struct Traffic {
    cost::Collective kind;
    double bytes;
    std::vector<std::string> axes;
    /// The part of `bytes` that are gradients sent to another stage with a copy
    /// of the parameter. With a single stage, these bytes are reduced only
    /// once.
    double sentBytes = 0;
  };
  std::vector<Traffic> setup, update;
  double setupSeconds = 0, updateSeconds = 0; ///< Seconds of computation.
};

class Blocks {
public:
  /// Measures the segments of all strategies that have the key of `like`. Fails
  /// with a diagnostic.
  static mlir::FailureOr<Blocks>
  measure(ProgramFamily &family, SharedLowering &lowering, const HomeRun &homes,
          const LoweringSpec &like, int64_t globalBatch);

  /// Composes the evaluation of a strategy with the same key; thread-safe.
  /// Returns nothing if there are more stages than layers, or if the schedule
  /// does not exist. If a step certainly takes longer than `limit` seconds,
  /// only a bound of its time is computed.
  std::optional<cost::Composition> compose(const LoweringSpec &spec,
                                           double limit) const;

private:
  /// The segments, indexed by stage of the small pipeline.
  enum SegmentNumber { kBefore, kOne, kTwo, kAfter, kSegments };
  struct Segment {
    StageProfile profile;
    OncePerStep once;
    /// Parameters, gradients and states that data-parallel ranks shard.
    cost::MemoryBreakdown shards;
    /// Parameters that another segment holds as well, and their gradients.
    cost::MemoryBreakdown copies;
  };
  /// The virtual stages of a pipeline, without the segments before and after
  /// the layers. Each stage has a number of whole layers, which determines the
  /// memory, and an amount of work in layers, which may be fractional because
  /// cuts may be inside layers.
  struct Layout {
    std::vector<int64_t> layersOf;
    std::vector<double> work;
  };
  /// The inputs of one composition.
  struct Plan {
    const LoweringSpec &spec;
    const Layout &layout;
    const std::vector<StageParts> &parts; ///< By segment.
    ScheduleTables tables;

    int64_t stages() const { return spec.stages(); }
  };

  Blocks(const cost::Cluster &cluster, const HomeRun &homes)
      : cluster(&cluster), homes(&homes) {}
  StageParts price(const Segment &segment, const LoweringSpec &spec) const;
  const std::vector<StageParts> &pricesFor(const LoweringSpec &spec) const;
  /// Null if there are more stages than layers.
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
  const HomeRun *homes;
  LoweringSpec measured; ///< The strategy whose program was measured.
  int64_t layers = 0;    ///< Whole layers between the first and last segment.
  /// The seconds by which stages are balanced.
  struct Weights {
    double first = 0, layer = 1, last = 0;
  };
  Weights weights;
  std::vector<Segment> segments;
  /// Messages between the segments of one and of two layers.
  std::vector<StageMessage> messages;
  /// Messages that run once per step between the first and last segment, for
  /// parameters that both segments hold.
  std::vector<StageMessage> endMessages;
  std::optional<StageLine> before, layer, after;
  /// Guards `prices` and `layouts`.
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  /// Indexed by data-parallel ranks, stages and micro-batches.
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>,
                   std::vector<StageParts>>
      prices;
  /// Indexed by pp, vpp.
  mutable std::map<std::pair<int64_t, int64_t>, Layout> layouts;
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_BLOCKS_H
