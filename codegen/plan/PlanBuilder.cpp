//===- PlanBuilder.cpp - Instructions and buffers of a step ---------------===//
#include "codegen/plan/PlanBuilder.h"
#include "codegen/gpu/CompilePtx.h"
#include "codegen/kernel/KernelScalars.h"
#include "ir/GemmEpilogues.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dpc::codegen {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// How `op` becomes instructions; every op but terminators has been asked
/// before (checkLowerings).
static std::optional<LoweringKind> kindOfLowering(Operation *op) {
  auto lowering = dyn_cast<LoweringOpInterface>(op);
  if (!lowering)
    return std::nullopt;
  return lowering.getLoweringKind();
}

bool PlanBuilder::isView(Operation *op) const {
  return kindOfLowering(op) == LoweringKind::view;
}

/// Ops that become instructions without a kernel around them.
static bool standsAlone(Operation *op) {
  std::optional<LoweringKind> kind = kindOfLowering(op);
  return isa<KernelOp, AccumulateOp>(op) || kind == LoweringKind::matmul ||
         kind == LoweringKind::collective || kind == LoweringKind::transfer ||
         op->hasTrait<mlir::OpTrait::IsTerminator>();
}

/// True for a constant that is worth a buffer of its own.
static bool isStoredConstant(Operation *op) {
  auto constant = dyn_cast<ConstantOp>(op);
  return constant && !constant.getValue().isSplat();
}

/// Replaces `op` by a kernel of it alone.
KernelOp PlanBuilder::wrap(Operation *op) {
  OpBuilder builder(op);
  OperationState state(op->getLoc(), KernelOp::getOperationName());
  state.addOperands(op->getOperands());
  state.addTypes(op->getResultTypes());
  for (StringRef name : {attr::kPhase, attr::kChunk})
    if (Attribute value = op->getAttr(name))
      state.addAttribute(name, value);
  Block *body = new Block;
  state.addRegion()->push_back(body);
  auto kernel = cast<KernelOp>(builder.create(state));
  IRMapping map;
  for (Value operand : op->getOperands()) {
    Value argument = body->addArgument(operand.getType(), op->getLoc());
    map.map(operand, argument);
  }
  builder.setInsertionPointToEnd(body);
  // An operand that appears twice has two arguments; either will do.
  Operation *inner = builder.clone(*op, map);
  YieldOp::create(builder, op->getLoc(), inner->getResults());
  op->replaceAllUsesWith(kernel->getResults());
  op->erase();
  return kernel;
}

void PlanBuilder::wrapLooseOps() {
  SmallVector<Operation *> loose;
  for (Operation &op : step.getBody().front())
    if (!standsAlone(&op) && !isView(&op) && !isStoredConstant(&op))
      loose.push_back(&op);
  llvm::for_each(loose, [&](Operation *op) { wrap(op); });
}

LogicalResult PlanBuilder::checkLowerings() {
  WalkResult result = step.walk([&](Operation *op) {
    if (isa<func::FuncOp>(op) || op->hasTrait<mlir::OpTrait::IsTerminator>() ||
        kindOfLowering(op))
      return WalkResult::advance();
    op->emitOpError("cannot be executed: it has no lowering");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult PlanBuilder::checkTypes() {
  WalkResult result = step.walk([&](Operation *op) {
    for (Type type :
         llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                  llvm::to_vector(op->getResultTypes()))) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || dtypeOf(tensor.getElementType()))
        continue;
      op->emitError() << "element type " << tensor.getElementType()
                      << " can be planned but not executed; floats and "
                         "integers of the usual sizes run";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult PlanBuilder::checkLookups() {
  WalkResult result = step.walk([&](Operation *op) {
    if (!looksUpInFactors(op))
      return WalkResult::advance();
    op->emitOpError("looks up in a dimension that is split by factors; only a "
                    "dimension that is split as a whole can be executed");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

Value PlanBuilder::rootOf(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

LogicalResult PlanBuilder::orderOps() {
  std::vector<SmallVector<Operation *>> byPhase(phases.size());
  for (Operation &op : step.getBody().front().without_terminator()) {
    int phase = phaseOf(&op);
    if (phase < 0)
      return op.emitOpError("is of a phase and chunk that dpc.schedule of its "
                            "function never runs");
    byPhase[phase].push_back(&op);
  }
  for (auto &list : byPhase)
    ops.append(list);
  for (auto [i, op] : llvm::enumerate(ops)) {
    position[op] = i;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer && !position.contains(producer))
        return op->emitOpError() << "runs in phase " << phaseText(phaseOf(op))
                                 << ", before an operand is made in phase "
                                 << phaseText(phaseOf(producer));
    if (isView(op))
      continue;
    for (Value operand : op->getOperands()) {
      int64_t &last = lastUse[rootOf(operand)];
      last = std::max<int64_t>(last, i);
    }
  }
  for (Value result : step.getBody().front().getTerminator()->getOperands())
    lastUse[rootOf(result)] = std::numeric_limits<int64_t>::max();
  return success();
}

bool PlanBuilder::diesAt(Value value, Operation *op) const {
  auto it = lastUse.find(rootOf(value));
  return it == lastUse.end() || it->second <= position.lookup(op);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

int PlanBuilder::addBuffer(RankedTensorType type, rt::BufferKind kind,
                           std::string name) {
  rt::Buffer buffer;
  buffer.id = draft.plan.buffers.size();
  buffer.name = std::move(name);
  buffer.dtype = *dtypeOf(type.getElementType());
  buffer.shape.assign(type.getShape().begin(), type.getShape().end());
  buffer.bytes = rt::numElements(buffer.shape) * rt::sizeOf(buffer.dtype);
  buffer.kind = kind;
  buffer.stage = stage;
  draft.plan.buffers.push_back(std::move(buffer));
  return draft.plan.buffers.back().id;
}

/// Whether the optimizer reads `value` as a gradient, through collectives,
/// accumulation and views.
bool PlanBuilder::feedsOptimizer(Value value) {
  auto [it, isNew] = optimizerFeeds.try_emplace(value, false);
  if (!isNew)
    return it->second;
  bool feeds = false;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto kernel = dyn_cast<KernelOp>(user)) {
      BlockArgument argument =
          kernel.getBody().front().getArgument(use.getOperandNumber());
      for (Operation *inner : argument.getUsers()) {
        auto adamw = dyn_cast<AdamWOp>(inner);
        auto sgd = dyn_cast<SgdOp>(inner);
        feeds |= (adamw && adamw.getG() == argument) ||
                 (sgd && sgd.getG() == argument);
      }
    } else if (auto reduce = dyn_cast<AllReduceOp>(user)) {
      feeds |= feedsOptimizer(reduce.getOutputs()[use.getOperandNumber()]);
    } else if (isView(user) || isa<AccumulateOp>(user)) {
      feeds |= feedsOptimizer(user->getResult(0));
    }
  }
  optimizerFeeds[value] = feeds;
  return feeds;
}

rt::BufferKind PlanBuilder::kindOf(Value value) {
  Operation *op = value.getDefiningOp();
  bool isSum = isa<AccumulateOp>(op) || (matmulOf(op) && sumInPlace(op));
  if (isSum || feedsOptimizer(value))
    return rt::BufferKind::Gradient;
  if (isa<AllGatherOp, ReduceScatterOp, AllToAllOp, RingShiftOp, FetchOp>(op))
    return rt::BufferKind::Communication;
  bool isReceived = isa<RecvOp>(op);
  auto last = lastUse.find(value);
  bool crosses = last != lastUse.end() &&
                 last->second < static_cast<int64_t>(ops.size()) &&
                 phaseOf(ops[last->second]) != phaseOf(op);
  return crosses      ? rt::BufferKind::Activation
         : isReceived ? rt::BufferKind::Communication
                      : rt::BufferKind::Workspace;
}

std::string nameOfOp(Operation *op) {
  if (auto loc = dyn_cast<NameLoc>(op->getLoc()))
    return loc.getName().str();
  if (auto kernel = dyn_cast<KernelOp>(op)) {
    StringRef best = "elementwise";
    for (Operation &inner : kernel.getBody().front()) {
      StringRef name = inner.getName().stripDialect();
      if (!isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp, BroadcastOp,
               ReshapeOp, ConstantOp, YieldOp, IotaOp, MaskOp>(inner))
        best = name;
    }
    return best.str();
  }
  return op->getName().stripDialect().str();
}

Slot PlanBuilder::newSlot(Value value) {
  int buffer =
      addBuffer(typeOf(value), kindOf(value), nameOfOp(value.getDefiningOp()));
  return slots[value] = {buffer, StridedView::dense(typeOf(value).getShape())};
}

std::optional<int> PlanBuilder::denseBuffer(const Slot &slot,
                                            Type elementType) {
  StridedView view = slot.view;
  int64_t begin = std::exchange(view.offset, 0);
  if (!view.isDense())
    return std::nullopt;
  const rt::Buffer root = draft.plan.buffers[slot.buffer];
  int64_t count = rt::numElements({view.shape.begin(), view.shape.end()});
  if (begin == 0 && count == rt::numElements(root.shape))
    return slot.buffer;
  int id = addBuffer(RankedTensorType::get(view.shape, elementType), root.kind,
                     root.name + " (part)");
  draft.plan.buffers[id].viewOf = slot.buffer;
  draft.plan.buffers[id].offset = begin * rt::sizeOf(root.dtype);
  return id;
}

rt::Instruction &PlanBuilder::emit(int phase, rt::OpVariant op,
                                   std::string name, rt::Queue queue) {
  Item item;
  item.phase = phase;
  item.instruction.queue = queue;
  item.instruction.op = std::move(op);
  item.instruction.name = std::move(name);
  item.source = lowering;
  items.push_back(std::move(item));
  return items.back().instruction;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult PlanBuilder::lower(Operation *op) {
  if (isView(op))
    return lowerView(op);
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](KernelOp o) {
        return matmulOf(o) ? lowerEnded(o) : lowerKernel(o);
      })
      .Case([&](MatmulOp o) { return lowerMatmul(o); })
      .Case<ConvOp, ConvGradInputOp, ConvGradFilterOp>(
          [&](auto o) { return lowerConv(o); })
      .Case<AttentionOp, AttentionGradOp>(
          [&](auto o) { return lowerAttention(o); })
      .Case([&](ConstantOp o) { return lowerConstant(o); })
      .Case([&](AccumulateOp o) { return lowerAccumulate(o); })
      .Case([&](AllReduceOp o) { return lowerAllReduce(o); })
      .Case<AllGatherOp, ReduceScatterOp, AllToAllOp>(
          [&](auto o) { return lowerStacked(o, o.getAxes()); })
      .Case([&](SendOp o) { return lowerSend(o); })
      .Case([&](RecvOp o) { return lowerRecv(o); })
      .Case([&](RingShiftOp o) { return lowerRingShift(o); })
      .Case([&](FetchOp o) { return lowerFetch(o); })
      .Case([&](StoreOp o) { return lowerStore(o); })
      .Default([](Operation *other) {
        return other->emitOpError("cannot be executed");
      });
}

LogicalResult PlanBuilder::lowerView(Operation *op) {
  Slot from = slots.at(op->getOperand(0));
  ArrayRef<int64_t> shape = typeOf(op->getResult(0)).getShape();
  std::optional<StridedView> view;
  if (auto transpose = dyn_cast<TransposeOp>(op))
    view = from.view.transpose(transpose.getPerm());
  else if (auto slice = dyn_cast<SliceOp>(op))
    view = from.view.slice(slice.getOffsets(), slice.getStrides(), shape);
  else if (auto broadcast = dyn_cast<BroadcastOp>(op))
    view = from.view.broadcast(broadcast.getDims(), shape);
  else
    view = from.view.reshape(shape);
  if (!view)
    return op->emitOpError(
        "reads a strided view that it cannot regroup; the operand must not be "
        "marked dpc.view");
  slots[op->getResult(0)] = {from.buffer, *view};
  return success();
}

LogicalResult PlanBuilder::lowerConstant(ConstantOp op) {
  auto value = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!value)
    return op.emitOpError("has a value that is not stored densely");
  RankedTensorType type = typeOf(op.getResult());
  rt::Tensor tensor;
  tensor.name = "constant." + std::to_string(draft.plan.tensors.size());
  tensor.role = rt::TensorRole::Buffer;
  tensor.buffer = addBuffer(type, rt::BufferKind::Parameter, tensor.name);
  tensor.dtype = *dtypeOf(type.getElementType());
  tensor.globalShape = draft.plan.buffers[tensor.buffer].shape;
  tensor.layout = rt::Layout::replicated(tensor.globalShape);
  tensor.init = rt::InitKind::Source;
  int64_t offset = draft.constants.size();
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (integer && integer.getWidth() < 8) {
    bool isSigned = integer.getWidth() > 1 && !integer.isUnsigned();
    for (const APInt &number : value.getValues<APInt>())
      draft.constants.push_back(static_cast<char>(
          isSigned ? number.getSExtValue()
                   : static_cast<int64_t>(number.getZExtValue())));
  } else {
    ArrayRef<char> raw = value.getRawData();
    draft.constants.insert(draft.constants.end(), raw.begin(), raw.end());
  }
  int64_t bytes = draft.plan.buffers[tensor.buffer].bytes;
  if (bytes > 0)
    tensor.source =
        rt::TensorSource{"constants.bin", offset, bytes, tensor.dtype};
  else // An empty file would not be written.
    tensor.init = rt::InitKind::Zeros;
  draft.constants.resize((draft.constants.size() + 63) / 64 * 64);
  slots[op.getResult()] = {tensor.buffer, StridedView::dense(type.getShape())};
  draft.plan.tensors.push_back(std::move(tensor));
  return success();
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

LogicalResult PlanBuilder::build() {
  if (failed(checkLowerings()) || failed(checkTypes()) ||
      failed(checkLookups()) || failed(bindMesh()) || failed(bindSchedule()))
    return failure();
  wrapLooseOps();
  if (failed(orderOps()) || failed(bindArguments()))
    return failure();
  for (auto [i, op] : llvm::enumerate(step.getBody().front()))
    places[&op] = i;
  for (size_t i = 0; i < ops.size();) {
    std::vector<FlatKernel> group = groupAt(i);
    size_t count = group.size() > 1 ? group.size() : 1;
    lowering = {places.lookup(ops[i]), places.lookup(ops[i + count - 1])};
    if (failed(count > 1 ? lowerGroup(group) : lower(ops[i])))
      return failure();
    i += count;
  }
  lowering = {};
  if (failed(bindResults()))
    return failure();
  remarkOnUncoded();
  orderItems();
  findFrames();
  addEvents();
  placeBuffers();
  fillSchedule();
  completeEvents();
  return success();
}

/// What the plan says that no stage does.
static LogicalResult startDraft(SharedDraft &shared, func::FuncOp first,
                                const CodegenOptions &options) {
  std::string error;
  auto cpu = resolveTargetCpu(options.targetCpu, error);
  if (!cpu)
    return first.emitError(error);
  if (!options.targetGpu.empty() && !checkTargetGpu(options.targetGpu, error))
    return first.emitError(error);
  shared.draft.cpu = *cpu;
  shared.draft.targetGpu = options.targetGpu;
  shared.draft.emulatesGpu = options.emulatesGpu;
  shared.target = options.targetGpu.empty() ? KernelTarget::cpu
                  : options.emulatesGpu     ? KernelTarget::emulation
                                            : KernelTarget::ptx;
  rt::Plan &plan = shared.draft.plan;
  plan.targetGpu = options.targetGpu;
  plan.model = options.model;
  plan.trains = options.trains;
  plan.targetCpu = cpu->name;
  plan.cpuFeatures = cpu->features;
  plan.lrSchedule = options.lrSchedule;
  shared.draft.kernels = ModuleOp::create(first.getLoc());
  return success();
}

FailureOr<PlanDraft> buildPlan(ArrayRef<func::FuncOp> steps,
                               const CodegenOptions &options) {
  assert(!steps.empty() && "a plan has a stage");
  func::FuncOp first = steps.front();
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registerLoweringModels(registry);
  first->getContext()->appendDialectRegistry(registry);
  first->getContext()
      ->loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                    LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect>();
  SharedDraft shared;
  if (failed(startDraft(shared, first, options)))
    return failure();
  for (auto [stage, step] : llvm::enumerate(steps)) {
    OwningOpRef<func::FuncOp> copy(func::FuncOp(step).clone());
    if (failed(PlanBuilder(*copy, stage, shared).build()))
      return failure();
    int64_t stages = shared.draft.plan.mesh.stages();
    if (stages != static_cast<int64_t>(steps.size()))
      return first.emitError() << "is one of " << steps.size()
                               << " functions of a step; the mesh has "
                               << stages << " pipeline stages";
  }
  return std::move(shared.draft);
}

} // namespace dpc::codegen
