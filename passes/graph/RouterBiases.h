//===- RouterBiases.h - Biases that balance experts -------------*- C++ -*-===//
//
// A router may add a bias to the scores of experts before it chooses some. The
// bias gets no gradient: after each step, the experts with less than the mean
// of the tokens become more likely, and the others less (Wang et al.,
// Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts,
// arXiv 2408.15664, algorithm 1).
//
//   bias += rate * sign(mean(n) - n), with n = tokens of each expert
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/GraphBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace dpc {

struct RouterBias {
  unsigned argument;  ///< a buffer [experts] of the function
  mlir::Value chosen; ///< the ids of the experts of all tokens
};

/// Returns the buffers of `func` that the loss depends on only through the ids
/// of products of experts, which they help to choose.
llvm::SmallVector<RouterBias> findRouterBiases(mlir::func::FuncOp func);

/// Makes training update all router biases of `forward` by `rate`. Returns how
/// many there are.
size_t balanceExperts(mlir::func::FuncOp forward, double rate);

/// A router bias of a training step.
struct BalancedBias {
  unsigned argument;
  double rate;
  mlir::Value counts, next;
};

/// The biases that balanceExperts() chose, in a training step.
class ExpertBalance {
public:
  /// Removes what balanceExperts() added to the attributes of an argument.
  static void unmark(mlir::NamedAttrList &argumentAttrs);

  /// Builds the number of tokens of each expert. Micro-batches and ranks add
  /// them, as they add gradients. `toStep` maps `forward` to the step.
  void count(GraphBuilder g, mlir::func::FuncOp forward,
             const mlir::IRMapping &toStep);
  /// Builds the next values. If `good` is given, a step for which it is false
  /// changes nothing.
  void update(GraphBuilder g, mlir::Value good);
  llvm::ArrayRef<BalancedBias> biases() const { return balanced; }
  /// After update(): the most tokens of an expert divided by the mean over its
  /// layer, of the layer where this is largest. Null without biases.
  mlir::Value fullest() const { return load; }

private:
  llvm::SmallVector<BalancedBias> balanced;
  mlir::Value load;
};

} // namespace dpc
