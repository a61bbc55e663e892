//===- KernelRole.cpp - Ops whose part in kernels depends on more ---------===//
#include "ir/KernelRole.h"
#include "ir/Dialect.h"

using namespace mlir;
using namespace dpc;

/// Larger constants are tensors of the plan.
static constexpr int64_t kMaxEmbeddedElements = 4096;

KernelRole dpc::kernelRole(Operation *op) {
  auto fusion = dyn_cast<FusionOpInterface>(op);
  return fusion ? fusion.getKernelRole() : KernelRole::none;
}

bool dpc::isMovedView(Operation *op) {
  return isa<ReshapeOp>(op) ||
         (op->hasAttr(attr::kView) && kernelRole(op) == KernelRole::mover);
}

bool dpc::isBufferView(Operation *op) {
  return isMovedView(op) || (isa<AccumulateOp>(op) && op->hasAttr(attr::kView));
}

KernelRole ConstantOp::getKernelRole() {
  ElementsAttr value = getValue();
  bool isEmbedded =
      value.isSplat() || value.getNumElements() <= kMaxEmbeddedElements;
  return isEmbedded ? KernelRole::source : KernelRole::none;
}

bool UnaryOp::isCheap() {
  switch (getKind()) {
  case UnaryKind::neg:
  case UnaryKind::abs:
  case UnaryKind::relu:
  case UnaryKind::logical_not:
    return true;
  default:
    return false;
  }
}

bool BinaryOp::isCheap() {
  return getKind() != BinaryKind::pow && getKind() != BinaryKind::div &&
         getKind() != BinaryKind::rem;
}

bool EmbeddingOp::readsSameElement(OpOperand &) { return false; }
bool PadOp::readsSameElement(OpOperand &) { return false; }
bool ConcatOp::readsSameElement(OpOperand &) { return false; }
bool CrossEntropyGradOp::readsSameElement(OpOperand &operand) {
  return operand.getOperandNumber() == 0;
}
