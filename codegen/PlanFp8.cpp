//===- PlanFp8.cpp - Products of 8-bit codes ------------------------------===//
#include "codegen/PlanBuilder.h"
#include "ir/Fp8.h"
#include "ir/FusedAttributes.h"

using namespace mlir;

namespace dpc::codegen {

/// Lets the only call of a marked matmul multiply codes, where its operands lie
/// so that it is one product, and C so that a GPU can write it.
void PlanBuilder::codeFactors(MatmulOp op, rt::MatmulOp &call) {
  auto formats = op->getAttrOfType<ArrayAttr>(attr::kFp8);
  auto bytes = op->getAttrOfType<IntegerAttr>(attr::kWorkspace);
  int64_t width =
      op.getResult().getType().getElementType().getIntOrFloatBitWidth() / 8;
  bool isOne = call.batch == 1 && call.batch2 == 1;
  if (!formats || !bytes || !isOne || call.ldc * width % 16 != 0 ||
      call.cOffset * width % 16 != 0)
    return;
  auto formatOf = [&](unsigned operand) {
    return *dtypeOf(cast<TypeAttr>(formats[operand]).getValue());
  };
  auto type = RankedTensorType::get(bytes.getInt(),
                                    IntegerType::get(op.getContext(), 8));
  call.fp8 = rt::Fp8Factors{
      formatOf(0), formatOf(1),
      addBuffer(type, rt::BufferKind::Workspace, "codes of fp8")};
}

} // namespace dpc::codegen
