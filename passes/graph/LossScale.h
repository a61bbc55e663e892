//===- LossScale.h - Gradients within the range of f16 ----------*- C++ -*-===//
//
// f16 reaches from 6e-8 to 65504. So that small gradients do not vanish, the
// gradient that the backward pass starts from is multiplied by a scale S, and
// norm and update are divided by it. A gradient that overflows all the same
// makes the global norm, which every rank knows, infinite or not a number. Then
// nothing is updated, on any rank, and S is halved; after `interval` good steps
// in a row it is doubled:
//
//   seed     = S c       c = 2^-ceil(log2(n)) where the loss is a mean of n
//   good     = norm <= the largest f32               (false for NaN)
//   grown    = streak + 1 = interval
//   S'       = good ? (grown ? min(2 S, 2^127) : S) : max(S / 2, 1)
//   streak'  = good and not grown ? streak + 1 : 0
//   skipped' = good ? skipped : skipped + 1
//
// c makes S the scale of the mean (dpc differentiates the sum, see PeeledLoss),
// as users know it; it is a power of two, so that it rounds nothing.
//
// 65536, 2, 1/2 and 2000 are the defaults of PyTorch's GradScaler (init_scale,
// growth_factor, backoff_factor, growth_interval) and of Apex's dynamic scaler
// (init_scale, scale_factor, scale_window); no scale below 1 is Megatron-LM's
// (--min-loss-scale). Other types have no need of S; a fixed S of 1 gives them
// steps that are skipped.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_LOSSSCALE_H
#define DPC_PASSES_GRAPH_LOSSSCALE_H

#include "passes/graph/Autodiff.h"

namespace dpc {

struct LossScaleSettings {
  double initial = 0;   ///< S of the first step; 0: no scaling
  int64_t interval = 0; ///< good steps before S grows; 0: S is fixed
};

/// A scalar f32 state of the training step.
struct ScalarState {
  llvm::StringLiteral name, slot;
  double initial = 0;
  mlir::Value value, next;
};

/// Builds what the file comment says.
class LossScale {
public:
  explicit LossScale(LossScaleSettings settings);

  bool isOn() const { return settings.initial > 0; }
  /// The states; the caller sets `value` of each to its argument.
  llvm::MutableArrayRef<ScalarState> states() { return all; }
  /// The state that counts skipped steps.
  static llvm::StringRef skippedName();

  /// S, as an f32 scalar.
  mlir::Value scale(GraphBuilder g);
  /// The gradient of `peeled.sum` to start from, of its type.
  mlir::Value seed(GraphBuilder g, const PeeledLoss &peeled);
  /// What gradients are to be divided by, f32.
  mlir::Value divisor(GraphBuilder g, const PeeledLoss &peeled);
  /// How many updates there are with this one, if `step` steps were begun.
  mlir::Value updates(GraphBuilder g, mlir::Value step);
  /// Decides by the norm of all gradients; sets `next` of all states.
  void decide(GraphBuilder g, mlir::Value norm);

  /// Whether parameters and states are updated (an i1 scalar); after decide().
  mlir::Value good;
  /// 1 for a step that is skipped, else 0.
  mlir::Value skipped;

private:
  mlir::Value stateOf(llvm::StringRef slot) const;

  LossScaleSettings settings;
  llvm::SmallVector<ScalarState> all;
};

} // namespace dpc

#endif // DPC_PASSES_GRAPH_LOSSSCALE_H
