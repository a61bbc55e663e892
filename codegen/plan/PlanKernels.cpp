//===- PlanKernels.cpp - Kernels and the instructions that call them ------===//
#include "codegen/kernel/BodyText.h"
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// The operand whose memory result `result` takes over, or -1.
int64_t PlanBuilder::tiedInput(KernelOp op, unsigned result) {
  Operation *yield = op.getBody().front().getTerminator();
  Value value = yield->getOperand(result);
  Operation *inner = value.getDefiningOp();
  if (!inner || !isa<AdamWOp, SgdOp>(inner))
    return -1;
  // p, m, v and p, buffer come first and in the order of the results.
  Value old = inner->getOperand(cast<OpResult>(value).getResultNumber());
  auto argument = dyn_cast<BlockArgument>(old);
  if (!argument)
    return -1;
  Value operand = op.getInputs()[argument.getArgNumber()];
  return slots[operand].view.isDense() && diesAt(operand, op)
             ? argument.getArgNumber()
             : -1;
}

/// Text that is equal for kernels that can share code.
static std::string textOf(const KernelSpec &spec) {
  std::string text = bodyText(spec.op, [](Value value, llvm::raw_ostream &out) {
    out << value.getType();
  });
  llvm::raw_string_ostream out(text);
  auto print = [&](const StridedView &view) {
    out << "\n@" << view.offset;
    for (int64_t stride : view.strides)
      out << ' ' << stride;
  };
  llvm::for_each(spec.inputs, print);
  llvm::for_each(spec.outputs, print);
  for (int64_t alias : spec.aliases)
    out << " =" << alias;
  if (spec.overlaps)
    out << " overlaps";
  if (!spec.groupSizes.empty())
    out << "\ngroup";
  for (int64_t size : spec.groupSizes)
    out << ' ' << size;
  return text;
}

/// The code for `spec`, or null after a diagnostic.
const EmittedKernel *PlanBuilder::kernelFor(const KernelSpec &spec) {
  auto [it, isNew] = shared.kernels.try_emplace(textOf(spec));
  if (!isNew)
    return &it->second;
  KernelOp op = spec.op;
  std::string symbol =
      "k" + std::to_string(shared.kernels.size() - 1) + "_" + nameOfOp(op);
  for (char &c : symbol)
    if (!llvm::isAlnum(c))
      c = '_';
  OpBuilder builder(step.getContext());
  builder.setInsertionPointToEnd(draft.kernels->getBody());
  FailureOr<EmittedKernel> kernel =
      emitKernel(builder, spec, symbol, shared.target);
  if (failed(kernel))
    return nullptr;
  if (shared.target != KernelTarget::cpu)
    for (const KernelStage &stage : kernel->stages)
      draft.plan.kernelLaunches[stage.symbol] = stage.launch;
  it->second = std::move(*kernel);
  return &it->second;
}

/// An instruction for each stage of a kernel. What stages pass on lies in a
/// buffer of its own.
LogicalResult PlanBuilder::emitCalls(const KernelSpec &spec, rt::KernelOp call,
                                     KernelCall how) {
  const EmittedKernel *kernel = kernelFor(spec);
  if (!kernel)
    return failure();
  if (kernel->scratchBytes > 0) {
    auto type = RankedTensorType::get(kernel->scratchBytes,
                                      IntegerType::get(step.getContext(), 8));
    call.writes.push_back(call.buffers.size());
    call.buffers.push_back(
        addBuffer(type, rt::BufferKind::Workspace, how.name + " (scratch)"));
  }
  for (const KernelStage &stage : kernel->stages) {
    rt::KernelOp launch = call;
    launch.symbol = stage.symbol;
    if (kernel->stages.size() > 1) {
      launch.writes = stage.writes;
      launch.buffers.clear();
      for (int position : stage.buffers)
        launch.buffers.push_back(call.buffers[position]);
    }
    emit(how.phase, std::move(launch), how.name).flops =
        std::exchange(how.flops, 0);
  }
  return success();
}

LogicalResult PlanBuilder::lowerKernel(KernelOp op) {
  KernelSpec spec;
  spec.op = op;
  rt::KernelOp call;
  for (Value input : op.getInputs()) {
    spec.inputs.push_back(slots[input].view);
    call.buffers.push_back(slots[input].buffer);
  }
  for (auto [i, result] : llvm::enumerate(op.getOutputs())) {
    int64_t tied = tiedInput(op, i);
    spec.aliases.push_back(tied);
    Slot slot = tied >= 0 ? slots.at(op.getInputs()[tied]) : newSlot(result);
    slot.view = StridedView::dense(typeOf(result).getShape());
    slots[result] = slot;
    spec.outputs.push_back(slot.view);
    call.writes.push_back(call.buffers.size());
    call.buffers.push_back(slot.buffer);
  }
  for (int64_t tied : spec.aliases)
    spec.overlaps |=
        tied >= 0 && std::count(call.buffers.begin(),
                                call.buffers.begin() + spec.inputs.size(),
                                call.buffers[tied]) > 1;
  for (Operation &inner : op.getBody().front())
    for (const rt::ScalarExpr &scalar : scalarsOf(&inner))
      call.scalars.push_back(scalar);
  double flops = cast<CostOpInterface>(op.getOperation()).getFlops();
  return emitCalls(spec, std::move(call), {phaseOf(op), nameOfOp(op), flops});
}

/// A buffer for a sum, which the setup phase clears.
Slot PlanBuilder::clearedSlot(Value value) {
  Slot sum = newSlot(value);
  Item clear;
  clear.phase = setupPhase();
  clear.instruction.op = rt::FillOp{sum.buffer, 0};
  clear.instruction.name = "zero";
  items.insert(items.begin(), std::move(clear));
  return sum;
}

// sum += x.
LogicalResult PlanBuilder::lowerAccumulate(AccumulateOp op) {
  if (op.getKind() != ReduceKind::sum)
    return op.emitOpError("accumulates other than sums cannot be executed");
  Slot sum = clearedSlot(op.getResult()), x = slots[op.getX()];
  // The body of an addition, not part of the function.
  OpBuilder builder(op);
  OperationState state(op.getLoc(), KernelOp::getOperationName());
  state.addOperands({op.getX(), op.getX()});
  state.addTypes(op.getResult().getType());
  Block *body = new Block;
  state.addRegion()->push_back(body);
  auto kernel = cast<KernelOp>(builder.create(state));
  for (int i = 0; i < 2; ++i)
    body->addArgument(op.getX().getType(), op.getLoc());
  builder.setInsertionPointToEnd(body);
  Value added = BinaryOp::create(builder, op.getLoc(), op.getResult().getType(),
                                 BinaryKind::add, body->getArgument(0),
                                 body->getArgument(1));
  YieldOp::create(builder, op.getLoc(), added);
  KernelSpec spec{kernel, {sum.view, x.view}, {sum.view}, {0}};
  rt::KernelOp call;
  call.buffers = {sum.buffer, x.buffer, sum.buffer};
  call.writes = {2};
  LogicalResult emitted =
      emitCalls(spec, std::move(call), {phaseOf(op), "accumulate"});
  kernel.erase();
  return emitted;
}

} // namespace dpc::codegen
