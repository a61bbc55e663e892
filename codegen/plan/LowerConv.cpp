//===- LowerConv.cpp - Convolutions and their gradients -------------------===//
#include "codegen/plan/StageDraft.h"

using namespace mlir;

namespace dpc::codegen {

namespace {

/// The values that are x, w and y of a convolution, one of which is computed.
struct Operands {
  rt::ConvKind kind;
  Value x, w, y;
};

std::vector<int64_t> shapeOf(Value value) {
  auto shape = tensorType(value).getShape();
  return {shape.begin(), shape.end()};
}

} // namespace

static Operands operandsOf(Operation *op) {
  Value first = op->getOperand(0), second = op->getOperand(1);
  Value result = op->getResult(0);
  if (isa<ConvGradInputOp>(op))
    return {rt::ConvKind::GradInput, result, second, first};
  if (isa<ConvGradFilterOp>(op))
    return {rt::ConvKind::GradFilter, second, result, first};
  return {rt::ConvKind::Forward, first, second, result};
}

LogicalResult lowerConv(StageDraft &s, Operation *op) {
  Type type = elementTypeOf(op->getResult(0));
  if (!type.isF32() && !type.isF64() && !type.isBF16() && !type.isF16())
    return op->emitOpError() << "of " << type << " cannot be executed; f32, "
                             << "f64, bf16 and f16 can";
  Operands operands = operandsOf(op);
  s.slots.make(op->getResult(0));
  rt::ConvOp call;
  call.kind = operands.kind;
  for (auto [value, id, shape] :
       {std::tuple<Value, int *, std::vector<int64_t> *>(operands.x, &call.x,
                                                         &call.xShape),
        {operands.w, &call.w, &call.wShape},
        {operands.y, &call.y, &call.yShape}}) {
    FailureOr<int> buffer = contiguousBuffer(s, op, value);
    if (failed(buffer))
      return failure();
    *id = *buffer;
    *shape = shapeOf(value);
  }
  auto list = [&](StringRef name) {
    ArrayRef<int64_t> values = op->getAttrOfType<DenseI64ArrayAttr>(name);
    return std::vector<int64_t>(values.begin(), values.end());
  };
  call.strides = list("strides");
  call.dilations = list("dilations");
  call.pads = list("pads");
  call.compute = *dtypeOf(type);
  s.list.emit(s.schedule.phaseOf(op), std::move(call), "conv").flops =
      cast<CostOpInterface>(op).getFlops();
  return success();
}

} // namespace dpc::codegen
