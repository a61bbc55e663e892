//===- PlanFp8.cpp - Products of 8-bit codes ------------------------------===//
#include "codegen/PlanBuilder.h"
#include "cost-model/Fp8Products.h"
#include "ir/Fp8.h"
#include "ir/FusedAttributes.h"

using namespace mlir;

namespace dpc::codegen {

// Whoever prices products of fp8 and whoever runs them mean the same.
constexpr int64_t kStep = rt::kFp8Multiple;
static_assert(cost::takesFp8(kStep, kStep, kStep) &&
              !cost::takesFp8(kStep / 2, kStep, kStep) &&
              !cost::takesFp8(kStep, kStep / 2, kStep) &&
              !cost::takesFp8(kStep, kStep, kStep / 2));
static_assert(cost::fp8WorkspaceBytes(16, 48, 80) ==
              rt::fp8WorkspaceBytes(16, 48, 80));

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
