#include "passes/local/Prefetch.h"
#include "ir/TensorUtils.h"

#include "passes/local/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <cmath>

using namespace mlir;

namespace dpc {

int64_t bucketedBytes(Operation *op) {
  return sizeInBytes(cast<CollectiveOpInterface>(op).getPayload());
}

Operation *mergeCollectives(ArrayRef<Operation *> members) {
  Operation *last = members.back();
  if (members.size() == 1)
    return last;
  SmallVector<Location> locations;
  OperationState state(last->getLoc(), last->getName());
  for (Operation *member : members) {
    state.addOperands(member->getOperands());
    state.addTypes(member->getResultTypes());
    locations.push_back(member->getLoc());
  }
  state.addAttributes(last->getAttrs());
  OpBuilder builder(last);
  state.location = builder.getFusedLoc(locations);
  Operation *merged = builder.create(state);
  size_t next = 0;
  for (Operation *member : members) {
    for (Value result : member->getResults())
      result.replaceAllUsesWith(merged->getResult(next++));
    member->erase();
  }
  return merged;
}

/// True for data movement that may move together with a gather of its result.
static bool onlyMoves(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp, PadOp, ConvertOp>(op);
}

/// Returns the ops in the phase of `user` that compute `value` from values that
/// exist when the phase begins; nullopt if one of them does not only move data.
static std::optional<SmallVector<Operation *>> feedersOf(Value value,
                                                         Operation *user) {
  SmallVector<Operation *> feeders;
  while (Operation *op = value.getDefiningOp()) {
    if (phaseOf(op) == Phase::setup)
      break;
    if (phaseKey(op) != phaseKey(user) || !onlyMoves(op))
      return std::nullopt;
    feeders.push_back(op);
    value = op->getOperand(0);
  }
  return feeders;
}

bool isGatheredAhead(Operation *op) {
  return isa<AllGatherOp>(op) && isInLoop(phaseOf(op)) &&
         llvm::all_of(op->getOperands(), [&](Value value) {
           return feedersOf(value, op).has_value();
         });
}

namespace {

/// The gathers of one phase and chunk over the same axes.
class GatherPhase {
public:
  void add(Operation *gather) { gathers.push_back(gather); }
  void merge(int64_t bucketBytes, double depth) {
    int64_t total = llvm::sum_of(llvm::map_range(gathers, bucketedBytes));
    constexpr int64_t kParts = 16;
    total = std::llround(total * depth);
    limit = std::min(bucketBytes, ceilDiv(total, kParts));
    SmallVector<Operation *> members;
    int64_t bytes = 0, largest = 0;
    auto close = [&] {
      if (!members.empty())
        buckets.push_back(mergeCollectives(members));
      members.clear();
      bytes = largest = 0;
    };
    for (Operation *gather : gathers) {
      int64_t more = bucketedBytes(gather);
      int64_t sum = bytes + more, most = std::max(largest, more);
      constexpr int64_t kSmall = 8; // small: at most 1/8 of the largest
      if (sum > limit && kSmall * (sum - most) > most)
        close();
      members.push_back(gather);
      bytes += more;
      largest = std::max(largest, more);
    }
    close();
  }

  /// Call after `merge` of all GatherPhases. `first` is the phase's first op.
  void place(Operation *first, Anchors &anchors) const {
    // starts[0] is the first op; starts[i] is the first reader of bucket i - 1.
    SmallVector<Operation *> starts{first};
    for (Operation *bucket : buckets) {
      Operation *reader = nullptr;
      for (Operation *user : bucket->getUsers())
        if (!reader || user->isBeforeInBlock(reader))
          reader = user;
      bool isHere = reader && phaseKey(reader) == phaseKey(bucket);
      starts.push_back(isHere ? reader : starts.back());
    }
    size_t begin = 0; // the first bucket in flight
    int64_t bytes = 0;
    for (size_t i = 0; i < buckets.size(); ++i) {
      bytes += bucketedBytes(buckets[i]);
      for (; begin < i && bytes > 2 * limit; ++begin)
        bytes -= bucketedBytes(buckets[begin]);
      anchor(i, starts[begin], anchors);
    }
  }

private:
  /// An op that already has an anchor keeps it.
  void anchor(size_t bucket, Operation *before, Anchors &anchors) const {
    Operation *op = buckets[bucket];
    anchors.try_emplace(op, before);
    for (Value value : op->getOperands()) {
      auto feeders = feedersOf(value, op);
      for (Operation *feeder : *feeders)
        anchors.try_emplace(feeder, before);
    }
  }

  SmallVector<Operation *> gathers;
  SmallVector<Operation *> buckets;
  int64_t limit = 0;
};

} // namespace

Anchors gatherAhead(Block &block, int64_t bucketBytes, double depth) {
  using Key = std::tuple<Attribute, Attribute, Attribute, Attribute>;
  llvm::MapVector<Key, GatherPhase> phases;
  for (Operation &op : block.without_terminator()) {
    auto [phase, chunk] = phaseKey(&op);
    if (isGatheredAhead(&op))
      phases[{phase, chunk, op.getAttr("axes"), op.getAttr(attr::kCompress)}]
          .add(&op);
  }
  for (auto &[key, phase] : phases)
    phase.merge(bucketBytes, depth);
  llvm::DenseMap<std::pair<Attribute, Attribute>, Operation *> firstOf;
  for (Operation &op : block.without_terminator())
    if (!isa<ConstantOp>(op)) // constants come first in every phase
      firstOf.try_emplace(phaseKey(&op), &op);
  Anchors anchors;
  for (auto &[key, phase] : phases)
    phase.place(firstOf[{std::get<0>(key), std::get<1>(key)}], anchors);
  return anchors;
}

} // namespace dpc
