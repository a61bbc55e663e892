//===- FusePatterns.h - Recognizers of dpc-fuse -----------------*- C++ -*-===//
//
// Each recognizer starts at the last op of an idiom and reads backwards. It
// answers "no" as soon as something is not as expected: an idiom that stays
// decomposed is slower, one that is recognized wrongly is wrong.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_FUSEPATTERNS_H
#define DPC_PASSES_GRAPH_FUSEPATTERNS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace dpc {

/// gelu (erf and tanh forms) and silu.
void populateActivationPatterns(mlir::RewritePatternSet &patterns);
/// Layer norm, RMS norm and softmax.
void populateRowPatterns(mlir::RewritePatternSet &patterns);
/// Rotary embeddings.
void populateRopePatterns(mlir::RewritePatternSet &patterns);
/// Replaces attention in `func`; ops that become unused stay behind.
void fuseAttention(mlir::func::FuncOp func);

/// Takes keys of attention from before the addition of a bias; the additions
/// stay behind.
void dropKeyBiases(mlir::func::FuncOp func);

/// True when `value` depends on an argument with role `parameter`.
bool dependsOnParameter(mlir::Value value);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_FUSEPATTERNS_H
