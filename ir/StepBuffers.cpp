//===- StepBuffers.cpp - Which values of a step share a buffer ------------===//
#include "ir/StepBuffers.h"
#include "ir/Attributes.h"
#include "ir/GemmEpilogues.h"
#include "ir/KernelRole.h"
#include "ir/TensorUtils.h"

using namespace mlir;
using namespace dpc;

Value dpc::bufferRoot(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isBufferView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static std::pair<Phase, int64_t> runOf(Operation *op) {
  Phase phase = phaseOf(op);
  return {phase, isInLoop(phase) ? chunkOf(op) : 0};
}

bool dpc::addsToSum(Operation *op) {
  return isa<AccumulateOp>(op) || (matmulOf(op) && sumInPlace(op));
}

StepBuffers::StepBuffers(func::FuncOp step, SmallVector<Operation *> inOrder)
    : ops(std::move(inOrder)) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    position[op] = i;
    if (!isBufferView(op))
      for (Value operand : op->getOperands())
        lastRead[bufferRoot(operand)] = i;
    if (auto kernel = dyn_cast<KernelOp>(op))
      for (Operation &inner : kernel.getBody().front()) {
        auto adamw = dyn_cast<AdamWOp>(inner);
        auto sgd = dyn_cast<SgdOp>(inner);
        if (!adamw && !sgd)
          continue;
        auto gradient =
            dyn_cast<BlockArgument>(adamw ? adamw.getG() : sgd.getG());
        if (gradient)
          findGradients(kernel.getInputs()[gradient.getArgNumber()]);
      }
  }
  for (OpOperand &result :
       step.getBody().front().getTerminator()->getOpOperands()) {
    results.insert(bufferRoot(result.get()));
    auto tied = step.getResultAttrOfType<IntegerAttr>(result.getOperandNumber(),
                                                      attr::kTies);
    if (!tied || tied.getValue().uge(step.getNumArguments())) {
      outputs.push_back(result.get());
      continue;
    }
    BlockArgument old = step.getArgument(tied.getInt());
    ties.emplace_back(result.get(), old);
    Value value = result.get();
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getX();
    replaced.try_emplace(value, old);
  }
}

/// Marks `value`, a gradient that the optimizer reads, and each value from
/// which views, all_reduces and sums over micro-batches produce it.
void StepBuffers::findGradients(Value value) {
  if (!gradients.insert(value).second)
    return;
  auto result = dyn_cast<OpResult>(value);
  Operation *op = value.getDefiningOp();
  if (auto reduce = dyn_cast_or_null<AllReduceOp>(op))
    findGradients(reduce.getInputs()[result.getResultNumber()]);
  else if (op && (isBufferView(op) || isa<AccumulateOp>(op)))
    llvm::for_each(op->getOperands(),
                   [&](Value operand) { findGradients(operand); });
}

bool StepBuffers::diesAt(Value value, Operation *op) const {
  Value root = bufferRoot(value);
  return !results.contains(root) &&
         lastRead.lookup(root) <= position.lookup(op);
}

OpOperand *StepBuffers::reusedOperand(OpResult result) const {
  Operation *op = result.getOwner();
  unsigned number = result.getResultNumber();
  if (auto reduce = dyn_cast<AllReduceOp>(op)) {
    OpOperand &operand = reduce.getInputsMutable()[number];
    Operation *producer = bufferRoot(operand.get()).getDefiningOp();
    // The next micro-batch reads a value that no op of its phase writes again.
    bool isReadAgain = producer && isInLoop(phaseOf(op)) &&
                       (addsToSum(producer) ? runOf(producer) != runOf(op)
                                            : !isInLoop(phaseOf(producer)));
    return producer && !isReadAgain && diesAt(operand.get(), op) ? &operand
                                                                 : nullptr;
  }
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return nullptr;
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(number);
  Operation *inner = yielded.getDefiningOp();
  if (!isa_and_nonnull<AdamWOp, SgdOp>(inner))
    return nullptr;
  // An update's first operands are the old values, in the order of results.
  auto old = dyn_cast<BlockArgument>(
      inner->getOperand(cast<OpResult>(yielded).getResultNumber()));
  if (!old)
    return nullptr;
  OpOperand &operand = kernel.getInputsMutable()[old.getArgNumber()];
  return diesAt(operand.get(), op) ? &operand : nullptr;
}

Value StepBuffers::reusedParameter(OpResult result) const {
  if (!isa<AllGatherOp>(result.getOwner()))
    return {};
  Value old = replaced.lookup(result);
  bool fits = old && elementTypeOf(old) == elementTypeOf(result) &&
              diesAt(old, result.getOwner());
  return fits ? old : Value();
}

Operation *StepBuffers::lastReaderOf(Value value) const {
  Value root = bufferRoot(value);
  auto last = lastRead.find(root);
  bool isKnown = last != lastRead.end() && !results.contains(root);
  return isKnown ? ops[last->second] : nullptr;
}

BufferUse StepBuffers::useOf(Value value, Operation *lastReader) const {
  Operation *op = value.getDefiningOp();
  if ((addsToSum(op) && value == op->getResult(0)) || gradients.contains(value))
    return BufferUse::gradient;
  // An all_reduce runs in place, so its result is no separate buffer.
  bool communicates = isa<CollectiveOpInterface>(op) && !isa<AllReduceOp>(op);
  if (communicates || isa<FetchOp>(op))
    return BufferUse::communication;
  if (lastReader && runOf(lastReader) != runOf(op))
    return BufferUse::activation;
  return isa<RecvOp>(op) ? BufferUse::communication : BufferUse::workspace;
}

void StepBuffers::replace(Value from, Value to) {
  lastRead[to] = lastRead.lookup(from);
  if (results.erase(from))
    results.insert(to);
  if (gradients.contains(from))
    gradients.insert(to);
}
