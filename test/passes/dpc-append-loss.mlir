// RUN: dpc-opt %s --dpc-append-loss --split-input-file --verify-diagnostics | FileCheck %s
// RUN: dpc-opt %s --dpc-append-loss="loss=mse output=y" --split-input-file | FileCheck %s --check-prefix=MSE

// CHECK-LABEL: func @forward
// CHECK-SAME: %[[LABELS:[^:]*]]: tensor<2x3xi64> {dpc.batch_dim = 0 : i64, dpc.name = "labels", dpc.role = "input"})
// CHECK-SAME: -> (tensor<2x3x8xf32> {dpc.name = "y"}, tensor<f32> {dpc.loss, dpc.name = "loss"})
// CHECK-DAG: %[[LOGITS:.*]] = dpc.reshape %{{.*}} : tensor<2x3x8xf32> -> tensor<6x8xf32>
// CHECK-DAG: %[[ROWS:.*]] = dpc.reshape %[[LABELS]] : tensor<2x3xi64> -> tensor<6xi64>
// CHECK: %[[LOSS:.*]], %{{.*}} = dpc.cross_entropy %[[LOGITS]], %[[ROWS]] ignore_index = -100
// CHECK: %[[COUNTED:.*]] = dpc.compare ne %[[ROWS]]
// CHECK: %[[SUM:.*]] = dpc.reduce sum %[[LOSS]] dims = [0]
// CHECK: %[[ONES:.*]] = dpc.convert %[[COUNTED]]
// CHECK: %[[COUNT:.*]] = dpc.reduce sum %[[ONES]] dims = [0]
// CHECK: %[[MEAN:.*]] = dpc.binary div %[[SUM]], %[[COUNT]]
// CHECK: return %{{.*}}, %[[MEAN]]

// MSE-LABEL: func @forward
// MSE-SAME: %[[LABELS:[^:]*]]: tensor<2x3x8xf32> {dpc.batch_dim = 0 : i64, dpc.name = "labels", dpc.role = "input"})
// MSE: %[[D:.*]] = dpc.binary sub %{{.*}}, %[[LABELS]]
// MSE: %[[S:.*]] = dpc.binary mul %[[D]], %[[D]]
// MSE: %[[SUM:.*]] = dpc.reduce sum %[[S]] dims = [0, 1, 2]
// MSE: dpc.constant dense<0.020833334> : tensor<f32>
// MSE: dpc.binary mul %[[SUM]]
func.func @forward(%x: tensor<2x3x8xf32> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<2x3x8xf32> {dpc.name = "y"}) {
  %0 = dpc.unary tanh %x : tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %0 : tensor<2x3x8xf32>
}

// -----

// An output of the model that is called "loss" gets a new name.

// CHECK-LABEL: func @forward
// CHECK-SAME: -> (tensor<2x3xf32> {dpc.name = "y"}, tensor<f32> {dpc.name = "loss_"}, tensor<f32> {dpc.loss, dpc.name = "loss"})
// MSE-LABEL: func @forward
// MSE-SAME: -> (tensor<2x3xf32> {dpc.name = "y"}, tensor<f32> {dpc.name = "loss_"}, tensor<f32> {dpc.loss, dpc.name = "loss"})
// expected-remark@+1 {{the loss is --loss=cross_entropy:y, and not the model's output 'loss'}}
func.func @forward(%x: tensor<2x3xf32> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<2x3xf32> {dpc.name = "y"}, tensor<f32> {dpc.loss, dpc.name = "loss"}) {
  %0 = dpc.unary tanh %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %1 = dpc.reduce sum %0 dims = [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %0, %1 : tensor<2x3xf32>, tensor<f32>
}
