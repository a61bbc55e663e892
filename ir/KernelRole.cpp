//===- KernelRole.cpp - Ops with their own FusionOpInterface methods ------===//
#include "ir/KernelRole.h"
#include "ir/Dialect.h"

using namespace mlir;
using namespace dpc;

/// The largest constant that is part of a kernel's code. Larger ones are
/// buffers.
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
  return llvm::is_contained(
      {UnaryKind::neg, UnaryKind::abs, UnaryKind::relu, UnaryKind::logical_not},
      getKind());
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
