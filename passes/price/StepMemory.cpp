//===- StepMemory.cpp - Live bytes of a step ------------------------------===//
#include "ir/Attributes.h"
#include "ir/GemmEpilogues.h"
#include "passes/price/StepLiveness.h"

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

/// Whether the optimizer reads `value` as a gradient.
static bool isGradient(Value value) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto kernel = dyn_cast<KernelOp>(user)) {
      Value inner =
          kernel.getBody().front().getArgument(use.getOperandNumber());
      for (Operation *reader : inner.getUsers()) {
        auto adamw = dyn_cast<AdamWOp>(reader);
        auto sgd = dyn_cast<SgdOp>(reader);
        if ((adamw && adamw.getG() == inner) || (sgd && sgd.getG() == inner))
          return true;
      }
    } else if (auto reduce = dyn_cast<AllReduceOp>(user)) {
      if (isGradient(reduce.getOutputs()[use.getOperandNumber()]))
        return true;
    } else if (isBufferView(user) || isa<AccumulateOp>(user)) {
      if (isGradient(user->getResult(0)))
        return true;
    }
  }
  return false;
}

/// Whether the results of `op` are sums over micro-batches.
static bool addsUp(Operation *op) {
  return isa<AccumulateOp>(op) || (matmulOf(op) && sumInPlace(op));
}

int64_t Liveness::add(Value value, MemoryCategory category, int64_t first) {
  cost::Buffer buffer;
  buffer.bytes = sizeInBytes(cast<RankedTensorType>(value.getType()));
  buffer.category = category;
  buffer.first = buffer.last = first;
  buffers.push_back(buffer);
  values.push_back(value);
  touches.emplace_back();
  return buffers.size() - 1;
}

void Liveness::addArguments() {
  for (BlockArgument arg : step.getArguments()) {
    auto role =
        step.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kRole);
    StringRef name = role ? role.getValue() : StringRef(role::kInput);
    MemoryCategory category = MemoryCategory::Activations;
    if (name == role::kParameter || name == role::kBuffer)
      category = MemoryCategory::Parameters;
    if (name == role::kState)
      category = MemoryCategory::Optimizer;
    // Not on the device; what fetches it has a buffer.
    if (step.getArgAttr(arg.getArgNumber(), attr::kSpace))
      continue;
    int64_t id = add(arg, category, 0);
    bufferOf[arg] = id;
    if (name != role::kInput) {
      buffers[id].last = end();
      continue;
    }
    // Inputs are loaded when forward begins, on a stage the phase of the first
    // reader.
    buffers[id].first = buffers[id].last = firstOfPhase(firstReader(arg));
    if (!ops.empty()) // a step may return what it is given
      touches[id].push_back(buffers[id].first);
  }
}

/// The first op that reads `argument` on a stage of a pipeline; else the first
/// of the loop.
int64_t Liveness::firstReader(BlockArgument argument) const {
  for (auto [i, op] : llvm::enumerate(ops)) {
    bool reads = llvm::any_of(op->getOperands(), [&](Value operand) {
      return bufferRoot(operand) == argument;
    });
    bool isFirst = step->hasAttr(attr::kStage) ? reads && !isBufferView(op)
                                               : phaseOf(op) >= Phase::forward;
    if (isFirst)
      return i;
  }
  return 0;
}

int64_t Liveness::firstOfPhase(int64_t at) const {
  while (at > 0 && at < end() && runOf(at - 1) == runOf(at))
    --at;
  return at;
}

void Liveness::findLastReads() {
  for (auto [i, op] : llvm::enumerate(ops))
    if (!isBufferView(op))
      for (Value operand : op->getOperands())
        lastRead[bufferRoot(operand)] = i;
  findCopies();
  // A new parameter replaces the old one as soon as nobody reads that.
  for (OpOperand &result :
       step.getBody().front().getTerminator()->getOpOperands()) {
    int64_t &last = lastRead[bufferRoot(result.get())];
    auto tied = step.getResultAttrOfType<IntegerAttr>(result.getOperandNumber(),
                                                      attr::kTies);
    last =
        tied ? std::max(last, lastRead.lookup(step.getArgument(tied.getInt())))
             : end();
  }
}

/// A new parameter that is not made in the old one's buffer is copied there: by
/// a computation behind the op that makes it, or the last of update's that
/// reads the old one.
void Liveness::findCopies() {
  DenseMap<Operation *, int64_t> position;
  int64_t updateBegin = end();
  for (auto [i, op] : llvm::enumerate(ops)) {
    position[op] = i;
    if (phaseOf(op) == Phase::update)
      updateBegin = std::min<int64_t>(updateBegin, i);
  }
  for (OpOperand &result :
       step.getBody().front().getTerminator()->getOpOperands()) {
    auto tied = step.getResultAttrOfType<IntegerAttr>(result.getOperandNumber(),
                                                      attr::kTies);
    Value root = bufferRoot(result.get());
    if (!tied || !root.getDefiningOp() || isa<StoreOp>(root.getDefiningOp()))
      continue;
    Value old = step.getArgument(tied.getInt());
    int64_t at =
        std::max(position.lookup(root.getDefiningOp()), updateBegin - 1);
    if (auto read = lastRead.find(old); read != lastRead.end())
      at = std::max(at, read->second);
    copies[at].push_back({root, old});
  }
}

void Liveness::copyNewValues(int64_t at) {
  auto it = copies.find(at);
  if (it == copies.end())
    return;
  for (auto [from, to] : it->second) {
    int64_t source = bufferOf.lookup(from), target = bufferOf.lookup(to);
    if (source == target)
      continue;
    buffers[source].last = std::max(buffers[source].last, at);
    waitFor({source}, {target}, at);
  }
}

void Liveness::findNextValues() {
  for (OpOperand &result :
       step.getBody().front().getTerminator()->getOpOperands()) {
    auto tied = step.getResultAttrOfType<IntegerAttr>(result.getOperandNumber(),
                                                      attr::kTies);
    Value value = result.get();
    while (auto reshape = value.getDefiningOp<ReshapeOp>())
      value = reshape.getX();
    if (tied)
      nextOf.try_emplace(value, step.getArgument(tied.getInt()));
  }
}

/// The buffer of the parameter that a gather makes the next value of, or -1.
int64_t Liveness::gatheredInto(OpResult stack, int64_t at) {
  auto found = nextOf.find(stack);
  if (found == nextOf.end())
    return -1;
  Value old = found->second;
  return lastRead.lookup(old) <= at ? bufferOf.lookup(old) : -1;
}

/// The buffer a result takes over, or -1.
int64_t Liveness::reusedBuffer(Operation *op, unsigned result, int64_t at) {
  auto diesHere = [&](Value value) {
    return lastRead.lookup(bufferRoot(value)) <= at;
  };
  if (auto reduce = dyn_cast<AllReduceOp>(op)) {
    Value operand = reduce.getInputs()[result];
    Value root = bufferRoot(operand);
    bool whole = sizeInBytes(cast<RankedTensorType>(root.getType())) ==
                 sizeInBytes(cast<RankedTensorType>(operand.getType()));
    return diesHere(operand) && whole && !isa<BlockArgument>(root)
               ? bufferOf.lookup(root)
               : -1;
  }
  if (isa<AllGatherOp>(op))
    return gatheredInto(op->getResult(result), at);
  auto kernel = dyn_cast<KernelOp>(op);
  if (!kernel)
    return -1;
  Value yielded = kernel.getBody().front().getTerminator()->getOperand(result);
  Operation *inner = yielded.getDefiningOp();
  if (!isa_and_nonnull<AdamWOp, SgdOp>(inner))
    return -1;
  auto old = dyn_cast<BlockArgument>(
      inner->getOperand(cast<OpResult>(yielded).getResultNumber()));
  if (!old)
    return -1;
  Value operand = kernel.getInputs()[old.getArgNumber()];
  return diesHere(operand) ? bufferOf.lookup(bufferRoot(operand)) : -1;
}

MemoryCategory Liveness::categoryOf(Value value, int64_t at) {
  Operation *op = value.getDefiningOp();
  if ((addsUp(op) && value == op->getResult(0)) || isGradient(value))
    return MemoryCategory::Gradients;
  if ((isa<CommunicationOpInterface>(op) && !isa<AllReduceOp, RecvOp>(op)) ||
      isa<FetchOp>(op))
    return MemoryCategory::Communication;
  int64_t last = lastRead.lookup(value);
  bool crosses = last < end() && phaseOf(ops[last]) != phaseOf(op);
  return crosses           ? MemoryCategory::Activations
         : isa<RecvOp>(op) ? MemoryCategory::Communication
                           : MemoryCategory::Workspace;
}

void Liveness::place(Operation *op, int64_t at) {
  if (isBufferView(op) || isa<StoreOp>(op))
    return;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    // Splats are part of kernels, tables are stored with the parameters.
    if (constant.getValue().isSplat())
      return;
    int64_t id = add(constant.getResult(), MemoryCategory::Parameters, 0);
    buffers[id].last = end();
    bufferOf[constant.getResult()] = id;
    return;
  }
  for (OpResult result : op->getResults()) {
    int64_t reused = reusedBuffer(op, result.getResultNumber(), at);
    int64_t first = addsUp(op) && result.getResultNumber() == 0 ? 0 : at;
    bufferOf[result] =
        reused >= 0 ? reused : add(result, categoryOf(result, at), first);
  }
  MatmulOp product = matmulOf(op);
  if (auto bytes = (product ? product.getOperation() : op)
                       ->getAttrOfType<IntegerAttr>(attr::kWorkspace)) {
    int64_t id = add(op->getResult(0), MemoryCategory::Workspace, at);
    buffers[id].bytes = bytes.getInt();
    values[id] = nullptr;
    touches[id].push_back(at);
  }
}

/// Ends the collectives that a computation must wait for: those whose buffers
/// it touches, and all before them.
void Liveness::waitFor(ArrayRef<int64_t> reads, ArrayRef<int64_t> writes,
                       int64_t at) {
  int64_t ended = 0;
  for (size_t i = 0; i < pending.size(); ++i) {
    bool touches =
        llvm::any_of(
            reads, [&](int64_t id) { return pendingWrites[i].contains(id); }) ||
        llvm::any_of(writes, [&](int64_t id) {
          return pendingWrites[i].contains(id) || pendingReads[i].contains(id);
        });
    if (touches)
      ended = i + 1;
  }
  // Erasing nothing would move each set onto itself, which empties it.
  if (ended == 0)
    return;
  for (int64_t i = 0; i < ended; ++i)
    hold(i, at);
  pending.erase(pending.begin(), pending.begin() + ended);
  pendingAt.erase(pendingAt.begin(), pendingAt.begin() + ended);
  pendingReads.erase(pendingReads.begin(), pendingReads.begin() + ended);
  pendingWrites.erase(pendingWrites.begin(), pendingWrites.begin() + ended);
}

void Liveness::hold(int64_t number, int64_t until) {
  for (int64_t id : pending[number])
    holds.push_back({id, pendingAt[number], until});
}

void Liveness::touch(Operation *op, int64_t at) {
  if (isBufferView(op) || isa<ConstantOp>(op))
    return;
  Ids touched, reads, writes;
  for (Value operand : op->getOperands())
    if (auto it = bufferOf.find(bufferRoot(operand)); it != bufferOf.end()) {
      touched.push_back(it->second);
      reads.push_back(it->second);
    }
  for (Value result : op->getResults())
    if (auto it = bufferOf.find(result); it != bufferOf.end()) {
      touched.push_back(it->second);
      writes.push_back(it->second);
    }
  for (int64_t id : touched) {
    buffers[id].last = std::max(buffers[id].last, at);
    touches[id].push_back(at);
  }
  if (isa<RecvOp>(op) && isInLoop(phaseOf(op)))
    received.insert(writes.begin(), writes.end());
  if (!isa<CommunicationOpInterface>(op))
    return waitFor(reads, writes, at);
  pending.push_back(touched);
  pendingAt.push_back(at);
  pendingReads.emplace_back(reads.begin(), reads.end());
  pendingWrites.emplace_back(writes.begin(), writes.end());
}

Liveness::Liveness(func::FuncOp step) : step(step), ops(opsInOrder(step)) {
  for (Operation *op : ops)
    runs.push_back({phaseOf(op), chunkOf(op)});
  addArguments();
  findNextValues();
  findLastReads();
  for (auto [i, op] : llvm::enumerate(ops)) {
    size_t before = buffers.size();
    place(op, i);
    touch(op, i);
    copyNewValues(i);
    if (isInLoop(runs[i].first)) {
      loopBegin = std::min<int64_t>(loopBegin, i);
      loopEnd = i;
    }
    if (runs[i].first == Phase::setup)
      for (size_t id = before; id < buffers.size(); ++id)
        madeBySetup.insert(id);
  }
  for (size_t i = 0; i < pending.size(); ++i)
    hold(i, end());
  for (Value value : step.getBody().front().getTerminator()->getOperands()) {
    Value root = bufferRoot(value);
    auto it = bufferOf.find(root);
    if (it == bufferOf.end())
      continue;
    int64_t &last = buffers[it->second].last;
    last = std::max(last, lastRead.lookup(root));
  }
}

std::vector<cost::Buffer> Liveness::inOneLine() const {
  std::vector<cost::Buffer> lives = buffers;
  for (const Hold &hold : holds)
    lives[hold.buffer].last = std::max(lives[hold.buffer].last, hold.until);
  // What setup made for the loop is read again by the next micro-batch.
  int64_t setupEnd = llvm::count_if(
      runs, [](const auto &run) { return run.first == Phase::setup; });
  if (microBatchesOf(step) > 1)
    for (int64_t id : madeBySetup)
      if (lives[id].last >= setupEnd)
        lives[id].last = std::max(lives[id].last, loopEnd);
  return lives;
}

OffloadedBytes dpc::offloadedBytes(func::FuncOp step) {
  constexpr int64_t kAlignment = 64;
  OffloadedBytes bytes;
  for (BlockArgument arg : step.getArguments()) {
    auto space =
        step.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kSpace);
    if (!space)
      continue;
    int64_t size = llvm::alignTo(
        sizeInBytes(cast<RankedTensorType>(arg.getType())), kAlignment);
    (space.getValue() == "disk" ? bytes.disk : bytes.host) += size;
  }
  return bytes;
}
