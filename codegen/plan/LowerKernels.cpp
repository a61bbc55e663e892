//===- LowerKernels.cpp - Kernels and the instructions that call them -----===//
#include "codegen/kernel/BodyText.h"
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/StageDraft.h"

using namespace mlir;

namespace dpc::codegen {

int64_t tiedInput(const StageDraft &s, OpResult result) {
  OpOperand *old = s.buffers.reusedOperand(result);
  return old && s.slots.at(old->get()).view.isDense() ? old->getOperandNumber()
                                                      : int64_t(-1);
}

/// Returns a text that is equal for kernels that can share code.
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

const EmittedKernel *kernelFor(SharedDraft &shared, const KernelSpec &spec) {
  auto [it, isNew] = shared.kernels.try_emplace(textOf(spec));
  if (!isNew)
    return &it->second;
  KernelOp op = spec.op;
  std::string symbol =
      "k" + std::to_string(shared.kernels.size() - 1) + "_" + nameOfOp(op);
  for (char &c : symbol)
    if (!llvm::isAlnum(c))
      c = '_';
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(shared.draft.kernels->getBody());
  FailureOr<EmittedKernel> kernel =
      emitKernel(builder, spec, symbol, shared.target);
  if (failed(kernel))
    return nullptr;
  if (shared.target != KernelTarget::cpu)
    for (const KernelStage &stage : kernel->stages)
      shared.draft.plan.kernelLaunches[stage.symbol] = stage.launch;
  it->second = std::move(*kernel);
  return &it->second;
}

// If a kernel has several stages, they pass data through a scratch buffer.
LogicalResult emitCalls(StageDraft &s, const KernelSpec &spec,
                        rt::KernelOp call, KernelCall how) {
  const EmittedKernel *kernel = kernelFor(s.shared, spec);
  if (!kernel)
    return failure();
  if (kernel->scratchBytes > 0) {
    call.writes.push_back(call.buffers.size());
    call.buffers.push_back(s.slots.addWorkspace(
        s.step.getContext(), kernel->scratchBytes, how.name + " (scratch)"));
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
    s.list.emit(how.phase, std::move(launch), how.name).flops =
        std::exchange(how.flops, 0);
  }
  return success();
}

const Slot &addResult(StageDraft &s, OpResult result, int64_t tied,
                      rt::KernelOp &call) {
  Slot slot = tied >= 0 ? s.slots.at(result.getOwner()->getOperand(tied))
                        : s.slots.make(result);
  slot.view = StridedView::dense(shapeOf(result));
  s.slots.set(result, slot);
  call.writes.push_back(call.buffers.size());
  call.buffers.push_back(slot.buffer);
  return s.slots.at(result);
}

LogicalResult lowerKernel(StageDraft &s, KernelOp op) {
  KernelSpec spec;
  spec.op = op;
  rt::KernelOp call;
  for (Value input : op.getInputs()) {
    spec.inputs.push_back(s.slots.at(input).view);
    call.buffers.push_back(s.slots.at(input).buffer);
  }
  for (OpResult result : op.getOutputs()) {
    int64_t tied = tiedInput(s, result);
    spec.aliases.push_back(tied);
    spec.outputs.push_back(addResult(s, result, tied, call).view);
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
  return emitCalls(s, spec, std::move(call),
                   {s.schedule.phaseOf(op), nameOfOp(op), flops});
}

Slot clearedSlot(StageDraft &s, Value value) {
  Slot sum = s.slots.make(value);
  s.list.items.insert(
      s.list.items.begin(),
      makeItem(s.schedule.setup(), rt::FillOp{sum.buffer, 0}, "zero"));
  return sum;
}

// sum += x.
LogicalResult lowerAccumulate(StageDraft &s, AccumulateOp op) {
  if (op.getKind() != ReduceKind::sum)
    return op.emitError()
           << "needs the " << stringifyReduceKind(op.getKind())
           << " over all samples of a rank, of which micro-batches can only "
              "add up sums; plan with one micro-batch a step (a --strategy "
              "without micro_batch)";
  Slot sum = clearedSlot(s, op.getResult()), x = s.slots.at(op.getX());
  // Emits the addition as a kernel, which is erased afterwards.
  OpBuilder builder(op);
  Type type = op.getResult().getType();
  KernelOp kernel = createKernel(builder, op.getLoc(), {op.getX(), op.getX()},
                                 type, [&](ValueRange terms) {
                                   Value added = BinaryOp::create(
                                       builder, op.getLoc(), type,
                                       BinaryKind::add, terms[0], terms[1]);
                                   return SmallVector<Value>{added};
                                 });
  KernelSpec spec{kernel, {sum.view, x.view}, {sum.view}, {0}};
  rt::KernelOp call;
  call.buffers = {sum.buffer, x.buffer, sum.buffer};
  call.writes = {2};
  LogicalResult emitted = emitCalls(s, spec, std::move(call),
                                    {s.schedule.phaseOf(op), "accumulate"});
  kernel.erase();
  return emitted;
}

} // namespace dpc::codegen
