//===- PlanMatmul.cpp - Matrix products over strided operands -------------===//
#include "codegen/plan/PlanBuilder.h"
#include "ir/GemmEpilogues.h"
#include "ir/GemmLayout.h"

using namespace mlir;

namespace dpc::codegen {

/// One instruction per point of all but the two innermost batch dimensions.
static void emitBatched(rt::MatmulOp op, ArrayRef<GemmLayout::Batch> batches,
                        SmallVector<rt::MatmulOp> &out) {
  if (batches.size() > 2) {
    for (int64_t i = 0; i < batches.front().size; ++i) {
      emitBatched(op, batches.drop_front(), out);
      op.aOffset += batches.front().a;
      op.bOffset += batches.front().b;
      op.cOffset += batches.front().c;
    }
    return;
  }
  if (!batches.empty()) {
    const GemmLayout::Batch &inner = batches.back();
    op.batch2 = inner.size;
    op.stride2A = inner.a;
    op.stride2B = inner.b;
    op.stride2C = inner.c;
  }
  if (batches.size() == 2) {
    const GemmLayout::Batch &outer = batches.front();
    op.batch = outer.size;
    op.strideA = outer.a;
    op.strideB = outer.b;
    op.strideC = outer.c;
  }
  out.push_back(op);
}

/// A new slot whose memory holds `value` transposed by `order`; the value is a
/// view of it.
Slot PlanBuilder::permutedSlot(Value value, ArrayRef<int64_t> order) {
  Slot slot = newSlot(value);
  SmallVector<int64_t> shape, inverse(order.size());
  for (auto [i, d] : llvm::enumerate(order)) {
    shape.push_back(slot.view.shape[d]);
    inverse[d] = i;
  }
  slot.view = StridedView::dense(shape).transpose(inverse);
  return slots[value] = slot;
}

/// The calls that compute `op`, of `a` and `b`, into a value that lies as `c`
/// says; without the buffer of C.
LogicalResult PlanBuilder::callsOf(MatmulOp op, Value a, Value b,
                                   const StridedView &c,
                                   SmallVector<rt::MatmulOp> &calls) {
  Type type = op.getA().getType().getElementType();
  std::optional<rt::DType> compute = dtypeOf(type);
  if (!compute || !rt::isFloat(*compute))
    return op.emitOpError() << "of " << type << " cannot be executed; f32, "
                            << "f64, bf16 and f16 can";
  Slot left = slots[a], right = slots[b];
  auto layout = layOutGemm(left.view, right.view, c, op.getTa(), op.getTb());
  if (!layout)
    return op.emitOpError("has an operand whose rows and columns are both "
                          "strided; it must not be marked dpc.view");
  rt::MatmulOp call;
  call.a = left.buffer;
  call.b = right.buffer;
  call.aOffset = left.view.offset;
  call.bOffset = right.view.offset;
  call.m = layout->m;
  call.n = layout->n;
  call.k = layout->k;
  call.transA = layout->transA;
  call.transB = layout->transB;
  call.lda = layout->lda;
  call.ldb = layout->ldb;
  call.ldc = layout->ldc;
  call.compute = *compute;
  emitBatched(call, layout->batches, calls);
  return success();
}

/// The buffer that a product writes; where it adds to a sum, that of the sum.
Slot PlanBuilder::productSlot(Operation *op) {
  Value result = op->getResult(0);
  return sumInPlace(op) ? clearedSlot(result) : newSlot(result);
}

double productFlops(Operation *op) {
  double flops = cast<CostOpInterface>(op).getFlops();
  AccumulateOp sum = sumInPlace(op);
  return sum ? flops + cast<CostOpInterface>(sum.getOperation()).getFlops()
             : flops;
}

LogicalResult PlanBuilder::lowerMatmul(MatmulOp op) {
  auto perm = op->getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm);
  Slot c =
      perm ? permutedSlot(op.getResult(), perm.asArrayRef()) : productSlot(op);
  SmallVector<rt::MatmulOp> calls;
  if (failed(callsOf(op, op.getA(), op.getB(), c.view, calls)))
    return failure();
  double flops = productFlops(op);
  for (rt::MatmulOp &part : calls) {
    part.c = c.buffer;
    part.beta = sumInPlace(op) ? 1 : 0;
    if (calls.size() == 1)
      codeFactors(op, part);
    emit(phaseOf(op), part, nameOfOp(op)).flops = flops / calls.size();
  }
  return success();
}

} // namespace dpc::codegen
