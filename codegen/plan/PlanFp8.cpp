//===- PlanFp8.cpp - Products of 8-bit codes ------------------------------===//
#include "codegen/plan/PlanBuilder.h"
#include "ir/Attributes.h"

using namespace mlir;

namespace dpc::codegen {

/// Lets the only call of a marked matmul multiply codes, where its operands lie
/// so that it is one product, and C so that a GPU can write it.
void PlanBuilder::codeFactors(MatmulOp op, rt::MatmulOp &call) {
  auto formats = op->getAttrOfType<ArrayAttr>(attr::kFp8);
  auto bytes = op->getAttrOfType<IntegerAttr>(attr::kWorkspace);
  int64_t width =
      op.getResult().getType().getElementType().getIntOrFloatBitWidth() / 8;
  if (!formats || !bytes)
    return;
  bool isOne = call.batch == 1 && call.batch2 == 1;
  int64_t begin = draft.plan.buffers[call.c].offset + call.cOffset * width;
  if (!isOne || call.ldc * width % 16 != 0 || begin % 16 != 0) {
    ++uncoded;
    return;
  }
  auto formatOf = [&](unsigned operand) {
    return *dtypeOf(cast<TypeAttr>(formats[operand]).getValue());
  };
  auto type = RankedTensorType::get(bytes.getInt(),
                                    IntegerType::get(op.getContext(), 8));
  call.fp8 = rt::Fp8Factors{
      formatOf(0), formatOf(1),
      addBuffer(type, rt::BufferKind::Workspace, "codes of fp8")};
}

/// Time and memory were predicted by sizes, which are all that is known before
/// buffers are.
void PlanBuilder::remarkOnUncoded() {
  if (uncoded > 0)
    step.emitRemark() << "products that are predicted in fp8 and run in bf16: "
                      << uncoded
                      << ", whose rows do not lie as those of one matrix, or "
                         "whose results not at multiples of 16 bytes";
}

} // namespace dpc::codegen
