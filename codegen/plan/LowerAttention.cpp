//===- LowerAttention.cpp - Attention as one instruction ------------------===//
//
// Lowers attention that dpc-expand-attention did not expand. Operands are
// strided views, so transposes between [B, T, H, D] and [B, H, T, D] cost
// nothing. dpc.out_perms states the dimension order in which later ops expect
// the results.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/StageDraft.h"
#include "ir/Attributes.h"

using namespace mlir;

namespace dpc::codegen {

static rt::AttentionTensor tensorOf(const Slot &slot) {
  rt::AttentionTensor tensor;
  tensor.buffer = slot.buffer;
  tensor.offset = slot.view.offset;
  tensor.strides.assign(slot.view.strides.begin(), slot.view.strides.end() - 1);
  return tensor;
}

static rt::AttentionShape shapeOf(Operation *op) {
  auto extents = [&](unsigned operand) {
    return tensorType(op->getOperand(operand)).getShape();
  };
  ArrayRef<int64_t> q = extents(0), k = extents(1), v = extents(2);
  rt::AttentionShape shape;
  shape.batch = q[0];
  shape.heads = q[1];
  shape.groups = k[1];
  shape.queries = q[2];
  shape.keys = k[2];
  shape.depth = q[3];
  shape.valueDepth = v[3];
  shape.scale = op->getAttrOfType<FloatAttr>("scale").getValueAsDouble();
  shape.causal = op->hasAttr("causal");
  if (auto window = op->getAttrOfType<IntegerAttr>("window"))
    shape.window = window.getInt();
  shape.compute = *dtypeOf(elementTypeOf(op->getOperand(0)));
  return shape;
}

LogicalResult lowerAttention(StageDraft &s, Operation *op) {
  bool isMore = op->getNumOperands() != (isa<AttentionOp>(op) ? 3U : 6U);
  Type type = elementTypeOf(op->getOperand(0));
  if (isMore || (!type.isF32() && !type.isBF16() && !type.isF16()))
    return op->emitOpError("of ")
           << type << (isMore ? " with a mask or sinks" : "")
           << " cannot be executed; expected f32, bf16 or f16 without a mask "
              "and sinks (dpc-expand-attention expands other attention)";
  auto operand = [&](unsigned i) {
    return tensorOf(s.slots.at(op->getOperand(i)));
  };
  for (Value value : op->getOperands())
    if (tensorType(value).getRank() == 4 &&
        tensorType(value).getDimSize(3) > 1 &&
        s.slots.at(value).view.strides.back() != 1)
      return op->emitOpError("has an operand with a strided last dimension; "
                             "the operand must not be marked dpc.view");
  auto perms = op->getAttrOfType<ArrayAttr>(attr::kOutPerms);
  SmallVector<Slot> results;
  for (OpResult result : op->getResults()) {
    ArrayRef<int64_t> perm;
    if (perms)
      perm =
          cast<DenseI64ArrayAttr>(perms[result.getResultNumber()]).asArrayRef();
    results.push_back(perm.empty() ? s.slots.make(result)
                                   : s.slots.makePermuted(result, perm));
  }
  double flops = cast<CostOpInterface>(op).getFlops();
  if (isa<AttentionOp>(op)) {
    rt::AttentionOp call{shapeOf(op), operand(0),           operand(1),
                         operand(2),  tensorOf(results[0]), results[1].buffer};
    s.list.emit(s.schedule.phaseOf(op), std::move(call), "attention").flops =
        flops;
    return success();
  }
  FailureOr<int> lse = contiguousBuffer(s, op, op->getOperand(4));
  if (failed(lse))
    return failure();
  rt::AttentionGradOp call{shapeOf(op),
                           operand(0),
                           operand(1),
                           operand(2),
                           operand(3),
                           operand(5),
                           *lse,
                           tensorOf(results[0]),
                           tensorOf(results[1]),
                           tensorOf(results[2])};
  if (auto bytes = op->getAttrOfType<IntegerAttr>(attr::kWorkspace))
    call.workspace = s.slots.addWorkspace(op->getContext(), bytes.getInt(),
                                          "workspace of attention");
  s.list.emit(s.schedule.phaseOf(op), std::move(call), "attention gradient")
      .flops = flops;
  return success();
}

} // namespace dpc::codegen
