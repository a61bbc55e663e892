//===- StepMemory.cpp - Live bytes of a step ------------------------------===//
#include "cost-model/machine/ExpertWorkspace.h"
#include "ir/Attributes.h"
#include "ir/ExpertTiles.h"
#include "ir/GemmEpilogues.h"
#include "ir/TensorUtils.h"
#include "passes/price/StepLiveness.h"

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

int64_t Liveness::add(Value value, int64_t bytes, MemoryCategory category,
                      int64_t first, int64_t last) {
  buffers.push_back({bytes, category, first, last});
  values.push_back(value);
  touches.emplace_back();
  return buffers.size() - 1;
}

StringRef dpc::roleOf(func::FuncOp step, BlockArgument argument) {
  auto role =
      step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kRole);
  return role ? role.getValue() : StringRef();
}

void Liveness::addArguments() {
  for (BlockArgument arg : step.getArguments()) {
    StringRef role = roleOf(step, arg);
    MemoryCategory category = MemoryCategory::Activations;
    if (role == role::kParameter || role == role::kBuffer)
      category = MemoryCategory::Parameters;
    if (role == role::kState)
      category = MemoryCategory::Optimizer;
    // The argument is not in device memory. dpc.fetch copies it there.
    if (step.getArgAttr(arg.getArgNumber(), attr::kSpace))
      continue;
    bool isInput = role.empty() || role == role::kInput;
    // An input is loaded at the begin of the phase that reads it first.
    int64_t first = isInput ? firstOfPhase(firstReader(arg)) : 0;
    bufferOf[arg] =
        add(arg, sizeInBytes(arg), category, first, isInput ? first : end());
    if (isInput && !ops.empty()) // a step may return its arguments
      touches.back().push_back(first);
  }
}

/// Without a pipeline, returns the first op of the loop.
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

/// Finds new parameters that are computed in separate buffers. Each is copied
/// into the old buffer in the update phase, after its producer and after the
/// last read of the old value.
void Liveness::findCopies() {
  int64_t updateBegin =
      llvm::find_if(
          ops, [](Operation *op) { return phaseOf(op) == Phase::update; }) -
      ops.begin();
  for (Value output : outputs)
    returned[bufferRoot(output)] = end();
  for (auto [result, old] : ties) {
    Value root = bufferRoot(result);
    returned[root] = std::max(returned[root], lastRead.lookup(old));
    if (!root.getDefiningOp() || isa<StoreOp>(root.getDefiningOp()))
      continue;
    copies[std::max({position.lookup(root.getDefiningOp()), updateBegin - 1,
                     lastRead.lookup(old)})]
        .push_back({root, old});
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

/// Returns the value whose buffer `result` reuses, or null.
Value Liveness::reusedValue(OpResult result) const {
  OpOperand *operand = reusedOperand(result);
  if (!operand)
    return reusedParameter(result);
  Value value = operand->get();
  bool isPart = sizeInBytes(bufferRoot(value)) != sizeInBytes(value);
  return isa<AllReduceOp>(result.getOwner()) && isPart ? Value() : value;
}

/// Indexed by BufferUse.
static constexpr MemoryCategory kCategories[] = {
    MemoryCategory::Gradients, MemoryCategory::Communication,
    MemoryCategory::Activations, MemoryCategory::Workspace};

static std::optional<int64_t> workspaceOf(Operation *op);

/// Returns the bytes of a tile, of the workspaces for it, and of the order of
/// the rows.
static int64_t tileBytes(ExpertTilesOp op) {
  auto global = cast<RankedTensorType>(op.getGlobal());
  int64_t bytes = alignedBytes(cost::expertWorkspaceBytes(
      shapeOf(op.getIds())[0], localType(global).getDimSize(0)));
  bytes += alignedBytes(stagedBytes(op));
  for (Value value : tileBuffers(op))
    bytes += alignedBytes(sizeInBytes(value));
  for (Operation &inner : op.getBody().front())
    bytes += alignedBytes(workspaceOf(&inner).value_or(0));
  return bytes;
}

/// Returns the bytes of the workspace of `op`, if it has one.
static std::optional<int64_t> workspaceOf(Operation *op) {
  if (isa<ExpertMatmulOp, ExpertMatmulGradOp>(op)) {
    bool isGradient = isa<ExpertMatmulGradOp>(op);
    Value w = isGradient ? op->getResult(0) : op->getOperand(2);
    int64_t rows = tensorType(op->getOperand(1)).getNumElements();
    return cost::expertWorkspaceBytes(rows, shapeOf(w)[0]);
  }
  if (auto tiles = dyn_cast<ExpertTilesOp>(op))
    return tileBytes(tiles);
  MatmulOp matmul = matmulOf(op);
  auto bytes = (matmul ? matmul.getOperation() : op)
                   ->getAttrOfType<IntegerAttr>(attr::kWorkspace);
  return bytes ? std::optional(bytes.getInt()) : std::nullopt;
}

void Liveness::place(Operation *op, int64_t at) {
  if (isBufferView(op) || isa<StoreOp>(op))
    return;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    // Splats are inside kernels. Other constants count as parameters.
    if (constant.getValue().isSplat())
      return;
    bufferOf[constant.getResult()] =
        add(constant.getResult(), sizeInBytes(constant.getResult()),
            MemoryCategory::Parameters, 0, end());
    return;
  }
  for (OpResult result : op->getResults()) {
    Value reused = reusedValue(result);
    int64_t first = addsToSum(op) && result.getResultNumber() == 0 ? 0 : at;
    int64_t last = std::max(lastRead.lookup(result), returned.lookup(result));
    BufferUse use = useOf(result, last < end() ? ops[last] : nullptr);
    bufferOf[result] =
        reused ? bufferOf.lookup(bufferRoot(reused))
               : add(result, sizeInBytes(result),
                     kCategories[static_cast<int>(use)], first, first);
  }
  if (std::optional<int64_t> bytes = workspaceOf(op)) {
    add(Value(), *bytes, MemoryCategory::Workspace, at, at);
    touches.back().push_back(at);
  }
}

/// Ends the communications for which a computation waits: the last one that
/// conflicts with its accesses, and all before it.
void Liveness::waitFor(ArrayRef<int64_t> reads, ArrayRef<int64_t> writes,
                       int64_t at) {
  int64_t last = communicated.lastConflict(reads, writes);
  for (Hold &hold : llvm::drop_begin(holds, numEnded)) {
    if (hold.from > last)
      break;
    hold.until = at;
    ++numEnded;
  }
}

void Liveness::touch(Operation *op, int64_t at) {
  if (isBufferView(op) || isa<ConstantOp>(op))
    return;
  SmallVector<int64_t> touched, reads, writes;
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
  if (!communicates(op))
    return waitFor(reads, writes, at);
  if (isa<ExpertTilesOp>(op)) // Its tiles are the last buffer.
    touched.push_back(static_cast<int64_t>(buffers.size()) - 1);
  for (int64_t id : touched)
    holds.push_back({id, at, end()});
  communicated.add(reads, writes, at);
}

Liveness::Liveness(func::FuncOp step)
    : StepBuffers(step, opsInOrder(step)), step(step) {
  for (Operation *op : ops)
    runs.push_back({phaseOf(op), chunkOf(op)});
  addArguments();
  findCopies();
  for (auto [i, op] : llvm::enumerate(ops)) {
    place(op, i);
    touch(op, i);
    copyNewValues(i);
    if (isInLoop(runs[i].first)) {
      loopBegin = std::min<int64_t>(loopBegin, i);
      loopEnd = i;
    }
  }
  for (auto [root, last] : returned)
    if (auto it = bufferOf.find(root); it != bufferOf.end())
      buffers[it->second].last = std::max(buffers[it->second].last, last);
}

std::vector<cost::Buffer> Liveness::inOneLine() const {
  std::vector<cost::Buffer> lives = buffers;
  for (const Hold &hold : holds)
    lives[hold.buffer].last = std::max(lives[hold.buffer].last, hold.until);
  if (microBatchesOf(step) > 1)
    for (cost::Buffer &life : lives)
      extendOverLoop(life, loopBegin, loopEnd, /*isMixed=*/false);
  return lives;
}

OffloadedBytes dpc::offloadedBytes(func::FuncOp step) {
  OffloadedBytes bytes;
  for (BlockArgument arg : step.getArguments()) {
    auto space =
        step.getArgAttrOfType<StringAttr>(arg.getArgNumber(), attr::kSpace);
    if (!space)
      continue;
    (space.getValue() == "disk" ? bytes.disk : bytes.host) +=
        alignedBytes(sizeInBytes(arg));
  }
  return bytes;
}
