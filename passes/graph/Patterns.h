//===- Patterns.h - Rewrites of dpc-simplify and dpc-fuse -------*- C++ -*-===//
//
// Each pattern of dpc-fuse starts at the last op of an idiom and matches
// backwards. A pattern fails if it finds anything unexpected: a missed fusion
// only makes the program slower, but a wrong match makes it incorrect.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace dpc {

// Patterns of dpc-simplify: for arithmetic and logic, for data movement and
// operands of matmuls, and for mixtures of experts.
void populateArithmeticPatterns(mlir::RewritePatternSet &patterns);
void populateMovementPatterns(mlir::RewritePatternSet &patterns);
void populateExpertPatterns(mlir::RewritePatternSet &patterns);

// Patterns of dpc-fuse: for gelu and silu, for norms and softmax, and for rope.
void populateActivationPatterns(mlir::RewritePatternSet &patterns);
void populateRowPatterns(mlir::RewritePatternSet &patterns);
void populateRopePatterns(mlir::RewritePatternSet &patterns);

/// Fuses attention in `func`. Ops that become unused remain.
void fuseAttention(mlir::func::FuncOp func);

/// Replaces the keys of attention by the keys before a bias is added. The
/// additions remain.
void dropKeyBiases(mlir::func::FuncOp func);

/// If a product of experts lets the choices of a token share its row, lets the
/// other products and lookups for these choices read its ids, [tokens..,
/// choices], instead of a reshape, so that all are sharded alike.
void alignExpertIds(mlir::func::FuncOp func);

/// Returns true if `value` depends on an argument with the role `parameter`.
bool dependsOnParameter(mlir::Value value);

} // namespace dpc
