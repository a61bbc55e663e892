//===- RecomputeBlocks.cpp - Blocks of full recomputation -----------------===//
//
// Full recomputation cuts the forward ops, in order, into blocks. It keeps the
// values that cross a cut. If w micro-batches are alive at once (from their
// forward phase to the last reader of kept values), the cuts minimize
//
//   w * (bytes that cross cuts)
//     + max over blocks (bytes inside that the backward phase reads)
//
// If the ops repeat as n equal layers, all blocks have the same number L of
// layers. With c crossing bytes and i inside bytes of a layer, and d more
// inside bytes for each further layer of a block, L minimizes
//
//   w * ceil(n / L) * c + i + (L - 1) * d
//
// or, if a layer is much larger than what crosses it, each layer has the same
// cuts inside. A program with few layers that represents a deep one has blocks
// as the deep program. Elsewhere, dynamic programming over the positions where
// few bytes are live solves the problem exactly for several limits on the
// second term. Without a pipeline, the backward phase of the last block follows
// at once, so its values are kept.
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
    size_t count = kinds.size() - period, end = 0;
    auto repeats = [&](size_t i) { return kinds[i] == kinds[i + period]; };
    // A longer repetition has an op among any best.length + 1 adjacent ones.
    while (end + best.length < count) {
      size_t begin = end + best.length;
      if (!repeats(begin)) {
        end = begin + 1;
        continue;
      }
      while (begin > end && repeats(begin - 1))
        --begin;
      for (end = begin; end < count && repeats(end);)
        ++end;
      if (end - begin > best.length)
        best = {begin, end - begin, period};
    }
  }
  return best;
}

namespace {

/// The repeated layers of a run. Layers end where the fewest bytes are live.
struct Layers {
  size_t end = 0; ///< The position after the last layer.
  size_t period = 0;
  size_t count = 0;
};

class BlockCuts {
public:
  explicit BlockCuts(const Run &run)
      : run(run), size(run.ops.size()), live(liveBytes()) {
    findPositions();
  }

  struct Blocks {
    SmallVector<size_t> cuts; ///< In order, without the ends of the run.
    int64_t layers = 0;       ///< In each block; 0 without equal layers.
  };
  /// `alive` copies of each kept value are in memory at once.
  Blocks find(const BlockOptions &options, double alive) const;
  /// Returns cuts before every layer and after the last layer. A run without
  /// repeated layers is one block.
  SmallVector<size_t> findLayers() const;

private:
  struct Layout {
    SmallVector<size_t> cuts;
    int64_t crossing = 0, largest = 0;
  };
  /// The positions where a part of the run may be cut, with its ends. Those
  /// after `fixedBegin` and before `fixedEnd` are cuts.
  struct Choice {
    SmallVector<size_t> positions;
    size_t fixedBegin = 0, fixedEnd = 0;
  };
  const Run &run;
  size_t size;
  std::vector<int64_t> live; ///< Before each op of the run, and after the last.
  /// Possible cuts, including the begin and end of the run.
  SmallVector<size_t> positions;

  std::vector<int64_t> liveBytes() const;
  void findPositions();
  Layers layersOfRun() const;
  size_t firstOfValues(size_t begin) const;
  Layout blockOf(size_t begin, size_t end) const;
  int64_t bestBlockLayers(const Layers &of, int64_t layers, double alive) const;
  SmallVector<size_t> positionsBetween(size_t begin, size_t end) const;
  Layout chooseCuts(const Choice &choice, double alive) const;
  std::vector<std::optional<Layout>> best(const Choice &choice,
                                          ArrayRef<int64_t> limits) const;
};

} // namespace

std::vector<int64_t> BlockCuts::liveBytes() const {
  std::vector<int64_t> bytes(size + 2);
  for (const Made &made : run.values) {
    bytes[made.at + 1] += made.bytes;
    bytes[made.last + 1] -= made.bytes;
  }
  for (size_t i = 1; i <= size; ++i)
    bytes[i] += bytes[i - 1];
  return bytes;
}

/// Finds the local minima of live bytes. If adjacent minima are equal, takes
/// the last, which is after a collective, to avoid repeating the collective.
void BlockCuts::findPositions() {
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

/// On ties, layers end as late as possible. Returns no layers if fewer than two
/// are equal.
Layers BlockCuts::layersOfRun() const {
  Repetition found = longestRepetition(run.ops);
  if (found.period == 0 || found.length < found.period)
    return {};
  size_t end = found.begin + found.length + found.period, last = end;
  for (size_t i = end; i + found.period > end; --i)
    if (live[i - found.period] < live[last - found.period])
      last = i;
  return {last, found.period, (last - found.begin) / found.period};
}

SmallVector<size_t> BlockCuts::findLayers() const {
  Layers layers = layersOfRun();
  SmallVector<size_t> cuts;
  if (layers.period > 0)
    for (size_t i = layers.end % layers.period; i <= layers.end;
         i += layers.period)
      if (i > 0)
        cuts.push_back(i);
  return cuts;
}

/// Values are sorted by `at`.
size_t BlockCuts::firstOfValues(size_t begin) const {
  return llvm::partition_point(
             run.values, [&](const Made &made) { return made.at < begin; }) -
         run.values.begin();
}

BlockCuts::Layout BlockCuts::blockOf(size_t begin, size_t end) const {
  Layout block;
  for (size_t v = firstOfValues(begin), e = firstOfValues(end); v < e; ++v)
    if (run.values[v].last >= end)
      block.crossing += run.values[v].bytes;
    else if (run.values[v].crosses)
      block.largest += run.values[v].bytes;
  return block;
}

SmallVector<size_t> BlockCuts::positionsBetween(size_t begin,
                                                size_t end) const {
  SmallVector<size_t> found = {begin};
  llvm::copy_if(positions, std::back_inserter(found),
                [&](size_t at) { return at > begin && at < end; });
  if (end > begin)
    found.push_back(end);
  return found;
}

/// Returns the cuts that need the least memory.
BlockCuts::Layout BlockCuts::chooseCuts(const Choice &choice,
                                        double alive) const {
  constexpr int kLimits = 32;
  SmallVector<int64_t> limits = {0};
  for (size_t v = firstOfValues(choice.positions.front()),
              e = firstOfValues(choice.positions.back());
       v < e; ++v)
    limits.front() += run.values[v].bytes;
  while (limits.size() < kLimits)
    limits.push_back(limits.back() - limits.back() / 5);
  std::optional<Layout> found;
  double least = 0;
  for (std::optional<Layout> &layout : best(choice, limits)) {
    if (!layout)
      break;
    double bytes = alive * layout->crossing + layout->largest;
    if (!found || bytes < least) {
      least = bytes;
      found = std::move(layout);
    }
  }
  assert(found && "the first limit allows everything");
  return std::move(*found);
}

/// Returns, for each of the descending `limits`, the layout with the fewest
/// crossing bytes in which no block exceeds the limit.
std::vector<std::optional<BlockCuts::Layout>>
BlockCuts::best(const Choice &choice, ArrayRef<int64_t> limits) const {
  ArrayRef<size_t> range = choice.positions;
  struct State {
    int64_t crossing = -1, largest = 0;
    size_t before = 0;
  };
  std::vector<std::vector<State>> states(limits.size(),
                                         std::vector<State>(range.size()));
  for (std::vector<State> &list : states)
    list[0].crossing = 0;
  for (size_t j = 1; j < range.size(); ++j) {
    size_t end = range[j];
    int64_t inside = 0, crossing = 0;
    size_t v = firstOfValues(end);
    for (size_t i = j; i-- > 0 && inside <= limits.front();) {
      for (; v > 0 && run.values[v - 1].at >= range[i]; --v) {
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
      if (range[i] > choice.fixedBegin && range[i] < choice.fixedEnd)
        break;
    }
  }
  std::vector<std::optional<Layout>> layouts(limits.size());
  for (auto [layout, list] : llvm::zip(layouts, states)) {
    if (list.back().crossing < 0)
      continue;
    layout = Layout{{}, list.back().crossing, list.back().largest};
    for (size_t j = list.back().before; j > 0; j = list[j].before)
      layout->cuts.push_back(range[j]);
    std::reverse(layout->cuts.begin(), layout->cuts.end());
  }
  return layouts;
}

/// Returns the layers of a block for which `layers` layers need the least
/// memory.
int64_t BlockCuts::bestBlockLayers(const Layers &of, int64_t layers,
                                   double alive) const {
  Layout one = blockOf(of.end - 2 * of.period, of.end - of.period);
  Layout two = blockOf(of.end - 2 * of.period, of.end);
  int64_t more = std::max<int64_t>(0, two.largest - one.largest), best = 1;
  double least = std::numeric_limits<double>::infinity();
  for (int64_t length = 1; length <= layers; ++length) {
    double bytes = alive * static_cast<double>(ceilDiv(layers, length)) *
                       static_cast<double>(one.crossing) +
                   static_cast<double>(one.largest + (length - 1) * more);
    if (bytes < least) {
      least = bytes;
      best = length;
    }
  }
  return best;
}

BlockCuts::Blocks BlockCuts::find(const BlockOptions &options,
                                  double alive) const {
  Layers layers = layersOfRun();
  if (layers.count < 2) {
    double all = alive * static_cast<double>(1 + options.omittedLayers);
    return {chooseCuts({positions}, all).cuts, 0};
  }
  int64_t all = layers.count + options.omittedLayers;
  size_t length = options.blockLayers > 0 ? options.blockLayers
                                          : bestBlockLayers(layers, all, alive);
  SmallVector<size_t> inside;
  // A layer before another one, because what crosses its end is kept.
  size_t end = layers.end - layers.period, begin = end - layers.period;
  if (length == 1)
    inside = chooseCuts({positionsBetween(begin, end)},
                        alive * static_cast<double>(all))
                 .cuts;
  // The rest of the layers precedes the blocks. What precedes and follows them
  // may be a part of the first and of the last block.
  size_t rest = layers.count % length;
  size_t first = layers.end - (layers.count - rest) * layers.period;
  Choice choice{positionsBetween(0, first), first, layers.end};
  for (size_t at = first; at < layers.end; at += length * layers.period) {
    for (size_t cut : inside)
      choice.positions.push_back(at + cut - begin);
    choice.positions.push_back(at + length * layers.period);
  }
  SmallVector<size_t> tail = positionsBetween(layers.end, size);
  llvm::append_range(choice.positions, llvm::drop_begin(tail));
  return {chooseCuts(choice, alive).cuts, static_cast<int64_t>(length)};
}

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

DenseSet<Value> dpc::keepForFull(const ForwardPhase &forward, func::FuncOp func,
                                 const BlockOptions &options) {
  DenseSet<Value> kept;
  std::vector<cost::ScheduleStep> table = tableOf(func);
  int64_t layers = 0;
  for (const Run &run : forward.runs) {
    auto alive = static_cast<double>(options.alive > 0 ? options.alive
                                                       : aliveIn(run, table));
    BlockCuts::Blocks blocks = BlockCuts(run).find(options, alive);
    if (!isOfTotals(run, func, table))
      layers = std::max(layers, blocks.layers);
    std::optional<size_t> last;
    if (!func->hasAttr(attr::kStage) && &run == &forward.runs.back())
      last = blocks.cuts.empty() ? 0 : blocks.cuts.back();
    keepAtCuts(run, blocks.cuts, last, kept);
  }
  if (layers > 0)
    func->setAttr(attr::kBlockLayers,
                  Builder(func.getContext()).getI64IntegerAttr(layers));
  return kept;
}

DenseSet<Value> dpc::keepForLayers(const ForwardPhase &forward,
                                   func::FuncOp func, bool whole) {
  DenseSet<Value> kept;
  std::vector<cost::ScheduleStep> table = tableOf(func);
  for (const Run &run : forward.runs) {
    SmallVector<size_t> cuts = BlockCuts(run).findLayers();
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
