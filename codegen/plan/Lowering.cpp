//===- Lowering.cpp - The instructions of an op ---------------------------===//
#include "codegen/plan/StageDraft.h"
#include "ir/GemmEpilogues.h"
#include "ir/KernelRole.h"

using namespace mlir;

namespace dpc::codegen {

static LogicalResult lowerView(StageDraft &s, Operation *op) {
  Slot from = s.slots.at(op->getOperand(0));
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
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
        "reshapes a strided operand that has no strides in the new shape; the "
        "operand must not be marked dpc.view");
  s.slots.set(op->getResult(0), {from.buffer, *view});
  return success();
}

static LogicalResult lowerConstant(StageDraft &s, ConstantOp op) {
  auto value = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!value)
    return op.emitOpError("has a value without dense elements");
  RankedTensorType type = tensorType(op.getResult());
  std::vector<char> &constants = s.shared.draft.constants;
  rt::Tensor tensor;
  tensor.name = "constant." + std::to_string(s.plan.tensors.size());
  tensor.role = rt::TensorRole::Buffer;
  tensor.isUnsaved = true;
  tensor.buffer =
      s.slots.addBuffer(op.getResult(), rt::BufferKind::Parameter, tensor.name);
  tensor.dtype = *dtypeOf(type.getElementType());
  tensor.globalShape = s.plan.buffers[tensor.buffer].shape;
  tensor.layout = rt::Layout::replicated(tensor.globalShape);
  tensor.init = rt::InitKind::Source;
  int64_t offset = constants.size();
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (integer && integer.getWidth() < 8) {
    bool isSigned = integer.getWidth() > 1 && !integer.isUnsigned();
    for (const APInt &number : value.getValues<APInt>())
      constants.push_back(static_cast<char>(
          isSigned ? number.getSExtValue()
                   : static_cast<int64_t>(number.getZExtValue())));
  } else {
    ArrayRef<char> raw = value.getRawData();
    constants.insert(constants.end(), raw.begin(), raw.end());
  }
  int64_t bytes = s.plan.buffers[tensor.buffer].bytes;
  if (bytes > 0)
    tensor.source =
        rt::TensorSource{rt::kConstantsFile, offset, bytes, tensor.dtype};
  else // an empty constants.bin is not written
    tensor.init = rt::InitKind::Zeros;
  constants.resize((constants.size() + 63) / 64 * 64);
  s.plan.tensors.push_back(std::move(tensor));
  return success();
}

FailureOr<int> contiguousBuffer(StageDraft &s, Operation *op, Value value) {
  if (std::optional<int> buffer = s.slots.denseBuffer(value))
    return *buffer;
  return op->emitOpError("has a strided value that must be contiguous; it must "
                         "not be marked dpc.view");
}

LogicalResult lower(StageDraft &s, Operation *op) {
  if (isBufferView(op))
    return lowerView(s, op);
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](KernelOp o) {
        return matmulOf(o) ? lowerWithEpilogue(s, o) : lowerKernel(s, o);
      })
      .Case([&](MatmulOp o) { return lowerMatmul(s, o); })
      .Case<ExpertMatmulOp, ExpertMatmulGradOp>(
          [&](auto o) { return lowerExpertMatmul(s, o); })
      .Case([&](ExpertTilesOp o) { return lowerExpertTiles(s, o); })
      .Case<ConvOp, ConvGradInputOp, ConvGradFilterOp>(
          [&](auto o) { return lowerConv(s, o); })
      .Case<AttentionOp, AttentionGradOp>(
          [&](auto o) { return lowerAttention(s, o); })
      .Case([&](ConstantOp o) { return lowerConstant(s, o); })
      .Case([&](AccumulateOp o) { return lowerAccumulate(s, o); })
      .Case([&](AllReduceOp o) { return lowerAllReduce(s, o); })
      .Case<AllGatherOp, ReduceScatterOp, AllToAllOp>(
          [&](auto o) { return lowerStacked(s, o, o.getAxes()); })
      .Case([&](SendOp o) { return lowerSend(s, o); })
      .Case([&](RecvOp o) { return lowerRecv(s, o); })
      .Case([&](RingShiftOp o) { return lowerRingShift(s, o); })
      .Case([&](FetchOp o) { return lowerFetch(s, o); })
      .Case([&](StoreOp o) { return lowerStore(s, o); })
      .Default([](Operation *other) {
        return other->emitOpError("cannot be executed");
      });
}

LogicalResult lowerAll(StageDraft &s) {
  DenseMap<Operation *, int64_t> places; // see SourceOps
  for (auto [i, op] : llvm::enumerate(s.step.getBody().front()))
    places[&op] = i;
  ArrayRef<Operation *> ops = s.buffers.ops;
  for (size_t i = 0; i < ops.size();) {
    std::vector<FlatKernel> group = groupAt(s, i);
    size_t count = std::max<size_t>(1, group.size());
    s.list.source = {places.lookup(ops[i]), places.lookup(ops[i + count - 1])};
    if (failed(count > 1 ? lowerGroup(s, group) : lower(s, ops[i])))
      return failure();
    i += count;
  }
  s.list.source = {};
  return success();
}

} // namespace dpc::codegen
