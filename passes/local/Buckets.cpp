//===- Buckets.cpp - dpc-bucket-collectives -------------------------------===//
//
// Merges collectives into *buckets*. One walk in program order adds every
// all_reduce, reduce_scatter and all_gather to the newest open bucket with the
// same kind, axes, element type and phase. If the collective depends on this
// bucket, or if the bucket is full, a new bucket begins. A GEMM, convolution or
// attention that reads a result of a bucket closes the bucket, so that no layer
// waits for the sums of a later layer. Each bucket becomes one op after its
// last producer, so that communication starts as early as possible. Ops that
// read an earlier member move after the bucket:
//
//   g1 = all_reduce a ; u1 = adamw g1 ; g2 = all_reduce b ; u2 = adamw g2
//   -> g1, g2 = all_reduce a, b ; u1 = adamw g1 ; u2 = adamw g2
//
// All_gathers in the micro-batch loop stay in place, because their results are
// large. Only all_gathers of parameters are issued earlier (Prefetch.h).
//
// Each pipeline stage runs a different program, but all stages must communicate
// with each other in the same order to avoid a deadlock. Therefore, each op
// that communicates between stages depends on the previous one in its phase.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
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

/// True for ops of the class Dpc_BucketCollective.
bool takesBucket(Operation *op) {
  return isa<CollectiveOpInterface>(op) &&
         op->hasTrait<mlir::OpTrait::VariadicResults>();
}

/// Recomputed collectives are not merged, because a merged collective would
/// keep the values of several recomputed blocks in memory at once.
bool isBucketed(Operation *op) {
  return takesBucket(op) && !op->hasAttr(attr::kRecompute);
}

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

bool crossesStages(Operation *op) {
  if (isa<SendOp, RecvOp>(op))
    return true;
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && collective.isOver(kPipelineAxis);
}

/// Maps ops that communicate between stages to the previous one in the phase.
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

/// The buckets on which an op depends. A closed bucket is replaced by the open
/// buckets on which it depends, so there is at most one entry per BucketKey.
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
  /// No op may be added, because a contraction waits for the bucket or a newer
  /// bucket has the same key.
  bool closed = false;
};

/// The sort key of an op. The op moves next to the op with the old index
/// `position`: before it if `level` is negative, after it if `level` is
/// positive. An op that does not move has its old index and level 0. At equal
/// positions, the level of an op is higher than the levels of its producers.
struct Place {
  int64_t position = 0, level = 0, index = -1;
  auto operator<=>(const Place &) const = default;
};

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
    llvm::sort(places);
    for (const Place &place : places)
      ops[place.index]->moveBefore(block.getTerminator());
  }

private:
  /// Recomputed collectives stay in place to save memory.
  static bool isEager(Operation *op) {
    if (!isBucketed(op))
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
        result.level = 1; // after the first op of the phase
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
  llvm::DenseMap<Operation *, Operation *> before;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int64_t> index;
  llvm::DenseMap<std::pair<Attribute, Attribute>, int64_t> phaseStart;
  /// Indexed like `ops`. An `index` of -1: the place is not yet computed.
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
      if (isContraction(&op))
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
  /// Adds the entries of `from` to `to`, with closed buckets replaced by the
  /// buckets on which they depend.
  void addLive(Needs &to, const Needs &from, bool asDirect) {
    for (Needs::Entry entry : from.entries) {
      Bucket &bucket = buckets[entry.bucket];
      if (!bucket.closed) {
        to.add(entry.bucket, asDirect && entry.direct);
        continue;
      }
      // Path compression: later calls find the open buckets at once.
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

  /// True if a bucket in `from` is `bucket` or depends on it.
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

  uint32_t homeOf(Operation *op, const Needs &needs) {
    BucketKey key = keyOf(op);
    // Only the newest bucket of a key can be open.
    if (auto it = newest.find(key); it != newest.end()) {
      Bucket &bucket = buckets[it->second];
      if (!bucket.closed && bucket.bytes + bucketedBytes(op) <= limit &&
          !reaches(needs, it->second))
        return it->second;
    }
    uint32_t made = buckets.size();
    buckets.emplace_back();
    // Top-k compression keeps a residual per parameter, which prevents merging.
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
  llvm::DenseMap<Operation *, Operation *> before;
  std::vector<Bucket> buckets;
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
