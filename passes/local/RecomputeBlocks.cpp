//===- RecomputeBlocks.cpp - Blocks of full recomputation -----------------===//
//
// Full recomputation cuts the forward ops, in order, into blocks. It keeps the
// values that cross a cut. If w micro-batches are alive at once (from their
// forward phase to the last reader of kept values), the cuts minimize
//
//   w * (bytes that cross cuts)
//     + max over blocks (bytes inside that the backward phase reads)
//
// Dynamic programming over the positions where few bytes are live solves this
// exactly for several limits on the second term. Without a pipeline, the
// backward phase of the last block follows at once, so its values are kept.
//
// With `layers`, each layer is a block, as in other frameworks.
//
//===----------------------------------------------------------------------===//
#include "passes/local/Passes.h"
#include "passes/local/Recompute.h"
#include "passes/local/ScheduleTable.h"

using namespace mlir;
using namespace dpc;

/// `length` ops from `begin` on equal the ops `period` positions later.
struct Repetition {
  size_t begin = 0, length = 0, period = 0;
};

static Repetition longestRepetition(ArrayRef<Operation *> ops) {
  SmallVector<size_t> kinds;
  kinds.reserve(ops.size());
  for (Operation *op : ops)
    kinds.push_back(
        llvm::hash_combine(op->getName().getAsOpaquePointer(),
                           llvm::hash_combine_range(op->getResultTypes()),
                           llvm::hash_combine_range(op->getOperandTypes())));
  Repetition best;
  for (size_t period = 1; period + best.length < kinds.size(); ++period) {
    size_t length = 0;
    for (size_t i = 0; i + period < kinds.size(); ++i) {
      length = kinds[i] == kinds[i + period] ? length + 1 : 0;
      if (length > best.length)
        best = {i + 1 - length, length, period};
    }
  }
  return best;
}

namespace {

class BlockCuts {
public:
  /// `alive` copies of each kept value are in memory at once.
  BlockCuts(const Run &run, double alive)
      : run(run), size(run.ops.size()), alive(alive) {}

  /// Returns the cuts in order, without the begin and the end of the run.
  SmallVector<size_t> find() {
    findPositions();
    if (positions.size() < 2)
      return {};
    constexpr int kLimits = 32;
    SmallVector<int64_t> limits = {0};
    for (const Made &made : run.values)
      limits.front() += made.bytes;
    while (limits.size() < kLimits)
      limits.push_back(limits.back() - limits.back() / 5);
    std::optional<Layout> found;
    double least = 0;
    for (std::optional<Layout> &layout : best(limits)) {
      if (!layout)
        break;
      double bytes = alive * layout->crossing + layout->largest;
      if (!found || bytes < least) {
        least = bytes;
        found = std::move(layout);
      }
    }
    return found ? found->cuts : SmallVector<size_t>();
  }

  /// Returns cuts before every layer and after the last layer. Layers end where
  /// the fewest bytes are live, on ties as late as possible. A run without
  /// repeated layers is one block.
  SmallVector<size_t> findLayers() const {
    Repetition layers = longestRepetition(run.ops);
    if (layers.period == 0 || layers.length < layers.period)
      return {};
    std::vector<int64_t> live = liveBytes();
    size_t end = layers.begin + layers.length + layers.period;
    size_t last = end;
    for (size_t i = end; i + layers.period > end; --i)
      if (live[i - layers.period] < live[last - layers.period])
        last = i;
    SmallVector<size_t> cuts;
    for (size_t i = last % layers.period; i <= last; i += layers.period)
      if (i > 0)
        cuts.push_back(i);
    return cuts;
  }

private:
  struct Layout {
    SmallVector<size_t> cuts;
    int64_t crossing = 0, largest = 0;
  };
  /// Returns the live bytes before each op of the run and after the last op.
  std::vector<int64_t> liveBytes() const {
    std::vector<int64_t> live(size + 2);
    for (const Made &made : run.values) {
      live[made.at + 1] += made.bytes;
      live[made.last + 1] -= made.bytes;
    }
    for (size_t i = 1; i <= size; ++i)
      live[i] += live[i - 1];
    return live;
  }

  /// Finds the local minima of live bytes. If adjacent minima are equal, takes
  /// the last, which is after a collective, to avoid repeating the collective.
  void findPositions() {
    std::vector<int64_t> live = liveBytes();
    positions = {0};
    bool falling = false;
    for (size_t i = 2; i < size; ++i) {
      falling = live[i] < live[i - 1] || (falling && live[i] == live[i - 1]);
      if (falling && live[i + 1] > live[i])
        positions.push_back(i);
    }
    if (size > 0)
      positions.push_back(size);
  }

  /// Returns, for each of the descending `limits`, the layout with the fewest
  /// crossing bytes in which no block exceeds the limit.
  std::vector<std::optional<Layout>> best(ArrayRef<int64_t> limits) const {
    struct State {
      int64_t crossing = -1, largest = 0;
      size_t before = 0;
    };
    std::vector<std::vector<State>> states(
        limits.size(), std::vector<State>(positions.size()));
    for (std::vector<State> &list : states)
      list[0].crossing = 0;
    size_t numValues = run.values.size();
    for (size_t j = 1, next = 0; j < positions.size(); ++j) {
      size_t end = positions[j];
      int64_t inside = 0, crossing = 0;
      while (next < numValues && run.values[next].at < end)
        ++next;
      size_t v = next; // values are sorted by `at`
      for (size_t i = j; i-- > 0 && inside <= limits.front();) {
        for (; v > 0 && run.values[v - 1].at >= positions[i]; --v) {
          const Made &made = run.values[v - 1];
          if (made.last >= end)
            crossing += made.bytes;
          else if (made.crosses)
            inside += made.bytes;
        }
        for (size_t k = 0; k < limits.size() && inside <= limits[k]; ++k) {
          const State &from = states[k][i];
          State &to = states[k][j];
          int64_t total = from.crossing + crossing;
          if (from.crossing >= 0 && (to.crossing < 0 || to.crossing > total))
            to = {total, std::max(inside, from.largest), i};
        }
      }
    }
    std::vector<std::optional<Layout>> layouts(limits.size());
    for (auto [layout, list] : llvm::zip(layouts, states)) {
      if (list.back().crossing < 0)
        continue;
      layout = Layout{{}, list.back().crossing, list.back().largest};
      for (size_t j = list.back().before; j > 0; j = list[j].before)
        layout->cuts.push_back(positions[j]);
      std::reverse(layout->cuts.begin(), layout->cuts.end());
    }
    return layouts;
  }

  const Run &run;
  size_t size;
  double alive;
  /// Possible cuts, including the begin and end of the run.
  SmallVector<size_t> positions;
};

} // namespace

/// Returns the micro-batches alive at once in the run's chunk, at least 1.
static int64_t aliveIn(const Run &run,
                       const std::vector<cost::ScheduleStep> &table) {
  return std::max<int64_t>(1, cost::mostAlive(table, chunkOf(run.ops.front())));
}

/// Marks the matmuls and collectives before position `end`, so that they run
/// again even if the backward phase does not read their results. Cloning
/// removes the mark.
static void markRepeated(const Run &run, size_t end) {
  for (Operation *op : ArrayRef(run.ops).take_front(end))
    if (isa<MatmulOp, ExpertMatmulOp, ExpertTilesOp, AttentionOp,
            CollectiveOpInterface>(op))
      op->setAttr(attr::kAgain, UnitAttr::get(op->getContext()));
}

/// Keeps the values that cross a cut, and the values from position `last` on
/// that the backward phase reads.
static void keepAtCuts(const Run &run, ArrayRef<size_t> cuts,
                       std::optional<size_t> last, DenseSet<Value> &kept) {
  for (const Made &made : run.values) {
    const size_t *next = llvm::upper_bound(cuts, made.at);
    bool atCut = next != cuts.end() && *next <= made.last;
    if (atCut || (last && made.at >= *last && made.crosses))
      kept.insert(made.value);
  }
}

DenseSet<Value> dpc::keepForFull(const ForwardPhase &forward, func::FuncOp func,
                                 double depth, int64_t alive) {
  DenseSet<Value> kept;
  std::vector<cost::ScheduleStep> table = tableOf(func);
  for (const Run &run : forward.runs) {
    double times = depth * (alive > 0 ? alive : aliveIn(run, table));
    SmallVector<size_t> cuts = BlockCuts(run, times).find();
    std::optional<size_t> last;
    if (!func->hasAttr(attr::kStage) && &run == &forward.runs.back())
      last = cuts.empty() ? 0 : cuts.back();
    keepAtCuts(run, cuts, last, kept);
  }
  return kept;
}

/// Returns true if `run` belongs to a pass that computes totals, which has no
/// backward phase (PartitionTotals.cpp).
static bool isOfTotals(const Run &run, func::FuncOp func,
                       ArrayRef<cost::ScheduleStep> table) {
  int64_t chunk = chunkOf(run.ops.front());
  return totalsPassesOf(func) > 0 &&
         llvm::none_of(table, [&](const cost::ScheduleStep &step) {
           return step.phase != cost::SchedulePhase::Forward &&
                  step.chunk == chunk;
         });
}

DenseSet<Value> dpc::keepForLayers(const ForwardPhase &forward,
                                   func::FuncOp func, bool whole) {
  DenseSet<Value> kept;
  std::vector<cost::ScheduleStep> table = tableOf(func);
  for (const Run &run : forward.runs) {
    SmallVector<size_t> cuts = BlockCuts(run, 1).findLayers();
    std::optional<size_t> last;
    // If the run ends in a send, its layers continue on another stage, so no
    // head follows the last cut.
    if (!cuts.empty() && !isa<SendOp>(run.ops.back()))
      last = cuts.back();
    if (whole && !isOfTotals(run, func, table))
      markRepeated(run, last.value_or(run.ops.size()));
    keepAtCuts(run, cuts, last, kept);
  }
  return kept;
}
