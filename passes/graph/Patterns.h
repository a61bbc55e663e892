//===- Patterns.h - Rewrites of dpc-simplify and dpc-fuse -------*- C++ -*-===//
//
// Each pattern of dpc-fuse starts at the last op of an idiom and matches
// backwards. A pattern fails if it finds anything unexpected: a missed fusion
// only makes the program slower, but a wrong match makes it incorrect.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_PATTERNS_H
#define DPC_PASSES_GRAPH_PATTERNS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace dpc {

// dpc-simplify: arithmetic and logic; data movement and operands of matmuls.
void populateArithmeticPatterns(mlir::RewritePatternSet &patterns);
void populateMovementPatterns(mlir::RewritePatternSet &patterns);

// dpc-fuse: gelu and silu; norms and softmax; rotary embeddings.
void populateActivationPatterns(mlir::RewritePatternSet &patterns);
void populateRowPatterns(mlir::RewritePatternSet &patterns);
void populateRopePatterns(mlir::RewritePatternSet &patterns);

/// Fuses attention in `func`. Ops that become unused remain.
void fuseAttention(mlir::func::FuncOp func);

/// Makes attention read keys before a bias is added to them. The additions
/// remain.
void dropKeyBiases(mlir::func::FuncOp func);

/// True if `value` depends on an argument with the role `parameter`.
bool dependsOnParameter(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_PATTERNS_H
