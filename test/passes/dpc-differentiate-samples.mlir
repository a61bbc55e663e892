// RUN: dpc-opt %s --dpc-differentiate="optimizer=sgd" 2>/dev/null | FileCheck %s

// The step returns the mean of an output with one value per sample, and no output of another shape. A value per class
// does not pass for one per sample if there are as many classes as samples.

// CHECK-LABEL: func.func @train_step
// CHECK-SAME: tensor<f32> {dpc.loss, dpc.name = "loss"}, tensor<f32> {dpc.name = "each"}, tensor<f32> {dpc.name = "grad_norm"})
// CHECK: %[[EACH:.*]] = dpc.reduce sum %{{.*}} dims = [1]
// CHECK: %[[SUM:.*]] = dpc.reduce sum %[[EACH]] dims = [0]
// CHECK: dense<1.250000e-01>
func.func @forward(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<f32> {dpc.name = "a", dpc.loss}, tensor<8xf32> {dpc.name = "each", dpc.batch_dim = 0 : i64},
        tensor<8x4xf32> {dpc.name = "y", dpc.batch_dim = 0 : i64}, tensor<8xf32> {dpc.name = "classes"}) {
  %v = dpc.broadcast %w dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %y = dpc.binary mul %v, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %e = dpc.reduce sum %y dims = [1] : tensor<8x4xf32> -> tensor<8xf32>
  %s = dpc.reduce sum %y dims = [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %k = dpc.broadcast %s dims = [] : tensor<f32> -> tensor<8xf32>
  return %s, %e, %y, %k : tensor<f32>, tensor<8xf32>, tensor<8x4xf32>, tensor<8xf32>
}
