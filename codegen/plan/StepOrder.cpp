//===- StepOrder.cpp - The ops of a step in execution order ---------------===//
#include "codegen/plan/StepOrder.h"
#include "codegen/kernel/DTypes.h"
#include "codegen/kernel/KernelScalars.h"
#include "ir/KernelRole.h"

using namespace mlir;

namespace dpc::codegen {

/// Returns how `op` becomes instructions, or nullopt if it has no lowering.
/// After checkLowering, only terminators have none.
static std::optional<LoweringKind> kindOfLowering(Operation *op) {
  auto lowering = dyn_cast<LoweringOpInterface>(op);
  if (!lowering)
    return std::nullopt;
  return lowering.getLoweringKind();
}

/// Whether `op` becomes instructions without a kernel around it.
static bool standsAlone(Operation *op) {
  std::optional<LoweringKind> kind = kindOfLowering(op);
  return isa<KernelOp, AccumulateOp>(op) || kind == LoweringKind::matmul ||
         kind == LoweringKind::collective || kind == LoweringKind::transfer ||
         op->hasTrait<mlir::OpTrait::IsTerminator>();
}

static bool isStoredConstant(Operation *op) {
  auto constant = dyn_cast<ConstantOp>(op);
  return constant && !constant.getValue().isSplat();
}

KernelOp createKernel(OpBuilder &builder, Location loc, ValueRange operands,
                      TypeRange types,
                      llvm::function_ref<SmallVector<Value>(ValueRange)> emit) {
  OperationState state(loc, KernelOp::getOperationName());
  state.addOperands(operands);
  state.addTypes(types);
  Block *body = new Block;
  state.addRegion()->push_back(body);
  auto kernel = cast<KernelOp>(builder.create(state));
  for (Value operand : operands)
    body->addArgument(operand.getType(), loc);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(body);
  SmallVector<Value> results = emit(body->getArguments());
  YieldOp::create(builder, loc, results);
  return kernel;
}

KernelOp wrap(Operation *op) {
  OpBuilder builder(op);
  KernelOp kernel =
      createKernel(builder, op->getLoc(), op->getOperands(),
                   op->getResultTypes(), [&](ValueRange arguments) {
                     // An operand that appears twice has two equal arguments.
                     IRMapping map;
                     map.map(op->getOperands(), arguments);
                     Operation *inner = builder.clone(*op, map);
                     return llvm::to_vector_of<Value>(inner->getResults());
                   });
  copyAttributes(op, kernel, {attr::kPhase, attr::kChunk});
  op->replaceAllUsesWith(kernel->getResults());
  op->erase();
  return kernel;
}

static void wrapLooseOps(Block &block) {
  SmallVector<Operation *> loose;
  for (Operation &op : block) {
    if (auto tiles = dyn_cast<ExpertTilesOp>(op))
      wrapLooseOps(tiles.getBody().front());
    if (!standsAlone(&op) && !isBufferView(&op) && !isStoredConstant(&op))
      loose.push_back(&op);
  }
  llvm::for_each(loose, [&](Operation *op) { wrap(op); });
}

void wrapLooseOps(func::FuncOp step) { wrapLooseOps(step.getBody().front()); }

static LogicalResult checkLowering(Operation *op) {
  if (isa<func::FuncOp>(op) || op->hasTrait<mlir::OpTrait::IsTerminator>() ||
      kindOfLowering(op))
    return success();
  return op->emitOpError("cannot be executed: it has no lowering");
}

static LogicalResult checkTypes(Operation *op) {
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                llvm::to_vector(op->getResultTypes())))
    if (auto tensor = dyn_cast<RankedTensorType>(type);
        tensor && !dtypeOf(tensor.getElementType()))
      return op->emitError() << "element type " << tensor.getElementType()
                             << " can be planned but not executed; expected "
                                "f64, f32, f16, bf16, f8E4M3FN[UZ], "
                                "f8E5M2[FNUZ], f4E2M1FN, or an integer of at "
                                "most 64 bits";
  return success();
}

static LogicalResult checkLookup(Operation *op) {
  if (!looksUpInFactors(op))
    return success();
  return op->emitOpError("looks up in a dimension that is split by factors; "
                         "only a dimension that is split as a whole can be "
                         "executed");
}

LogicalResult checkStep(func::FuncOp step) {
  for (auto *check : {checkLowering, checkTypes, checkLookup})
    if (step.walk([&](Operation *op) { return WalkResult(check(op)); })
            .wasInterrupted())
      return failure();
  return success();
}

FailureOr<StepBuffers> orderOf(func::FuncOp step, const StepSchedule &schedule,
                               llvm::function_ref<std::string(int)> phaseText) {
  std::vector<SmallVector<Operation *>> byPhase(schedule.phases.size());
  for (Operation &op : step.getBody().front().without_terminator()) {
    int phase = schedule.phaseOf(&op);
    if (phase < 0)
      return op.emitOpError("has a phase and chunk that are not in the "
                            "dpc.schedule of its function");
    byPhase[phase].push_back(&op);
  }
  SmallVector<Operation *> ops;
  for (ArrayRef<Operation *> list : byPhase)
    llvm::append_range(ops, list);
  StepBuffers buffers(step, std::move(ops));
  for (Operation *op : buffers.ops)
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          producer &&
          buffers.position.lookup(producer) >= buffers.position.lookup(op))
        return op->emitOpError()
               << "runs in phase " << phaseText(schedule.phaseOf(op))
               << ", before an operand is computed in phase "
               << phaseText(schedule.phaseOf(producer));
  return buffers;
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

} // namespace dpc::codegen
