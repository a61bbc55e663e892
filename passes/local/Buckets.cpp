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
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Passes.h"
#include "passes/local/Prefetch.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCBUCKETCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

struct Bucket {
  SmallVector<Operation *> members;
  int64_t bytes = 0;
  /// A contraction waits for it: joining later would idle the device.
  bool closed = false;
};

/// Whether ops of this kind share calls.
bool isBucketed(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp>(op);
}

bool canJoin(Operation *a, Operation *b) {
  return a->getName() == b->getName() &&
         a->getAttr("kind") == b->getAttr("kind") &&
         a->getAttr("axes") == b->getAttr("axes") &&
         phaseKey(a) == phaseKey(b) &&
         a->hasAttr(kRecomputeAttr) == b->hasAttr(kRecomputeAttr) &&
         a->getAttr(kCompressAttr) == b->getAttr(kCompressAttr) &&
         !a->hasAttr(attr::kOf) &&
         getElementTypeOrSelf(a->getOperand(0)) ==
             getElementTypeOrSelf(b->getOperand(0));
}

class Bucketer {
public:
  Bucketer(Block &block, int64_t limit) : block(block), limit(limit) {}
  void run();

private:
  /// A set of buckets.
  using Ids = llvm::BitVector;
  Ids neededBy(Operation *op) const;
  bool reaches(const Ids &from, size_t bucket) const;
  size_t homeOf(Operation *op, const Ids &needs);

  Block &block;
  int64_t limit;
  std::vector<Bucket> buckets;
  /// Buckets whose results an op (a bucket's members) needs; direct ones and
  /// those known when it was visited.
  llvm::DenseMap<Operation *, Ids> opNeeds;
  std::vector<Ids> bucketNeeds;
};

Bucketer::Ids Bucketer::neededBy(Operation *op) const {
  Ids all;
  for (Value operand : op->getOperands()) {
    auto it = opNeeds.find(operand.getDefiningOp());
    if (it != opNeeds.end())
      all |= it->second;
  }
  return all;
}

/// Whether `bucket` is among `from` or what those need in turn.
bool Bucketer::reaches(const Ids &from, size_t bucket) const {
  Ids seen(buckets.size());
  SmallVector<unsigned> stack(from.set_bits());
  while (!stack.empty()) {
    unsigned id = stack.pop_back_val();
    if (id == bucket)
      return true;
    if (seen.test(id))
      continue;
    seen.set(id);
    llvm::append_range(stack, bucketNeeds[id].set_bits());
  }
  return false;
}

/// Where an op goes: at its own index, or behind the op at `position` that it
/// has to wait for, `level` dependences later; before it at a negative level.
struct Place {
  int64_t position = 0, level = 0, index = 0;
  auto operator<=>(const Place &) const = default;
};

/// Puts reductions behind their last producer, inside their phase, and what
/// reads merged ones behind them; what is issued ahead before its anchor. All
/// else keeps its order.
class Reorder {
public:
  Reorder(Block &block, const Anchors &anchors)
      : block(block), anchors(anchors) {
    for (Operation &op : block.without_terminator()) {
      index[&op] = ops.size();
      if (!isa<ConstantOp>(op)) // they stand in front, whatever their phase is
        phaseStart.try_emplace(phaseKey(&op), ops.size());
      ops.push_back(&op);
    }
  }

  void run() {
    for (Operation *op : ops)
      place(op);
    llvm::sort(
        ops, [&](Operation *a, Operation *b) { return places[a] < places[b]; });
    for (Operation *op : ops)
      op->moveBefore(block.getTerminator());
  }

private:
  /// What is made again is made where it is needed, not as early as possible.
  static bool isEager(Operation *op) {
    if (op->hasAttr(kRecomputeAttr))
      return false;
    auto phase = op->getAttrOfType<StringAttr>(attr::kPhase);
    return isa<AllReduceOp, ReduceScatterOp>(op) ||
           (isa<AllGatherOp>(op) && phase && phase.getValue() == "update");
  }

  Place place(Operation *op) {
    auto it = places.find(op);
    if (it != places.end())
      return it->second;
    Place result{index[op], 0, index[op]};
    if (auto anchor = anchors.find(op); anchor != anchors.end()) {
      result.position = index[anchor->second];
      result.level = std::numeric_limits<int64_t>::min() / 2;
    } else if (isEager(op)) {
      result.position = phaseStart[phaseKey(op)];
      if (result.position < result.index)
        result.level = 1; // behind the op whose index that is
    }
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer)
        continue;
      Place before = place(producer);
      if (before.position < result.position)
        continue;
      result.level = before.position > result.position
                         ? before.level + 1
                         : std::max(result.level, before.level + 1);
      result.position = before.position;
    }
    return places[op] = result;
  }

  Block &block;
  const Anchors &anchors;
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, int64_t> index;
  llvm::DenseMap<std::pair<Attribute, Attribute>, int64_t> phaseStart;
  llvm::DenseMap<Operation *, Place> places;
};

/// The bucket that `op` joins, a new one if need be.
size_t Bucketer::homeOf(Operation *op, const Ids &needs) {
  int64_t bytes = bucketedBytes(op);
  for (size_t i = buckets.size(); i-- > 0;) {
    if (!canJoin(buckets[i].members.front(), op))
      continue;
    // Only the newest: older ones were closed by size or dependence.
    if (!buckets[i].closed && buckets[i].bytes + bytes <= limit &&
        !reaches(needs, i))
      return i;
    break;
  }
  buckets.emplace_back();
  bucketNeeds.emplace_back();
  return buckets.size() - 1;
}

void Bucketer::run() {
  for (Operation &op : block) {
    Ids needs = neededBy(&op);
    if (isBucketed(&op) && !isGatheredAhead(&op)) {
      size_t home = homeOf(&op, needs);
      buckets[home].members.push_back(&op);
      buckets[home].bytes += bucketedBytes(&op);
      bucketNeeds[home] |= needs;
      needs = Ids(home + 1);
      needs.set(home);
    }
    if (isa<MatmulOp, ConvOp, ConvGradInputOp, ConvGradFilterOp, AttentionOp,
            AttentionGradOp>(&op))
      for (unsigned id : needs.set_bits())
        buckets[id].closed = true;
    if (needs.any())
      opNeeds[&op] = std::move(needs);
  }
  for (const Bucket &bucket : buckets)
    if (bucket.members.size() > 1)
      mergeCollectives(bucket.members);
}

struct BucketCollectivesPass
    : impl::DpcBucketCollectivesBase<BucketCollectivesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (bucketBytes <= 0) {
      getOperation().emitError("bucket-bytes is ")
          << bucketBytes.getValue() << ", expected a positive number";
      return signalPassFailure();
    }
    for (auto func : getOperation().getOps<func::FuncOp>()) {
      if (!func->hasAttr(attr::kMesh))
        continue;
      Block &block = func.getBody().front();
      Bucketer(block, bucketBytes).run();
      Reorder(block, gatherAhead(block, bucketBytes, depth)).run();
    }
  }
};

} // namespace
} // namespace dpc
