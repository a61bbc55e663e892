//===- Buckets.cpp - dpc-bucket-collectives -------------------------------===//
//
// One walk in program order puts every all-reduce into the newest open bucket
// of its kind, axes, element type and phase, unless it needs, directly or over
// other buckets, a result of that bucket: then members would wait for
// themselves, and a new bucket begins. A contraction that needs a bucket closes
// it, so that no layer waits for a later one's sums; light ops may wait. Then
// each bucket becomes one op behind its last producer, as early as
// communication can start, and what reads earlier members moves behind it:
//
//   g1 = all_reduce a ; u1 = adamw g1 ; g2 = all_reduce b ; u2 = adamw g2
//   -> g1, g2 = all_reduce a, b ; u1 = adamw g1 ; u2 = adamw g2
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCBUCKETCOLLECTIVES
#include "passes/local/Passes.h.inc"

namespace {

struct Bucket {
  SmallVector<AllReduceOp> members;
  int64_t bytes = 0;
  /// A contraction waits for it: joining later would idle the device.
  bool closed = false;
};

int64_t bytesOf(AllReduceOp op) {
  int64_t bytes = 0;
  for (Value input : op.getInputs())
    bytes += sizeInBytes(cast<RankedTensorType>(input.getType()));
  return bytes;
}

bool canJoin(AllReduceOp a, AllReduceOp b) {
  return a.getKind() == b.getKind() && a.getAxes() == b.getAxes() &&
         phaseKey(a) == phaseKey(b) &&
         a->hasAttr(kRecomputeAttr) == b->hasAttr(kRecomputeAttr) &&
         a->getAttr(kCompressAttr) == b->getAttr(kCompressAttr) &&
         !a->hasAttr(attr::kOf) &&
         getElementTypeOrSelf(a.getInputs()[0]) ==
             getElementTypeOrSelf(b.getInputs()[0]);
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
  void merge(const Bucket &bucket);

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

/// Replaces the members by one op at the place of the last.
void Bucketer::merge(const Bucket &bucket) {
  AllReduceOp last = bucket.members.back();
  OpBuilder builder(last);
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<Location> locations;
  for (AllReduceOp member : bucket.members) {
    llvm::append_range(inputs, member.getInputs());
    llvm::append_range(types, member.getResultTypes());
    locations.push_back(member.getLoc());
  }
  auto merged =
      AllReduceOp::create(builder, builder.getFusedLoc(locations), types,
                          last.getKind(), inputs, last.getAxes());
  merged->setDiscardableAttrs(last->getDiscardableAttrDictionary());
  size_t next = 0;
  for (AllReduceOp member : bucket.members) {
    for (Value result : member.getResults())
      result.replaceAllUsesWith(merged.getResult(next++));
    member.erase();
  }
}

/// Where an op goes: at its own index, or behind the op at `position` that it
/// has to wait for, `level` dependences later.
struct Place {
  size_t position = 0, level = 0, index = 0;
  auto operator<=>(const Place &) const = default;
};

/// Puts all-reduces behind their last producer, inside their phase, and what
/// reads merged ones behind them; all else keeps its order.
class Reorder {
public:
  explicit Reorder(Block &block) : block(block) {
    for (Operation &op : block.without_terminator()) {
      index[&op] = ops.size();
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
  Place place(Operation *op) {
    auto it = places.find(op);
    if (it != places.end())
      return it->second;
    Place result{index[op], 0, index[op]};
    // What is made again is made where it is needed, not as early as possible.
    if (isa<AllReduceOp>(op) && !op->hasAttr(kRecomputeAttr))
      result.position = phaseStart[phaseKey(op)];
    if (result.position < result.index)
      result.level = 1; // behind the op whose index that is
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
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> index;
  llvm::DenseMap<std::pair<Attribute, Attribute>, size_t> phaseStart;
  llvm::DenseMap<Operation *, Place> places;
};

void Bucketer::run() {
  for (Operation &op : block) {
    Ids needs = neededBy(&op);
    if (auto reduce = dyn_cast<AllReduceOp>(&op)) {
      int64_t bytes = bytesOf(reduce);
      size_t home = buckets.size();
      for (size_t i = buckets.size(); i-- > 0;) {
        if (!canJoin(buckets[i].members.front(), reduce))
          continue;
        // Only the newest: older ones were closed by size or dependence.
        if (!buckets[i].closed && buckets[i].bytes + bytes <= limit &&
            !reaches(needs, i))
          home = i;
        break;
      }
      if (home == buckets.size()) {
        buckets.emplace_back();
        bucketNeeds.emplace_back();
      }
      buckets[home].members.push_back(reduce);
      buckets[home].bytes += bytes;
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
      merge(bucket);
  Reorder(block).run();
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
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh))
        Bucketer(func.getBody().front(), bucketBytes).run();
  }
};

} // namespace
} // namespace dpc
