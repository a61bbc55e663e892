//===- Blocks.h - Strategies made of pieces measured once -------*- C++ -*-===//
//
// What a rank does in a layer depends on few keys of a strategy: tensor,
// sequence and expert ranks, samples of a micro-batch, recomputation, the kind
// of ZeRO, offloading. How many ranks share the batch, stages, chunks, and the
// order of a schedule do not change it. So four pieces of the model are
// measured in one small pipeline,
//
//   what comes before the layers | one layer | two layers | what comes after
//
// and every strategy with the same key is made of these: stages of whole layers
// (one and two give a line), sums and gathers over the data ranks priced anew,
// shards of states resized, the schedule simulated as ever.
//
// An estimate: cuts lie between layers only, and what overlaps over the border
// of two pieces is not seen. What is chosen is evaluated by itself (Fold.h).
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_BLOCKS_H
#define DPC_PASSES_PRICE_BLOCKS_H

#include "cost-model/search/Evaluation.h"
#include "passes/lower/SharedLowering.h"
#include "passes/price/LayerPlacement.h"
#include "passes/price/StageProfile.h"
#include "passes/shard/Degrees.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace dpc {

/// Equal for degrees of strategies that are made of the same pieces, as bytes.
/// `globalBatch` counts samples.
std::string blockKeyOf(const LoweringSpec &degrees, int64_t globalBatch);

/// Sums and gathers of what runs once a step, and the time of the rest.
struct OncePerStep {
  struct Traffic {
    cost::Collective kind;
    double bytes;
    std::vector<std::string> axes;
    /// Of `bytes`, those of gradients that go on to another stage, which holds
    /// the parameter, too: one stage alone has them there already.
    double sentBytes = 0;
  };
  std::vector<Traffic> setup, update;
  double setupSeconds = 0, updateSeconds = 0; ///< Of computations.
};

class Blocks {
public:
  /// Measures the pieces for degrees with the key of `like`. Fails with a
  /// diagnostic.
  static mlir::FailureOr<Blocks>
  measure(ProgramFamily &family, SharedLowering &lowering, const HomeRun &homes,
          const LoweringSpec &like, int64_t globalBatch);

  /// Degrees with the same key; several threads may ask. Nothing where there
  /// are more stages than layers, or the schedule does not exist. Where the
  /// step takes longer than `limit` seconds for sure, a bound of its seconds is
  /// all there is.
  std::optional<cost::Composition> compose(const LoweringSpec &degrees,
                                           double limit) const;

private:
  /// The pieces, by stage of the small pipeline.
  enum PieceNumber { kBefore, kOne, kTwo, kAfter, kPieces };
  struct Piece {
    StageProfile profile;
    OncePerStep once;
    /// Split over data ranks, of parameters, gradients and states.
    cost::MemoryBreakdown shards;
    /// Of parameters that another piece holds, too, and of their gradients.
    cost::MemoryBreakdown copies;
  };
  struct Plan;

  Blocks(const cost::Cluster &cluster, const HomeRun &homes)
      : cluster(&cluster), homes(&homes) {}
  /// A piece as it is with other data ranks.
  StageParts price(const Piece &piece, const LoweringSpec &degrees) const;
  const std::vector<StageParts> &pricesFor(const LoweringSpec &degrees) const;
  /// Of virtual stages, by pp and vpp; see Plan.
  struct Layout {
    std::vector<int64_t> layersOf;
    std::vector<double> work;
  };
  /// Null where there are more stages than layers.
  const Layout *layoutOf(int64_t pp, int64_t vpp) const;
  std::vector<int64_t> wholeLayers(int64_t stages) const;
  std::vector<double> workOf(std::vector<double> seconds) const;
  double mostOfRanks(const std::vector<double> &work, int64_t pp) const;
  double leastSeconds(const Plan &plan) const;
  PipelineParts partsOf(const Plan &plan) const;
  void addMessages(const Plan &plan, PipelineParts &result) const;
  Expected<StepTime> timeOf(const Plan &plan) const;
  StepTime timeOfOne(const Plan &plan) const;
  void addMemory(const Plan &plan, cost::Evaluation &result) const;
  cost::MemoryBreakdown memoryOf(const Plan &plan, int64_t rank) const;
  OffloadedBytes awayOf(const Plan &plan, int64_t rank) const;

  const cost::Cluster *cluster;
  const HomeRun *homes;
  LoweringSpec measured; ///< What the pieces were measured with.
  int64_t layers = 0;    ///< Whole ones between the two ends.
  /// What stages are balanced by.
  struct Weights {
    double first = 0, layer = 1, last = 0;
  };
  Weights weights;
  std::vector<Piece> pieces;
  std::vector<StageMessage> messages; ///< Between one and two layers.
  /// Once a step, between the two ends: of parameters that both hold.
  std::vector<StageMessage> endMessages;
  std::optional<StageLine> before, layer, after;
  /// Of what is kept below.
  std::unique_ptr<std::mutex> mutex = std::make_unique<std::mutex>();
  /// By data ranks, stages and micro-batches.
  mutable std::map<std::tuple<int64_t, int64_t, int64_t>,
                   std::vector<StageParts>>
      prices;
  mutable std::map<std::pair<int64_t, int64_t>, Layout> layouts;
};

} // namespace dpc

#endif // DPC_PASSES_PRICE_BLOCKS_H
