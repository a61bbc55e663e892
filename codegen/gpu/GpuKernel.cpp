//===- GpuKernel.cpp - The stages of kernels for GPUs ---------------------===//
#include "codegen/gpu/GpuKernel.h"
#include "codegen/gpu/CompilePtx.h"
#include "codegen/kernel/KernelFunction.h"
#include "codegen/kernel/RowKernels.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;

namespace dpc::codegen {

void emitStage(GpuKernel &k, int64_t teams, TeamShape shape,
               const LoopBody &body) {
  ElementEmitter &b = k.b;
  size_t number = k.result.stages.size();
  std::string name =
      number == 0 ? b.symbol : b.symbol + "_" + std::to_string(number);
  bool isPtx = b.target == KernelTarget::ptx;
  std::string impl = isPtx ? name : name + "_impl";
  bool isGroup = !b.spec.groupSizes.empty();
  bool hasScratch = k.result.scratchBytes > 0;
  func::FuncOp function = isGroup ? createGroupFunction(b, impl)
                                  : createFunction(b, impl, hasScratch);
  k.functions.push_back(function);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(function.addEntryBlock());
  if (!isGroup)
    bindArguments(b, function, hasScratch);
  b.stored.clear();
  b.computed.clear();
  for (unsigned i : k.storedResults)
    b.stored[b.yields[i]] = b.arguments.outputs[i];
  b.resetScopes();
  k.threads.team = {shape};
  k.threads.forTeams(teams, body);
  func::ReturnOp::create(b);
  int64_t blocks =
      std::max<int64_t>(1, (teams + shape.perBlock - 1) / shape.perBlock);
  k.result.stages.push_back(
      {name,
       {blocks, shape.threads * shape.perBlock, k.threads.team.sharedBytes}});
}

/// Marks the current function, which computes several results, with
/// kKeepsManyValues. Without the mark, the assembler spills registers so that
/// more threads can run at once, although fewer threads already use the whole
/// memory bandwidth. Functions with sin, cos, pow or f64 need more registers
/// than the mark provides, so they are not marked.
void keepValues(GpuKernel &k) {
  bool isLong = llvm::any_of(k.b.body(), [](Operation &op) {
    auto unary = dyn_cast<UnaryOp>(op);
    auto binary = dyn_cast<BinaryOp>(op);
    return (unary && llvm::is_contained({UnaryKind::sin, UnaryKind::cos},
                                        unary.getKind())) ||
           (binary && binary.getKind() == BinaryKind::pow) ||
           llvm::any_of(op.getResultTypes(), [](Type type) {
             return cast<RankedTensorType>(type).getElementType().isF64();
           });
  });
  if (!isLong)
    k.functions.back()->setAttr(kKeepsManyValues, k.b.getUnitAttr());
}

static MemoryRef memoryOf(const ElementEmitter &b, const Scratch &part) {
  int64_t bytes = part.type.getIntOrFloatBitWidth() / 8;
  return {b.arguments.scratch, {part.offset / bytes, {1}, {1}}, Type()};
}

Value loadScratch(ElementEmitter &b, const Scratch &part, Value position) {
  return b.load(memoryOf(b, part), part.type, LoopSpace::opaque(position));
}

void storeScratch(ElementEmitter &b, Value value, const Scratch &part,
                  Value position) {
  b.store(value, memoryOf(b, part), LoopSpace::opaque(position));
}

namespace {

struct Touch {
  bool reads = false, writes = false;
};

} // namespace

static Touch touchOf(Value pointer) {
  Touch touch;
  for (Operation *user : pointer.getUsers()) {
    Touch more{true, true};
    if (isa<LLVM::GEPOp>(user))
      more = touchOf(user->getResult(0));
    else if (isa<LLVM::LoadOp>(user))
      more = {true, false};
    else if (auto store = dyn_cast<LLVM::StoreOp>(user))
      more = {store.getValue() == pointer, true};
    touch.reads |= more.reads;
    touch.writes |= more.writes;
  }
  return touch;
}

/// Removes the parameters for results and scratch memory that a stage does not
/// access. Also sets `stage.buffers` and `stage.writes`.
static void dropUntouched(const KernelSpec &spec, bool hasScratch,
                          func::FuncOp impl, KernelStage &stage) {
  unsigned numInputs = spec.inputs.size();
  unsigned numBuffers = numInputs + spec.outputs.size() + hasScratch;
  llvm::BitVector dropped(impl.getNumArguments());
  for (unsigned i = 0; i < numBuffers; ++i) {
    bool isOutput = i >= numInputs && i - numInputs < spec.outputs.size();
    int64_t alias = isOutput ? spec.aliases[i - numInputs] : -1;
    Touch touch = touchOf(impl.getArgument(alias >= 0 ? alias : i));
    bool isWritten = i >= numInputs && touch.writes;
    // An aliased result is read through the parameter of its operand.
    bool isRead = i < numInputs || (alias < 0 && touch.reads);
    if (!isRead && !isWritten) {
      dropped.set(i);
      continue;
    }
    if (isWritten)
      stage.writes.push_back(static_cast<int>(stage.buffers.size()));
    stage.buffers.push_back(static_cast<int>(i));
  }
  [[maybe_unused]] LogicalResult erased = impl.eraseArguments(dropped);
  assert(succeeded(erased) && "nothing uses them");
}

static void finishStages(GpuKernel &k) {
  for (auto [impl, stage] : llvm::zip_equal(k.functions, k.result.stages)) {
    if (k.functions.size() > 1)
      dropUntouched(k.b.spec, k.result.scratchBytes > 0, impl, stage);
    if (k.b.target == KernelTarget::emulation)
      emitEntry(k.b, impl, stage.symbol);
  }
}

EmittedKernel emitForGpu(ElementEmitter &b) {
  std::unique_ptr<GpuThreads> threads = GpuThreads::create(b);
  b.loops = threads.get();
  GpuKernel k{b, *threads, {}, {}, {}};
  if (!b.spec.groupSizes.empty())
    emitGroupStage(k);
  else if (Operation *rowOp = findRowOp(b.spec.op))
    emitRowStages(k, rowOp);
  else if (llvm::any_of(b.body(),
                        [](Operation &op) { return isReduction(&op); }))
    emitReductionStages(k);
  else
    emitElementwiseStage(k,
                         llvm::to_vector(llvm::seq<unsigned>(b.yields.size())));
  finishStages(k);
  return std::move(k.result);
}

} // namespace dpc::codegen
