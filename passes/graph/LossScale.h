//===- LossScale.h - Gradients within the range of f16 ----------*- C++ -*-===//
//
// Positive f16 numbers range from 6e-8 to 65504. To keep small gradients from
// vanishing, the initial gradient of the backward pass is multiplied by a scale
// S, and the norm and the update are divided by S. If a gradient overflows, the
// global norm, which every rank knows, is infinite or NaN. Then no rank updates
// its parameters and states, and S is halved. After `interval` good steps in a
// row, S is doubled:
//
//   seed     = S c       c = 2^-ceil(log2(n)) if the loss is a mean of n terms
//   good     = norm <= the largest f32               (false for NaN)
//   grown    = streak + 1 = interval
//   S'       = good ? (grown ? min(2 S, 2^127) : S) : max(S / 2, 1)
//   streak'  = good and not grown ? streak + 1 : 0
//   skipped' = good ? skipped : skipped + 1
//
// dpc differentiates the sum (see PeeledLoss). The factor c makes S the scale
// of the mean, as in other software. c is a power of two, so it causes no
// rounding.
//
// 65536, 2, 1/2 and 2000 are the defaults of PyTorch's GradScaler (init_scale,
// growth_factor, backoff_factor, growth_interval) and of Apex's dynamic scaler
// (init_scale, scale_factor, scale_window). S is at least 1, the default of
// Megatron-LM's --min-loss-scale. Types other than f16 do not need S; with a
// fixed S of 1, they skip steps that overflow.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/graph/Autodiff.h"

namespace dpc {

struct LossScaleSettings {
  double initial = 0;   ///< S in the first step; 0: no loss scale
  int64_t interval = 0; ///< good steps until S doubles; 0: S is fixed
};

/// A scalar f32 state of the training step.
struct ScalarState {
  llvm::StringLiteral name, slot;
  double initial = 0;
  mlir::Value value, next;
};

class LossScale {
public:
  explicit LossScale(LossScaleSettings settings);

  bool isOn() const { return settings.initial > 0; }
  /// The states of the loss scale. The caller sets each `value` to the argument
  /// of the state.
  llvm::MutableArrayRef<ScalarState> states() { return all; }
  static llvm::StringRef skippedName();

  /// S as an f32 scalar.
  mlir::Value scale(GraphBuilder g);
  mlir::Value seed(GraphBuilder g, const PeeledLoss &peeled);
  /// Builds the f32 scalar by which gradients are divided.
  mlir::Value divisor(GraphBuilder g, const PeeledLoss &peeled);
  /// Builds the number of updates up to and including step number `step`.
  mlir::Value updates(GraphBuilder g, mlir::Value step);
  /// Builds `good` and `skipped` from the gradient norm, and sets `next` of all
  /// states.
  void decide(GraphBuilder g, mlir::Value norm);

  /// An i1 scalar: true if the step updates parameters and states. Set by
  /// decide().
  mlir::Value good;
  /// An f32 scalar: 1 if the step is skipped, else 0. Set by decide().
  mlir::Value skipped;

private:
  ScalarState *stateOf(llvm::StringRef slot);

  LossScaleSettings settings;
  llvm::SmallVector<ScalarState> all;
};

} // namespace dpc
