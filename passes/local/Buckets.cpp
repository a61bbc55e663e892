//===- Buckets.cpp - dpc-bucket-collectives -------------------------------===//
//
// One walk in program order puts every all-reduce, reduce-scatter and
// all-gather into the newest open bucket of its kind, axes, element type and
// phase, unless it needs, directly or over other buckets, a result of that
// bucket: then members would wait for themselves, and a new bucket begins. A
// contraction that needs a bucket closes it, so that no layer waits for a later
// one's sums; light ops may wait. Then each bucket becomes one op behind its
// last producer, as early as communication can start, and what reads earlier
// members moves behind it:
//
//   g1 = all_reduce a ; u1 = adamw g1 ; g2 = all_reduce b ; u2 = adamw g2
//   -> g1, g2 = all_reduce a, b ; u1 = adamw g1 ; u2 = adamw g2
//
// Gathers inside the loop stay where they are: what they make is large. Those
// of parameters are issued ahead, see Prefetch.h.
//
// Ranks of other stages run other programs. Each stage has the communication
// between stages in the order of the program that was split; so must it stay,
// or two stages wait for each other. Each therefore counts as a producer of the
// next one of its phase.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/EachStep.h"
#include "passes/local/Passes.h"
#include "passes/local/Prefetch.h"

#include <array>
#include <map>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCBUCKETCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

/// Whether ops of this kind share calls. Not what is made again: it would wait
/// for other blocks, which would then be in memory at once.
bool isBucketed(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op) &&
         !op->hasAttr(attr::kRecompute);
}

/// What ops have in common that share calls.
using BucketKey = std::array<const void *, 7>;

BucketKey keyOf(Operation *op) {
  auto [phase, chunk] = phaseKey(op);
  Type element = getElementTypeOrSelf(op->getOperand(0));
  return {op->getName().getAsOpaquePointer(),
          element.getAsOpaquePointer(),
          phase.getAsOpaquePointer(),
          chunk.getAsOpaquePointer(),
          op->getAttr("kind").getAsOpaquePointer(),
          op->getAttr("axes").getAsOpaquePointer(),
          op->getAttr(attr::kCompress).getAsOpaquePointer()};
}

/// Whether ranks of other stages take part.
bool crossesStages(Operation *op) {
  if (isa<SendOp, RecvOp>(op))
    return true;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.isOver(kPipelineAxis);
}

/// The op between stages that goes before each such op in its phase.
llvm::DenseMap<Operation *, Operation *> crossingsBefore(Block &block) {
  llvm::DenseMap<Operation *, Operation *> before;
  llvm::DenseMap<std::pair<Attribute, Attribute>, Operation *> last;
  for (Operation &op : block) {
    if (!crossesStages(&op))
      continue;
    Operation *&previous = last[phaseKey(&op)];
    if (previous)
      before[&op] = previous;
    previous = &op;
  }
  return before;
}

/// The buckets that something needs. Only *live* ones are named, which may
/// still grow: of each key the newest, unless it is closed. In the place of
/// another one stand those that it needs. So there are never more than keys.
struct Needs {
  struct Entry {
    uint32_t bucket;
    bool direct; ///< Its results themselves are read, not over other buckets.
  };
  SmallVector<Entry, 4> entries;

  void add(uint32_t bucket, bool direct) {
    for (Entry &entry : entries)
      if (entry.bucket == bucket) {
        entry.direct |= direct;
        return;
      }
    entries.push_back({bucket, direct});
  }
};

struct Bucket {
  SmallVector<Operation *> members;
  int64_t bytes = 0;
  /// What its members need.
  Needs needs;
  /// Nothing can join: a contraction waits for it, which would idle the device,
  /// or there is a newer one.
  bool closed = false;
};

/// Where an op goes: at its own index, or behind the op at `position` that it
/// has to wait for, `level` dependences later; before it at a negative level.
struct Place {
  int64_t position = 0, level = 0, index = -1;
  auto operator<=>(const Place &) const = default;
};

/// Puts reductions behind their last producer, inside their phase, and what
/// reads merged ones behind them; what is issued ahead before its anchor. All
/// else keeps its order.
class Reorder {
public:
  Reorder(Block &block, const Anchors &anchors)
      : block(block), anchors(anchors), before(crossingsBefore(block)) {
    for (Operation &op : block.without_terminator()) {
      index[&op] = ops.size();
      if (!isa<ConstantOp>(op)) // they stand in front, whatever their phase is
        phaseStart.try_emplace(phaseKey(&op), ops.size());
      ops.push_back(&op);
    }
    places.resize(ops.size());
  }

  void run() {
    for (size_t i = 0; i < ops.size(); ++i)
      place(i);
    llvm::sort(places); // no two are equal: each has its index
    for (const Place &place : places)
      ops[place.index]->moveBefore(block.getTerminator());
  }

private:
  /// What is made again is made where it is needed, not as early as possible.
  static bool isEager(Operation *op) {
    if (!isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op) ||
        op->hasAttr(attr::kRecompute))
      return false;
    return !isa<AllGatherOp>(op) || phaseOf(op) == Phase::update;
  }

  void putBehind(Place &result, Operation *producer) {
    Place first = place(index.find(producer)->second);
    if (first.position < result.position)
      return;
    result.level = first.position > result.position
                       ? first.level + 1
                       : std::max(result.level, first.level + 1);
    result.position = first.position;
  }

  /// Of ops[at].
  const Place &place(int64_t at) {
    if (places[at].index >= 0)
      return places[at];
    Operation *op = ops[at];
    Place result{at, 0, at};
    if (auto anchor = anchors.find(op); anchor != anchors.end()) {
      result.position = index[anchor->second];
      result.level = std::numeric_limits<int64_t>::min() / 2;
    } else if (isEager(op)) {
      result.position = phaseStart[phaseKey(op)];
      if (result.position < result.index)
        result.level = 1; // behind the op whose index that is
    }
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        putBehind(result, producer);
    if (Operation *previous = before.lookup(op))
      putBehind(result, previous);
    return places[at] = result;
  }

  Block &block;
  const Anchors &anchors;
  llvm::DenseMap<Operation *, Operation *> before; ///< See crossingsBefore.
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int64_t> index;
  llvm::DenseMap<std::pair<Attribute, Attribute>, int64_t> phaseStart;
  std::vector<Place> places; ///< By index; that of one not placed yet is -1.
};

class Bucketer {
public:
  Bucketer(Block &block, int64_t limit)
      : block(block), limit(limit), before(crossingsBefore(block)) {}
  void run() {
    for (Operation &op : block) {
      Needs needs = neededBy(&op);
      if (isBucketed(&op) && !isGatheredAhead(&op)) {
        uint32_t home = homeOf(&op, needs);
        buckets[home].members.push_back(&op);
        buckets[home].bytes += bucketedBytes(&op);
        addLive(buckets[home].needs, needs, true);
        needs = Needs();
        needs.add(home, true);
      }
      if (isa<MatmulOp, ConvOp, ConvGradInputOp, ConvGradFilterOp, AttentionOp,
              AttentionGradOp>(&op))
        for (Needs::Entry entry : needs.entries)
          if (entry.direct)
            buckets[entry.bucket].closed = true;
      if (!needs.entries.empty())
        opNeeds[&op] = std::move(needs);
    }
    for (const Bucket &bucket : buckets)
      if (bucket.members.size() > 1)
        mergeCollectives(bucket.members);
  }

private:
  /// Adds what is live of `from` to `to`; of others, what they need.
  void addLive(Needs &to, const Needs &from, bool asDirect) {
    for (Needs::Entry entry : from.entries) {
      Bucket &bucket = buckets[entry.bucket];
      if (!bucket.closed) {
        to.add(entry.bucket, asDirect && entry.direct);
        continue;
      }
      // It does not grow any more: what it needs is looked up once for all.
      Needs behind;
      addLive(behind, bucket.needs, false);
      bucket.needs = behind;
      for (Needs::Entry other : behind.entries)
        to.add(other.bucket, false);
    }
  }

  Needs neededBy(Operation *op) {
    Needs all;
    auto add = [&](Operation *producer, bool asDirect) {
      auto it = opNeeds.find(producer);
      if (it != opNeeds.end())
        addLive(all, it->second, asDirect);
    };
    for (Value operand : op->getOperands())
      add(operand.getDefiningOp(), true);
    add(before.lookup(op), false);
    return all;
  }

  /// Whether `bucket` is among `from` or what those need in turn.
  bool reaches(const Needs &from, uint32_t bucket) {
    SmallVector<uint32_t> stack;
    llvm::SmallDenseSet<uint32_t> seen;
    auto push = [&](const Needs &needs) {
      for (Needs::Entry entry : needs.entries)
        if (seen.insert(entry.bucket).second)
          stack.push_back(entry.bucket);
    };
    push(from);
    while (!stack.empty()) {
      uint32_t id = stack.pop_back_val();
      if (id == bucket)
        return true;
      push(buckets[id].needs);
    }
    return false;
  }

  /// The bucket that `op` joins, a new one if need be.
  uint32_t homeOf(Operation *op, const Needs &needs) {
    BucketKey key = keyOf(op);
    // Only the newest: older ones were closed by size or dependence.
    if (auto it = newest.find(key); it != newest.end()) {
      Bucket &bucket = buckets[it->second];
      if (!bucket.closed && bucket.bytes + bucketedBytes(op) <= limit &&
          !reaches(needs, it->second))
        return it->second;
    }
    uint32_t made = buckets.size();
    buckets.emplace_back();
    // Sums that are compressed by parameter have calls of their own.
    if (op->hasAttr(attr::kOf)) {
      buckets.back().closed = true;
      return made;
    }
    auto [it, isFirst] = newest.try_emplace(key, made);
    if (!isFirst) {
      buckets[it->second].closed = true;
      it->second = made;
    }
    return made;
  }

  Block &block;
  int64_t limit;
  llvm::DenseMap<Operation *, Operation *> before; ///< See crossingsBefore.
  std::vector<Bucket> buckets;
  /// The newest of each key.
  std::map<BucketKey, uint32_t> newest;
  llvm::DenseMap<Operation *, Needs> opNeeds;
};

struct BucketCollectivesPass
    : impl::DpcBucketCollectivesBase<BucketCollectivesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (bucketBytes <= 0) {
      getOperation().emitError("bucket-bytes is ")
          << bucketBytes.getValue() << ", expected a positive number";
      return signalPassFailure();
    }
    onEachStep(getOperation(), [&](func::FuncOp step) {
      Block &block = step.getBody().front();
      Bucketer(block, bucketBytes).run();
      Reorder(block, gatherAhead(block, bucketBytes, depth)).run();
    });
  }
};

} // namespace
} // namespace dpc
