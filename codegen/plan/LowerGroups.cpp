//===- LowerGroups.cpp - One launch for kernels with equal bodies ---------===//
//
// An optimizer updates hundreds of tensors, and most are so small that a launch
// takes longer than its work. On GPUs, consecutive elementwise kernels become
// one launch if they differ only in buffers and sizes (GpuGroups.cpp). The
// maximum number of parameters limits the number of kernels in a launch.
//
//===----------------------------------------------------------------------===//
#include "codegen/kernel/BodyText.h"
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/StageDraft.h"

using namespace mlir;

namespace dpc::codegen {

/// True if elementwise on scalars and on tensors of one shape: `shape`.
static bool isFlat(KernelOp op, ArrayRef<int64_t> &shape) {
  shape = shapeOf(op.getOutputs().front());
  auto fits = [&](Value value) {
    return tensorType(value).getRank() == 0 || shapeOf(value) == shape;
  };
  for (Operation &inner : op.getBody().front()) {
    bool isElementwise = isa<AdamWOp, SgdOp, UnaryOp, BinaryOp, CompareOp,
                             SelectOp, ConvertOp, BroadcastOp, YieldOp>(inner);
    if (auto broadcast = dyn_cast<BroadcastOp>(inner))
      isElementwise = tensorType(broadcast.getX()).getRank() == 0;
    if (!isElementwise || !scalarsOf(&inner).empty() ||
        !llvm::all_of(inner.getOperands(), fits) ||
        !llvm::all_of(inner.getResults(), fits))
      return false;
  }
  return !shape.empty() && llvm::all_of(op.getOutputs(), [&](Value output) {
    return shapeOf(output) == shape;
  });
}

/// Returns a text that is equal for kernels that differ only in shapes.
static std::string flatText(KernelOp op) {
  return bodyText(op, [](Value value, llvm::raw_ostream &out) {
    out << (tensorType(value).getRank() == 0 ? "scalar " : "")
        << elementTypeOf(value);
  });
}

static std::optional<FlatKernel> flatKernel(const StageDraft &s, KernelOp op) {
  FlatKernel flat;
  ArrayRef<int64_t> shape;
  if (!op || s.shared.target == KernelTarget::cpu ||
      s.schedule.inLoop(s.schedule.phaseOf(op)) || !isFlat(op, shape))
    return {};
  flat.op = op;
  flat.phase = s.schedule.phaseOf(op);
  flat.elements = tensorType(op.getOutputs().front()).getNumElements();
  for (Value input : op.getInputs()) {
    const Slot *slot = s.slots.find(input);
    if (!slot || !slot->view.isDense())
      return {};
    bool isScalar = tensorType(input).getRank() == 0;
    (isScalar ? flat.scalars : flat.buffers).push_back(slot->buffer);
  }
  for (OpResult result : op.getOutputs()) {
    flat.aliases.push_back(tiedInput(s, result));
    if (flat.aliases.back() >= 0)
      flat.written.push_back(
          s.slots.at(op.getInputs()[flat.aliases.back()]).buffer);
  }
  // If a written buffer is also another operand, the operand must be read
  // before the write. Groups do not ensure this order.
  for (int buffer : flat.written)
    if (llvm::count(flat.buffers, buffer) > 1)
      return {};
  flat.text = flatText(op);
  return flat;
}

std::vector<FlatKernel> groupAt(const StageDraft &s, size_t first) {
  constexpr size_t kMaxParameters = 500; // of 512; see createFunction()
  std::vector<FlatKernel> group;
  DenseSet<int> touched, written;
  auto meets = [](ArrayRef<int> buffers, const DenseSet<int> &others) {
    return llvm::any_of(buffers, [&](int id) { return others.contains(id); });
  };
  size_t parameters = 0;
  for (size_t i = first; i < s.buffers.ops.size(); ++i) {
    auto next = flatKernel(s, dyn_cast<KernelOp>(s.buffers.ops[i]));
    if (!next)
      break;
    size_t own = next->buffers.size() + next->aliases.size();
    if (group.empty())
      parameters = next->scalars.size();
    else if (const FlatKernel &one = group.front();
             next->text != one.text || next->phase != one.phase ||
             next->aliases != one.aliases || next->scalars != one.scalars)
      break;
    // Kernels of a launch run concurrently, so none may write what another one
    // reads or writes.
    if (parameters + own > kMaxParameters || meets(next->buffers, written) ||
        meets(next->scalars, written) || meets(next->written, touched))
      break;
    parameters += own;
    touched.insert_range(next->buffers);
    touched.insert_range(next->scalars);
    written.insert_range(next->written);
    group.push_back(std::move(*next));
  }
  return group;
}

// Buffers are the shared scalars, then operands and results of each kernel.
LogicalResult lowerGroup(StageDraft &s, ArrayRef<FlatKernel> group) {
  const FlatKernel &first = group.front();
  KernelSpec spec;
  spec.op = first.op;
  spec.aliases.assign(first.aliases.begin(), first.aliases.end());
  rt::KernelOp call;
  call.buffers.assign(first.scalars.begin(), first.scalars.end());
  double flops = 0;
  for (const FlatKernel &flat : group) {
    spec.groupSizes.push_back(flat.elements);
    call.buffers.insert(call.buffers.end(), flat.buffers.begin(),
                        flat.buffers.end());
    KernelOp op = flat.op;
    for (auto [result, tied] : llvm::zip_equal(op->getResults(), flat.aliases))
      addResult(s, result, tied, call);
    flops += cast<CostOpInterface>(op.getOperation()).getFlops();
  }
  return emitCalls(s, spec, std::move(call),
                   {first.phase, nameOfOp(first.op), flops});
}

} // namespace dpc::codegen
