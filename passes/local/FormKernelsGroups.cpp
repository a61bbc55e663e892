//===- FormKernelsGroups.cpp - Greedy fusion ------------------------------===//
//
// Ops are visited in program order; each tries to join the kernels of what it
// reads. Merging producer P and consumer C is allowed when
//   * they run in one phase and iterate over one shape (see `compatible`);
//   * no path leads from P over another unit to C (the kernel would wait for
//     itself);
//   * nothing else that reads P has to wait longer than before: either nobody
//     else reads P, or all that C needs exists before P's last op.
//
//===----------------------------------------------------------------------===//
#include "passes/local/FormKernels.h"
#include "passes/local/Partition.h"

using namespace mlir;

namespace dpc {

/// Larger constants are tensors of the plan.
static constexpr int64_t kMaxEmbeddedElements = 4096;
/// Beyond this, compile time grows faster than memory traffic shrinks.
static constexpr size_t kMaxOps = 48;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

KernelRole kernelRole(Operation *op) {
  if (isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp>(op))
    return KernelRole::mover;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return constant.getValue().isSplat() ||
                   constant.getValue().getNumElements() <= kMaxEmbeddedElements
               ? KernelRole::source
               : KernelRole::none;
  if (isa<IotaOp>(op))
    return KernelRole::source;
  if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp, MaskOp,
          EmbeddingOp, CrossEntropyGradOp, AttentionScoresGradOp, PadOp,
          ConcatOp>(op))
    return KernelRole::elementwise;
  if (isa<NormOp, NormGradOp, SoftmaxOp, SoftmaxGradOp>(op))
    return KernelRole::row;
  if (isa<ReduceOp>(op))
    return KernelRole::reduction;
  if (isa<RopeOp, AdamWOp, SgdOp, RankSliceOp, AttentionProbsOp,
          CrossEntropySumsOp, EmbeddingGradOp, SumSquaresOp, MaxPoolOp,
          MaxPoolGradOp, TopKOp, CumSumOp>(op))
    return KernelRole::alone;
  return KernelRole::none;
}

static bool isCompute(Operation *op) {
  switch (kernelRole(op)) {
  case KernelRole::elementwise:
  case KernelRole::row:
  case KernelRole::reduction:
  case KernelRole::alone:
    return true;
  default:
    return false;
  }
}

/// The shape that a kernel of `op` iterates over.
static ArrayRef<int64_t> spaceOf(Operation *op) {
  return isa<NormOp, NormGradOp, SoftmaxOp, SoftmaxGradOp, ReduceOp>(op)
             ? shapeOf(op->getOperand(0))
             : shapeOf(op->getResult(0));
}

/// Recomputing the op once per pass over a row costs less than storing it.
static bool isCheap(Operation *op) {
  if (auto unary = dyn_cast<UnaryOp>(op))
    return llvm::is_contained({UnaryKind::neg, UnaryKind::abs, UnaryKind::relu,
                               UnaryKind::logical_not},
                              unary.getKind());
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() != BinaryKind::pow &&
           binary.getKind() != BinaryKind::div &&
           binary.getKind() != BinaryKind::rem;
  return isa<SelectOp, CompareOp, ConvertOp, MaskOp>(op);
}

/// Reads element i of this operand for element i of its results.
static bool isAligned(OpOperand &operand) {
  Operation *op = operand.getOwner();
  if (isa<EmbeddingOp, CrossEntropyGradOp, PadOp, ConcatOp>(op))
    return isa<CrossEntropyGradOp>(op) && operand.getOperandNumber() == 0;
  return true;
}

KernelGroups::KernelGroups(Block &block) : block(block) {
  for (auto [i, op] : llvm::enumerate(block)) {
    position[&op] = i;
    if (!isCompute(&op))
      continue;
    owner[&op] = all.size();
    ArrayRef<int64_t> shape = spaceOf(&op);
    all.push_back({{&op},
                   kernelRole(&op),
                   SmallVector<int64_t>(shape),
                   static_cast<int64_t>(i)});
  }
}

int64_t KernelGroups::groupOf(Operation *op) const {
  auto it = owner.find(op);
  return it == owner.end() ? -1 : it->second;
}

void KernelGroups::producersOf(Operation *op,
                               SmallVectorImpl<Operation *> &out) const {
  for (Value operand : op->getOperands()) {
    Operation *producer = operand.getDefiningOp();
    while (producer && kernelRole(producer) == KernelRole::mover)
      producer = producer->getOperand(0).getDefiningOp();
    if (producer)
      out.push_back(producer);
  }
}

void KernelGroups::consumersOf(Operation *op,
                               SmallVectorImpl<Operation *> &out) const {
  for (Operation *user : op->getUsers()) {
    if (kernelRole(user) == KernelRole::mover)
      consumersOf(user, out);
    else
      out.push_back(user);
  }
}

/// Whether something outside both groups reads a value of the producer.
bool KernelGroups::escapes(int64_t producer, int64_t consumer) const {
  for (Operation *op : all[producer].ops) {
    SmallVector<Operation *> users;
    consumersOf(op, users);
    for (Operation *user : users)
      if (int64_t g = groupOf(user); g != producer && g != consumer)
        return true;
  }
  return false;
}

/// Whether the consumer also reads a value of the producer at other places
/// than the element it computes: that needs the value in memory first.
bool KernelGroups::readsMoved(int64_t producer, int64_t consumer) const {
  for (Operation *op : all[producer].ops)
    for (Operation *user : op->getUsers()) {
      if (kernelRole(user) != KernelRole::mover)
        continue;
      SmallVector<std::pair<Operation *, bool>> worklist{{user, false}};
      while (!worklist.empty()) {
        auto [mover, moved] = worklist.pop_back_val();
        moved |= !isa<ReshapeOp>(mover);
        for (Operation *reader : mover->getUsers()) {
          if (kernelRole(reader) == KernelRole::mover)
            worklist.push_back({reader, moved});
          else if (moved && groupOf(reader) == consumer)
            return true;
        }
      }
    }
  return false;
}

/// Forward search from the producer's other readers. Positions bound it: a
/// path to the consumer never passes an op behind its last one.
bool KernelGroups::createsCycle(int64_t producer, int64_t consumer) const {
  int64_t limit = all[consumer].last;
  llvm::SmallDenseSet<int64_t> seenGroups;
  llvm::SmallPtrSet<Operation *, 32> seen;
  SmallVector<Operation *> worklist;
  auto push = [&](Operation *op, bool fromProducer) {
    SmallVector<Operation *> users;
    consumersOf(op, users);
    for (Operation *user : users) {
      int64_t g = groupOf(user);
      if (g == producer || (fromProducer && g == consumer))
        continue;
      if (g < 0 && position.lookup(user) > limit)
        continue;
      if (seen.insert(user).second)
        worklist.push_back(user);
    }
  };
  for (Operation *op : all[producer].ops)
    push(op, /*fromProducer=*/true);
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    int64_t g = groupOf(op);
    if (g == consumer)
      return true;
    if (g < 0) {
      push(op, false);
    } else if (seenGroups.insert(g).second) {
      for (Operation *member : all[g].ops)
        push(member, false);
    }
  }
  return false;
}

/// Whether other readers of the producer would wait for what only the consumer
/// needs.
bool KernelGroups::delays(int64_t producer, int64_t consumer) const {
  if (!escapes(producer, consumer))
    return false;
  for (Operation *op : all[consumer].ops) {
    SmallVector<Operation *> needed;
    producersOf(op, needed);
    for (Operation *other : needed) {
      int64_t g = groupOf(other);
      int64_t at = g >= 0 ? all[g].last : position.lookup(other);
      if (g != producer && g != consumer && at > all[producer].last)
        return true;
    }
  }
  return false;
}

bool KernelGroups::compatible(const Group &producer, const Group &consumer,
                              bool throughReshape, bool escapes) const {
  if (phaseKey(producer.ops.front()) != phaseKey(consumer.ops.front()) ||
      producer.ops.size() + consumer.ops.size() > kMaxOps)
    return false;
  bool sameShape = producer.shape == consumer.shape;
  KernelRole from = producer.role, to = consumer.role;
  if (from == KernelRole::elementwise && to == KernelRole::elementwise)
    return throughReshape ? !escapes : sameShape;
  if (throughReshape || !sameShape || producer.mixed || consumer.mixed)
    return false;
  if (from == KernelRole::elementwise && to == KernelRole::row)
    return escapes || llvm::all_of(producer.ops, isCheap);
  if (from == KernelRole::row && to == KernelRole::elementwise)
    return true;
  if (from == KernelRole::elementwise && to == KernelRole::reduction)
    return !escapes;
  return false;
}

void KernelGroups::tryMerge(Operation *producer, Operation *consumer,
                            bool throughReshape) {
  int64_t p = groupOf(producer), c = groupOf(consumer);
  if (p < 0 || c < 0 || p == c)
    return;
  if (!compatible(all[p], all[c], throughReshape, escapes(p, c)) ||
      delays(p, c) || readsMoved(p, c) || createsCycle(p, c))
    return;
  Group &into = all[c];
  if (all[p].role != KernelRole::elementwise)
    into.role = all[p].role;
  into.mixed |= all[p].mixed || into.shape != all[p].shape;
  into.last = std::max(into.last, all[p].last);
  for (Operation *op : all[p].ops) {
    owner[op] = c;
    into.ops.push_back(op);
  }
  all[p].ops.clear();
  llvm::sort(into.ops, [&](Operation *a, Operation *b) {
    return position.lookup(a) < position.lookup(b);
  });
}

/// A row result that is no whole row ([rows] or [columns]) has other indices.
static bool isWide(Value value, Operation *producer) {
  return kernelRole(producer) != KernelRole::row ||
         shapeOf(value) == shapeOf(producer->getOperand(0));
}

void KernelGroups::form() {
  for (Operation &op : block) {
    if (!isCompute(&op))
      continue;
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      Operation *producer = value.getDefiningOp();
      bool throughReshape = false;
      while (auto reshape = dyn_cast_or_null<ReshapeOp>(producer)) {
        value = reshape.getX();
        producer = value.getDefiningOp();
        throughReshape = true;
      }
      if (!producer || !isAligned(operand) || !isWide(value, producer))
        continue;
      // Scales and biases of a row op are not iterated over.
      if (shapeOf(operand.get()) != spaceOf(&op))
        continue;
      tryMerge(producer, &op, throughReshape);
    }
  }
}

std::vector<SmallVector<Operation *>> KernelGroups::groups() const {
  std::vector<SmallVector<Operation *>> result;
  for (const Group &group : all)
    if (!group.ops.empty())
      result.push_back(group.ops);
  return result;
}

} // namespace dpc
