//===- SimplifyPatterns.h - Rewrites of dpc-simplify ------------*- C++ -*-===//
#ifndef DPC_PASSES_GRAPH_SIMPLIFYPATTERNS_H
#define DPC_PASSES_GRAPH_SIMPLIFYPATTERNS_H

#include "mlir/IR/PatternMatch.h"

namespace dpc {

/// Arithmetic and logic.
void populateArithmeticPatterns(mlir::RewritePatternSet &patterns);
/// Data movement and matmul operands.
void populateMovementPatterns(mlir::RewritePatternSet &patterns);
/// All of them.
inline void populateSimplifyPatterns(mlir::RewritePatternSet &patterns) {
  populateArithmeticPatterns(patterns);
  populateMovementPatterns(patterns);
}

} // namespace dpc

#endif // DPC_PASSES_GRAPH_SIMPLIFYPATTERNS_H
