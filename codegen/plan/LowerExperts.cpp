//===- LowerExperts.cpp - Products of rows with their experts -------------===//
#include "codegen/plan/StageDraft.h"

#include "codegen/kernel/KernelScalars.h"
#include "runtime/plan/PlanExperts.h"

using namespace mlir;

namespace dpc::codegen {

/// Returns how many consecutive ids share a row of `rows`.
static int64_t sharesOf(Value rows, int64_t ids) {
  int64_t count = llvm::product_of(tensorType(rows).getShape().drop_back());
  return count == 0 ? 1 : ids / count;
}

LogicalResult lowerExpertMatmul(StageDraft &s, Operation *op) {
  if (looksUpInFactors(op))
    return op->emitOpError("splits experts in several factors");
  rt::ExpertMatmulOp call;
  auto product = dyn_cast<ExpertMatmulOp>(op);
  Value x = op->getOperand(0), ids = op->getOperand(1),
        result = op->getResult(0);
  Value w = product ? product.getW() : result;
  Value y = product ? result : op->getOperand(2);
  s.slots.make(result);
  for (auto [value, id] :
       {std::pair(x, &call.x), {ids, &call.ids}, {w, &call.w}, {y, &call.y}}) {
    FailureOr<int> buffer = contiguousBuffer(s, op, value);
    if (failed(buffer))
      return failure();
    *id = *buffer;
  }
  call.kind = product ? rt::ExpertMatmulKind::Forward
                      : rt::ExpertMatmulKind::GradWeight;
  call.rows = tensorType(ids).getNumElements();
  call.sharesX = sharesOf(x, call.rows);
  call.sharesY = sharesOf(y, call.rows);
  call.experts = tensorType(w).getDimSize(0);
  call.k = tensorType(x).getShape().back();
  call.n = tensorType(y).getShape().back();
  call.transW = product && product.getTb();
  call.valid.value = call.experts;
  if (SmallVector<rt::ScalarExpr> own = scalarsOf(op); !own.empty())
    std::tie(call.first, call.valid) = std::tuple(own[0], own[1]);
  Type type = elementTypeOf(x);
  if (!type.isF32() && !type.isF64() && !type.isBF16() && !type.isF16())
    return op->emitOpError() << "of " << type << " cannot be executed; f32, "
                             << "f64, bf16 and f16 can";
  call.compute = *dtypeOf(type);
  call.workspace = s.slots.addWorkspace(
      op->getContext(), rt::expertWorkspaceBytes(call.rows, call.experts),
      "order of rows by expert");
  s.list.emit(s.schedule.phaseOf(op), std::move(call), "experts").flops =
      cast<CostOpInterface>(op).getFlops();
  return success();
}

} // namespace dpc::codegen
