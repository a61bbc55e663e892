//===- Buckets.cpp - dpc-bucket-collectives -------------------------------===//
//
// One walk in program order puts every all_reduce, reduce_scatter and
// all_gather into the newest open bucket of its kind, axes, element type and
// phase. If the collective needs a result of that bucket, directly or through
// other buckets, a new bucket begins. A contraction that needs a bucket closes
// the bucket, so that no layer waits for the sums of a later layer; light ops
// may wait. Then each bucket becomes one op after its last producer, so that
// communication starts as early as possible. Readers of earlier members move
// after the bucket:
//
//   g1 = all_reduce a ; u1 = adamw g1 ; g2 = all_reduce b ; u2 = adamw g2
//   -> g1, g2 = all_reduce a, b ; u1 = adamw g1 ; u2 = adamw g2
//
// Gathers inside the loop stay in place, because their results are large.
// Gathers of parameters are issued ahead, see Prefetch.h.
//
// Ranks of other stages run other programs. All stages must communicate with
// each other in the same order, or two stages would wait for each other. So
// each op that communicates between stages counts as a producer of the next
// such op in its phase.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Passes.h"
#include "passes/local/Prefetch.h"

#include <array>
#include <map>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCBUCKETCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

/// True for collectives that may be merged. Recomputed collectives are not
/// merged: they would wait for other blocks, whose values would then be in
/// memory at the same time.
bool isBucketed(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op) &&
         !op->hasAttr(attr::kRecompute);
}

/// Ops with equal keys may share a call.
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

/// True if ranks of several stages take part in `op`.
bool crossesStages(Operation *op) {
  if (isa<SendOp, RecvOp>(op))
    return true;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.isOver(kPipelineAxis);
}

/// For each op between stages, the previous such op of its phase.
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

/// The buckets that an op needs. Only *live* buckets, which may still grow, are
/// listed: the newest bucket of each key, unless it is closed. Other buckets
/// are replaced by the buckets that they need, so there are never more entries
/// than keys.
struct Needs {
  struct Entry {
    uint32_t bucket;
    bool direct; ///< The op reads results of the bucket directly.
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
  Needs needs;
  /// No op may be added: a contraction waits for the bucket, or a newer bucket
  /// of the same key exists.
  bool closed = false;
};

/// The place of an op: its own index, or after the op at `position` for which
/// it waits, `level` dependences later. A negative level is before that op.
struct Place {
  int64_t position = 0, level = 0, index = -1;
  auto operator<=>(const Place &) const = default;
};

/// Moves reductions after their last producer in their phase, readers of
/// buckets after the bucket, and ops that are issued ahead before their anchor.
/// Other ops keep their order.
class Reorder {
public:
  Reorder(Block &block, const Anchors &anchors)
      : block(block), anchors(anchors), before(crossingsBefore(block)) {
    for (Operation &op : block.without_terminator()) {
      index[&op] = ops.size();
      if (!isa<ConstantOp>(op)) // constants come first in every phase
        phaseStart.try_emplace(phaseKey(&op), ops.size());
      ops.push_back(&op);
    }
    places.resize(ops.size());
  }

  void run() {
    for (size_t i = 0; i < ops.size(); ++i)
      place(i);
    llvm::sort(places); // indices differ, so no two places are equal
    for (const Place &place : places)
      ops[place.index]->moveBefore(block.getTerminator());
  }

private:
  /// Recomputed collectives run where they are needed, not as early as
  /// possible.
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
        result.level = 1; // after the op with that index
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
  /// By index; the index of a place is -1 while the place is unknown.
  std::vector<Place> places;
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
  /// Adds the live buckets of `from` to `to`. Buckets that are not live are
  /// replaced by the buckets that they need.
  void addLive(Needs &to, const Needs &from, bool asDirect) {
    for (Needs::Entry entry : from.entries) {
      Bucket &bucket = buckets[entry.bucket];
      if (!bucket.closed) {
        to.add(entry.bucket, asDirect && entry.direct);
        continue;
      }
      // A closed bucket does not grow, so its needs are replaced once for all
      // readers.
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

  /// True if `bucket` is in `from`, or if a bucket in `from` needs it.
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

  /// The bucket for `op`, which may be new.
  uint32_t homeOf(Operation *op, const Needs &needs) {
    BucketKey key = keyOf(op);
    // Older buckets of this key are closed.
    if (auto it = newest.find(key); it != newest.end()) {
      Bucket &bucket = buckets[it->second];
      if (!bucket.closed && bucket.bytes + bucketedBytes(op) <= limit &&
          !reaches(needs, it->second))
        return it->second;
    }
    uint32_t made = buckets.size();
    buckets.emplace_back();
    // A sum that is compressed for one parameter is not merged with others.
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
  /// The newest bucket of each key.
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
