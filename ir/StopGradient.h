//===- StopGradient.h - Ops that stop the gradient --------------*- C++ -*-===//
//
// A dpc.convert between equal types with the unit attribute `dpc.stop_gradient`
// stops the gradient. It represents torch's detach and the padding row of an
// embedding. Frontends create it and rewrites keep it. dpc-differentiate
// removes it, and dpc-opt removes it from models that are not trained.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

namespace dpc {

inline bool stopsGradient(mlir::Operation *op) {
  return op && op->hasAttr(attr::kStopGradient);
}

/// Whether only zeros pass through `op` as gradients, or none at all: its
/// derivative is zero almost everywhere, or it stops gradients. Of these, torch
/// decays weights behind the former only.
inline bool passesNoGradient(mlir::Operation *op) {
  if (auto unary = llvm::dyn_cast_if_present<UnaryOp>(op))
    return unary.getKind() == UnaryKind::sign ||
           unary.getKind() == UnaryKind::floor ||
           unary.getKind() == UnaryKind::ceil;
  return stopsGradient(op);
}

inline void removeGradientStops(mlir::Operation *root) {
  root->walk([](mlir::Operation *op) {
    if (!stopsGradient(op))
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

} // namespace dpc
