//===- StopGradient.h - Values that no gradient passes ----------*- C++ -*-===//
//
// A model stops a gradient (torch's detach, the padding row of an embedding) by
// a dpc.convert between equal types with the unit attribute
// `dpc.stop_gradient`. Frontends make it, in models that are trained;
// rewrites leave it alone; dpc-differentiate removes it, and dpc-opt from
// models that are not trained.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_STOPGRADIENT_H
#define DPC_IR_STOPGRADIENT_H

#include "ir/Dialect.h"

namespace dpc {

/// Whether no gradient passes `op`, which may be null.
inline bool stopsGradient(mlir::Operation *op) {
  return op && op->hasAttr(attr::kStopGradient);
}

/// Removes the stops below `root`: nothing is differentiated.
inline void removeGradientStops(mlir::Operation *root) {
  root->walk([](mlir::Operation *op) {
    if (!stopsGradient(op))
      return;
    op->getResult(0).replaceAllUsesWith(op->getOperand(0));
    op->erase();
  });
}

} // namespace dpc

#endif // DPC_IR_STOPGRADIENT_H
