//===- StepMemory.cpp - Live bytes of a step ------------------------------===//
#include "passes/search/StepEstimate.h"

#include <map>

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

namespace {

/// Builds the list of buffers with their lifetimes, in steps of `ops`.
class Liveness {
public:
  explicit Liveness(func::FuncOp step) : step(step), ops(opsInOrder(step)) {}
  std::vector<cost::Buffer> run();

private:
  func::FuncOp step;
  SmallVector<Operation *> ops;
  std::vector<cost::Buffer> buffers;
  DenseMap<Value, int64_t> bufferOf;
  DenseMap<Value, int64_t> lastRead; ///< By root.
  /// Collectives under way: their buffers, until a computation waits.
  SmallVector<SmallVector<int64_t>> pending;
  SmallVector<DenseSet<int64_t>> pendingReads, pendingWrites;

  int64_t end() const { return ops.size(); }
  int64_t add(RankedTensorType type, MemoryCategory category, int64_t first);
  void addArguments();
  void findLastReads();
  void place(Operation *op, int64_t at);
  int64_t reusedBuffer(Operation *op, unsigned result, int64_t at);
  MemoryCategory categoryOf(Value value, int64_t at);
  void touch(Operation *op, int64_t at);
  void waitFor(Operation *op, int64_t at);
};

} // namespace

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

int64_t Liveness::add(RankedTensorType type, MemoryCategory category,
                      int64_t first) {
  cost::Buffer buffer;
  buffer.bytes = sizeInBytes(type);
  buffer.category = category;
  buffer.first = buffer.last = first;
  buffers.push_back(buffer);
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
    int64_t id = add(cast<RankedTensorType>(arg.getType()), category, 0);
    bufferOf[arg] = id;
    if (name != role::kInput) {
      buffers[id].last = end();
      continue;
    }
    // Inputs are loaded when forward begins.
    for (auto [i, op] : llvm::enumerate(ops))
      if (phaseOf(op) >= StepPhase::forward) {
        buffers[id].first = buffers[id].last = i;
        break;
      }
  }
}

void Liveness::findLastReads() {
  for (auto [i, op] : llvm::enumerate(ops))
    if (!isBufferView(op))
      for (Value operand : op->getOperands())
        lastRead[bufferRoot(operand)] = i;
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
  if (isa<AccumulateOp>(op) || isGradient(value))
    return MemoryCategory::Gradients;
  if (isCommunication(op) && !isa<AllReduceOp, RecvOp>(op))
    return MemoryCategory::Communication;
  int64_t last = lastRead.lookup(value);
  bool crosses = last < end() && phaseOf(ops[last]) != phaseOf(op);
  return crosses           ? MemoryCategory::Activations
         : isa<RecvOp>(op) ? MemoryCategory::Communication
                           : MemoryCategory::Workspace;
}

void Liveness::place(Operation *op, int64_t at) {
  if (isBufferView(op))
    return;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    // Splats are part of kernels, tables are stored with the parameters.
    if (constant.getValue().isSplat())
      return;
    int64_t id =
        add(constant.getResult().getType(), MemoryCategory::Parameters, 0);
    buffers[id].last = end();
    bufferOf[constant.getResult()] = id;
    return;
  }
  for (OpResult result : op->getResults()) {
    int64_t reused = reusedBuffer(op, result.getResultNumber(), at);
    int64_t first = isa<AccumulateOp>(op) ? 0 : at;
    bufferOf[result] = reused >= 0
                           ? reused
                           : add(cast<RankedTensorType>(result.getType()),
                                 categoryOf(result, at), first);
  }
}

/// Ends the collectives that `op` must wait for: those whose buffers it
/// touches, and all before them.
void Liveness::waitFor(Operation *op, int64_t at) {
  SmallVector<int64_t> reads, writes;
  for (Value operand : op->getOperands())
    reads.push_back(bufferOf.lookup(bufferRoot(operand)));
  for (Value result : op->getResults())
    writes.push_back(bufferOf.lookup(result));
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
    for (int64_t id : pending[i])
      buffers[id].last = std::max(buffers[id].last, at);
  pending.erase(pending.begin(), pending.begin() + ended);
  pendingReads.erase(pendingReads.begin(), pendingReads.begin() + ended);
  pendingWrites.erase(pendingWrites.begin(), pendingWrites.begin() + ended);
}

void Liveness::touch(Operation *op, int64_t at) {
  if (isBufferView(op) || isa<ConstantOp>(op))
    return;
  SmallVector<int64_t> touched;
  DenseSet<int64_t> reads, writes;
  for (Value operand : op->getOperands())
    if (auto it = bufferOf.find(bufferRoot(operand)); it != bufferOf.end()) {
      touched.push_back(it->second);
      reads.insert(it->second);
    }
  for (Value result : op->getResults()) {
    touched.push_back(bufferOf.lookup(result));
    writes.insert(bufferOf.lookup(result));
  }
  for (int64_t id : touched)
    buffers[id].last = std::max(buffers[id].last, at);
  if (!isCommunication(op))
    return waitFor(op, at);
  pending.push_back(touched);
  pendingReads.push_back(reads);
  pendingWrites.push_back(writes);
}

std::vector<cost::Buffer> Liveness::run() {
  addArguments();
  findLastReads();
  int64_t loopEnd = -1;
  for (auto [i, op] : llvm::enumerate(ops))
    if (isInLoop(phaseOf(op)))
      loopEnd = i;
  DenseSet<int64_t> madeBySetup;
  for (auto [i, op] : llvm::enumerate(ops)) {
    size_t before = buffers.size();
    place(op, i);
    touch(op, i);
    if (phaseOf(op) == StepPhase::setup)
      for (size_t id = before; id < buffers.size(); ++id)
        madeBySetup.insert(id);
  }
  for (const SmallVector<int64_t> &rest : pending)
    for (int64_t id : rest)
      buffers[id].last = end();
  for (Value value : step.getBody().front().getTerminator()->getOperands()) {
    Value root = bufferRoot(value);
    int64_t &last = buffers[bufferOf.lookup(root)].last;
    last = std::max(last, lastRead.lookup(root));
  }
  // What setup made for the loop is read again by the next micro-batch.
  int64_t loopBegin = llvm::count_if(
      ops, [](Operation *op) { return phaseOf(op) == StepPhase::setup; });
  if (microBatchesOf(step) > 1)
    for (int64_t id : madeBySetup)
      if (buffers[id].last >= loopBegin)
        buffers[id].last = std::max(buffers[id].last, loopEnd);
  return std::move(buffers);
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

namespace {

/// Takes what lies in frames out of the buffers of a step.
class Frames {
public:
  Frames(func::FuncOp step, std::vector<cost::Buffer> buffers)
      : ops(opsInOrder(step)), table(scheduleOf(step)),
        buffers(std::move(buffers)) {}
  std::vector<cost::Buffer> run();

private:
  SmallVector<Operation *> ops;
  std::vector<cost::ScheduleStep> table;
  std::vector<cost::Buffer> buffers;

  bool isOneAfterTheOther() const;
  std::pair<StepPhase, int64_t> runOf(int64_t at) const {
    return {phaseOf(ops[at]), chunkOf(ops[at])};
  }
  bool isFramed(const cost::Buffer &buffer) const;
};

} // namespace

/// True when no micro-batch begins before the one before it is done: then
/// buffers of different phases share bytes as those of one long phase do.
bool Frames::isOneAfterTheOther() const {
  for (size_t i = 1; i < table.size(); ++i)
    if (table[i].microBatch < table[i - 1].microBatch)
      return false;
  return true;
}

/// Made and last used by different phases of micro-batches.
bool Frames::isFramed(const cost::Buffer &buffer) const {
  int64_t count = ops.size();
  return buffer.first < count && buffer.last < count &&
         isInLoop(phaseOf(ops[buffer.first])) &&
         isInLoop(phaseOf(ops[buffer.last])) &&
         runOf(buffer.first) != runOf(buffer.last);
}

std::vector<cost::Buffer> Frames::run() {
  if (isOneAfterTheOther())
    return std::move(buffers);
  std::vector<cost::Buffer> shared;
  std::map<int64_t, std::vector<cost::Buffer>> framed; ///< By chunk.
  for (const cost::Buffer &buffer : buffers)
    (isFramed(buffer) ? framed[chunkOf(ops[buffer.first])] : shared)
        .push_back(buffer);
  int64_t loopFirst = -1, loopLast = -1;
  for (auto [i, op] : llvm::enumerate(ops))
    if (isInLoop(phaseOf(op))) {
      loopFirst = loopFirst < 0 ? i : loopFirst;
      loopLast = i;
    }
  for (const auto &[chunk, members] : framed) {
    cost::MemoryBreakdown slot = cost::peakMemory(members).categories;
    int64_t slots = cost::mostAlive(table, chunk);
    for (int i = 0; i < cost::numMemoryCategories; ++i) {
      cost::Buffer part;
      part.category = static_cast<MemoryCategory>(i);
      part.bytes = static_cast<int64_t>(slot[part.category]) * slots;
      part.first = loopFirst;
      part.last = loopLast;
      shared.push_back(part);
    }
  }
  return shared;
}

cost::MemoryPeak dpc::estimateMemory(func::FuncOp step) {
  return cost::peakMemory(Frames(step, Liveness(step).run()).run());
}
