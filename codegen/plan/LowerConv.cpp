//===- LowerConv.cpp - Convolutions and their gradients -------------------===//
#include "codegen/plan/StageDraft.h"

using namespace mlir;

namespace dpc::codegen {

LogicalResult lowerConv(StageDraft &s, Operation *op) {
  Type type = elementTypeOf(op->getResult(0));
  if (!type.isF32() && !type.isF64() && !type.isBF16() && !type.isF16())
    return op->emitOpError() << "of " << type << " cannot be executed; f32, "
                             << "f64, bf16 and f16 can";
  rt::ConvOp call;
  Value x = op->getOperand(0), w = op->getOperand(1), y = op->getResult(0);
  if (isa<ConvGradInputOp>(op)) {
    call.kind = rt::ConvKind::GradInput;
    std::swap(x, y);
  } else if (isa<ConvGradFilterOp>(op)) {
    call.kind = rt::ConvKind::GradFilter;
    std::tie(x, w, y) = std::tuple(w, y, x);
  }
  s.slots.make(op->getResult(0));
  auto bind = [&](Value value, int &id, std::vector<int64_t> &shape) {
    FailureOr<int> buffer = contiguousBuffer(s, op, value);
    id = buffer.value_or(-1);
    shape = shapeOf(value).vec();
    return LogicalResult(buffer);
  };
  if (failed(bind(x, call.x, call.xShape)) ||
      failed(bind(w, call.w, call.wShape)) ||
      failed(bind(y, call.y, call.yShape)))
    return failure();
  auto list = [&](StringRef name) {
    return op->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef().vec();
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
