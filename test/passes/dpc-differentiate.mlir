// RUN: dpc-opt %s --dpc-differentiate="clip-grad-norm=1.0 beta2=0.95 weight-decay=0.1" --split-input-file 2>/dev/null | FileCheck %s
// RUN: dpc-opt %s --dpc-differentiate="optimizer=sgd" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=SGD
// RUN: dpc-opt %s --dpc-differentiate="optimizer=sgd momentum=0.9" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=MOMENTUM
// RUN: dpc-opt %s --dpc-differentiate="clip-grad-norm=1.0 loss-scale=1024 loss-scale-interval=3" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=FP16

// The arguments are in the order parameters, buffers, states, inputs, lr and step, for
// any order in @forward. The factor 1 / 8 of the mean is split off: the initial gradient
// is 1, and the constant scales the norm and the update.

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {dpc.name = "w", dpc.role = "parameter"}
// CHECK-SAME: %[[T:[^:]*]]: tensor<2x4xf32> {dpc.name = "t", dpc.role = "buffer"}
// CHECK-SAME: %[[M:[^:]*]]: tensor<4x4xf32> {dpc.name = "w.exp_avg", dpc.of = "w", dpc.role = "state", dpc.slot = "exp_avg"}
// CHECK-SAME: %[[V:[^:]*]]: tensor<4x4xf32> {dpc.name = "w.exp_avg_sq", dpc.of = "w", dpc.role = "state", dpc.slot = "exp_avg_sq"}
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4xf32> {dpc.batch_dim = 0 : i64, dpc.name = "x", dpc.role = "input"}
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32> {dpc.name = "lr", dpc.role = "scalar"}
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<f32> {dpc.name = "step", dpc.role = "scalar"}
// CHECK-SAME: -> (tensor<4x4xf32> {dpc.name = "w", dpc.ties = 0 : i64},
// CHECK-SAME: tensor<4x4xf32> {dpc.name = "w.exp_avg", dpc.ties = 2 : i64},
// CHECK-SAME: tensor<4x4xf32> {dpc.name = "w.exp_avg_sq", dpc.ties = 3 : i64},
// CHECK-SAME: tensor<f32> {dpc.loss, dpc.name = "loss"}, tensor<f32> {dpc.name = "grad_norm"})
// CHECK-NEXT: %[[H:.*]] = dpc.matmul %[[X]], %[[W]] {dpc.group = {{.*}}, dpc.phase = "forward"}
// CHECK-NEXT: %[[D:.*]] = dpc.binary sub %[[H]], %[[T]] {{.*}}dpc.phase = "forward"
// CHECK-NEXT: %[[S:.*]] = dpc.binary mul %[[D]], %[[D]]
// CHECK-NEXT: %[[SUM:.*]] = dpc.reduce sum %[[S]] dims = [0, 1]
// CHECK-NEXT: %[[C:.*]] = dpc.constant dense<1.250000e-01> : tensor<f32> {dpc.phase = "forward"}
// CHECK-NEXT: %[[LOSS:.*]] = dpc.binary mul %[[SUM]], %[[C]] {dpc.phase = "forward"}
// CHECK-NEXT: %[[SEED:.*]] = dpc.constant dense<1.000000e+00> : tensor<f32> {dpc.phase = "backward"}
// CHECK: %[[DW:.*]] = dpc.matmul %[[X]], %{{.*}} ta {{.*}}dpc.phase = "backward"
// CHECK-NEXT: %[[N:.*]] = dpc.global_norm %[[DW]] {dpc.phase = "update"}
// CHECK-NEXT: %[[NORM:.*]] = dpc.binary mul %[[N]], %[[C]]
// CHECK-DAG: %[[MAX:.*]] = dpc.constant dense<1.000000e+00> : tensor<f32>
// CHECK-DAG: %[[EPS:.*]] = dpc.constant dense<9.99999997E-7>
// CHECK: %[[SHIFTED:.*]] = dpc.binary add %[[NORM]], %[[EPS]]
// CHECK: %[[RATIO:.*]] = dpc.binary div %{{.*}}, %[[SHIFTED]]
// CHECK: %[[CLIP:.*]] = dpc.binary minimum %[[RATIO]], %{{.*}}
// CHECK: %[[SCALE:.*]] = dpc.binary mul %[[C]], %[[CLIP]] {dpc.phase = "update"}
// CHECK: %[[P1:.*]], %[[M1:.*]], %[[V1:.*]] = dpc.adamw %[[W]], %[[M]], %[[V]], %[[DW]], %[[SCALE]], %[[LR]], %[[STEP]]
// CHECK-SAME: beta1 = 9.000000e-01 beta2 = 0.9{{[0-9]*}} eps = 1.000000e-08 weight_decay = 1.000000e-01
// CHECK: return %[[P1]], %[[M1]], %[[V1]], %[[LOSS]], %[[NORM]]
// CHECK-NOT: @forward

// Without momentum, the gradient is passed as the buffer.
// SGD-LABEL: func.func @train_step
// SGD-NOT: "state"
// SGD: %[[DW:.*]] = dpc.matmul %{{.*}}, %{{.*}} ta
// SGD: dpc.sgd %{{.*}}, %[[DW]], %[[DW]], %{{.*}} momentum = 0.000000e+00 weight_decay = 0.000000e+00

// MOMENTUM-LABEL: func.func @train_step
// MOMENTUM-SAME: %[[B:[^:]*]]: tensor<4x4xf32> {dpc.name = "w.momentum", dpc.of = "w", dpc.role = "state", dpc.slot = "momentum"}
// MOMENTUM: dpc.sgd %{{[^ ]*}}, %[[B]], %{{.*}} momentum = 9.000000e-01

// For a mean over 8 elements, the initial gradient of the sum is an eighth of the
// scale. If the norm is not finite, nothing is updated and the schedule of the learning
// rate does not advance.
// FP16-LABEL: func.func @train_step
// FP16-SAME: %[[S:[^:]*]]: tensor<f32> {dpc.init = 1.024000e+03 : f64, dpc.name = "loss_scale", dpc.role = "state", dpc.slot = "scale"}
// FP16-SAME: %[[STREAK:[^:]*]]: tensor<f32> {dpc.init = 0.000000e+00 : f64, dpc.name = "loss_scale.streak", dpc.role = "state", dpc.slot = "streak"}
// FP16-SAME: %[[SKIPPED:[^:]*]]: tensor<f32> {dpc.init = 0.000000e+00 : f64, dpc.name = "loss_scale.skipped", dpc.role = "state", dpc.slot = "skipped"}
// FP16-SAME: {dpc.name = "lr", dpc.role = "scalar", dpc.skips = "loss_scale.skipped"}
// FP16-SAME: %[[STEP:[^:]*]]: tensor<f32> {dpc.name = "step", dpc.role = "scalar"}
// FP16-SAME: tensor<f32> {dpc.name = "grad_norm"}, tensor<f32> {dpc.name = "loss_scale"}, tensor<f32> {dpc.name = "skipped"})
// FP16: %[[MEAN:.*]] = dpc.constant dense<1.250000e-01> : tensor<f32> {dpc.phase = "forward"}
// FP16: %[[C:.*]] = dpc.constant dense<1.250000e-01> : tensor<f32> {dpc.phase = "backward"}
// FP16: %[[SEED:.*]] = dpc.binary mul %[[S]], %[[C]] {dpc.phase = "backward"}
// FP16: %[[C2:.*]] = dpc.constant dense<1.250000e-01> : tensor<f32> {dpc.phase = "update"}
// FP16: %[[DIVISOR:.*]] = dpc.binary mul %[[S]], %[[C2]]
// FP16: %[[UNSCALE:.*]] = dpc.binary div %[[MEAN]], %[[DIVISOR]]
// FP16: %[[N:.*]] = dpc.global_norm
// FP16: %[[NORM:.*]] = dpc.binary mul %[[N]], %[[UNSCALE]]
// FP16: %[[MAX:.*]] = dpc.constant dense<3.40282347E+38>
// FP16: %[[GOOD:.*]] = dpc.compare le %[[NORM]], %[[MAX]]
// FP16: %[[SKIP:.*]] = dpc.select %[[GOOD]], %{{.*}}, %{{.*}}
// FP16: %[[SKIPPED1:.*]] = dpc.binary add %[[SKIPPED]], %[[SKIP]]
// FP16: %[[UPDATES:.*]] = dpc.binary sub %[[STEP]], %[[SKIPPED]]
// FP16: dpc.binary mul %[[UNSCALE]], %{{.*}}
// FP16: dpc.adamw {{.*}}, %[[UPDATES]] if %[[GOOD]] beta1
// FP16: return {{.*}}, %[[NORM]], %[[S]], %[[SKIP]]
func.func @forward(%x: tensor<2x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64},
                   %t: tensor<2x4xf32> {dpc.name = "t", dpc.role = "buffer"},
                   %w: tensor<4x4xf32> {dpc.name = "w", dpc.role = "parameter"})
    -> (tensor<f32> {dpc.name = "mean", dpc.loss}, tensor<2x4xf32> {dpc.name = "h"}) {
  %0 = dpc.matmul %x, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %1 = dpc.binary sub %0, %t : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = dpc.binary mul %1, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = dpc.reduce sum %2 dims = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  %4 = dpc.constant dense<0.125> : tensor<f32> -> tensor<f32>
  %5 = dpc.binary mul %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %5, %0 : tensor<f32>, tensor<2x4xf32>
}

// -----

// The initial gradient of a negated loss is -1. The gradients of a table with two users
// are summed. The reciprocal of the divisor is the scale.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W:[^:]*]]: tensor<4x4xf32> {dpc.name = "w"
// CHECK-SAME: %[[N:[^:]*]]: tensor<f32> {dpc.name = "n"
// CHECK: %[[A:.*]] = dpc.unary abs %[[N]]
// CHECK: dpc.constant dense<-1.000000e+00> : tensor<f32> {dpc.phase = "backward"}
// CHECK: %[[G1:.*]] = dpc.matmul {{.*}} ta {{.*}}"backward"
// CHECK: %[[G2:.*]] = dpc.embedding_grad
// CHECK: %[[G:.*]] = dpc.binary add %[[G1]], %[[G2]] {dpc.phase = "backward"}
// CHECK: %[[SCALE:.*]] = dpc.unary reciprocal %[[A]] {dpc.phase = "update"}
// CHECK: dpc.global_norm %[[G]]
func.func @forward(%w: tensor<4x4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %ids: tensor<3xi64> {dpc.name = "ids", dpc.role = "input"},
                   %n: tensor<f32> {dpc.name = "n", dpc.role = "input"})
    -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.embedding %w, %ids : (tensor<4x4xf32>, tensor<3xi64>) -> tensor<3x4xf32>
  %1 = dpc.matmul %0, %w tb : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
  %2 = dpc.reduce sum %1 dims = [0, 1] : tensor<3x4xf32> -> tensor<f32>
  %3 = dpc.unary abs %n : tensor<f32> -> tensor<f32>
  %4 = dpc.binary div %2, %3 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = dpc.unary neg %4 : tensor<f32> -> tensor<f32>
  return %5 : tensor<f32>
}

// -----

// The gradient of a sum of rows is the gradient of the row to which each was added.
// CHECK-LABEL: func.func @train_step
// CHECK: dpc.embedding_grad %[[IDS:[^,]*]], %{{.*}}"forward"
// CHECK: %[[DY:.*]] = dpc.binary add %{{.*}} "backward"
// CHECK: dpc.embedding %[[DY]], %[[IDS]] {{.*}}"backward"
func.func @forward(%w: tensor<3x4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %ids: tensor<3xi64> {dpc.name = "ids", dpc.role = "input"})
    -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.embedding_grad %ids, %w : (tensor<3xi64>, tensor<3x4xf32>) -> tensor<5x4xf32>
  %1 = dpc.binary mul %0, %0 : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x4xf32>
  %2 = dpc.reduce sum %1 dims = [0, 1] : tensor<5x4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// A factor of unknown sign is not split off, and neither is a sum of two losses.
// CHECK-LABEL: func.func @train_step
// CHECK: %[[ONE:.*]] = dpc.constant dense<1.000000e+00> : tensor<f32> {dpc.phase = "update"}
// CHECK: dpc.adamw %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}}, %{{[^ ]*}},
func.func @forward(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %n: tensor<f32> {dpc.name = "n", dpc.role = "input"})
    -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  %1 = dpc.binary mul %0, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Arguments without a name get a new one, because states refer to them. Parameters that
// the loss does not depend on are returned unchanged.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W:[^:]*]]: tensor<4xf32> {dpc.name = "arg1_", dpc.role = "parameter"}
// CHECK-SAME: %[[ALONE:[^:]*]]: tensor<4xf32> {dpc.name = "alone", dpc.role = "parameter"}
// CHECK-SAME: {dpc.name = "arg1_.exp_avg", dpc.of = "arg1_", dpc.role = "state", dpc.slot = "exp_avg"}
// CHECK-SAME: tensor<4xf32> {dpc.name = "arg1", dpc.role = "input"}
// CHECK-SAME: -> (tensor<4xf32> {dpc.name = "arg1_", dpc.ties = 0 : i64}, tensor<4xf32> {dpc.name = "alone", dpc.ties = 1 : i64},
// CHECK: return %{{[^,]*}}, %[[ALONE]],
func.func @forward(
    %x: tensor<4xf32> {dpc.name = "arg1", dpc.role = "input"},
    %w: tensor<4xf32> {dpc.role = "parameter"},
    %u: tensor<4xf32> {dpc.name = "alone", dpc.role = "parameter"}) -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.binary mul %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// A gradient passes only through floats: a select passes none to the operands of the
// comparison.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: {dpc.name = "w", dpc.role = "parameter"}
// CHECK-SAME: {dpc.name = "c", dpc.role = "parameter"}
// CHECK: dpc.adamw
// CHECK-NOT: dpc.adamw
func.func @forward(
    %w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"},
    %c: tensor<4xf32> {dpc.name = "c", dpc.role = "parameter"},
    %x: tensor<4xf32> {dpc.name = "x", dpc.role = "input"}) -> (tensor<f32> {dpc.loss}) {
  %g = dpc.compare gt %c, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %0 = dpc.select %g, %w, %x : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// Conversions of parameters move to their first user. So the gradient of the last
// parameter is complete, in the type of the parameter, before the gradient of the first
// parameter begins.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[A:[^:]*]]: tensor<4x4xf32> {dpc.name = "a"
// CHECK-SAME: %[[B:[^:]*]]: tensor<4x4xf32> {dpc.name = "b"
// CHECK: dpc.convert %[[A]]
// CHECK-NEXT: %[[H:.*]] = dpc.matmul
// CHECK-NEXT: dpc.convert %[[B]]
// CHECK-NEXT: dpc.matmul %[[H]]
// CHECK: %[[DB:.*]] = dpc.matmul %[[H]], %{{.*}} ta
// CHECK-NEXT: dpc.convert %[[DB]]
// CHECK-NEXT: %[[DA:.*]] = dpc.matmul %{{.*}} ta
// CHECK-NEXT: dpc.convert %[[DA]]
func.func @forward(
    %a: tensor<4x4xf32> {dpc.name = "a", dpc.role = "parameter"},
    %b: tensor<4x4xf32> {dpc.name = "b", dpc.role = "parameter"},
    %x: tensor<2x4xbf16> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> (tensor<f32> {dpc.loss}) {
  %ca = dpc.convert %a : tensor<4x4xf32> -> tensor<4x4xbf16>
  %cb = dpc.convert %b : tensor<4x4xf32> -> tensor<4x4xbf16>
  %h = dpc.matmul %x, %ca : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %y = dpc.matmul %h, %cb : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
  %f = dpc.convert %y : tensor<2x4xbf16> -> tensor<2x4xf32>
  %l = dpc.reduce sum %f dims = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  return %l : tensor<f32>
}

// -----

// Random numbers that depend on the step use the step of the optimizer.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[STEP:[^:]*]]: tensor<f32> {dpc.name = "step", dpc.role = "scalar"}) ->
// CHECK: dpc.compare gt %[[STEP]], %{{.*}} {dpc.phase = "forward"}
// CHECK: dpc.adamw {{.*}}%[[STEP]]
func.func @forward(
    %w: tensor<f32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<f32> {dpc.name = "x", dpc.role = "input"},
    %step: tensor<f32> {dpc.name = "step", dpc.role = "scalar"}) -> (tensor<f32> {dpc.loss}) {
  %g = dpc.compare gt %step, %x : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %0 = dpc.select %g, %w, %x : (tensor<i1>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The trained output is called "loss", and no other output has this name.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: tensor<f32> {dpc.name = "loss_"}, tensor<f32> {dpc.loss, dpc.name = "loss"}, tensor<f32> {dpc.name = "grad_norm_"}, tensor<f32> {dpc.name = "grad_norm"})
func.func @forward(
    %w: tensor<f32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<f32> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<f32> {dpc.name = "loss"}, tensor<f32> {dpc.loss, dpc.name = "total"}, tensor<f32> {dpc.name = "grad_norm"}) {
  %0 = dpc.binary mul %w, %x : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = dpc.binary add %0, %0 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1, %0 : tensor<f32>, tensor<f32>, tensor<f32>
}
