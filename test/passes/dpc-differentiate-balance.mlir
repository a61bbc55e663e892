// RUN: dpc-opt %s --dpc-differentiate="optimizer=sgd" --split-input-file 2>/dev/null | FileCheck %s
// RUN: dpc-opt %s --dpc-differentiate="optimizer=sgd loss-scale=8 loss-scale-interval=3" --split-input-file 2>/dev/null | FileCheck %s --check-prefix=FP16

// The router's bias rises for experts with fewer tokens than the mean. The counts are
// sums of the backward phase, which micro-batches and ranks add.

// CHECK-LABEL: func.func @train_step
// CHECK-NOT: balance_rate
// CHECK: %[[BIAS:[^:]*]]: tensor<4xf32> {dpc.name = "bias", dpc.role = "buffer"}
// CHECK: %{{.*}}, %[[IDS:.*]] = dpc.topk
// CHECK: %[[ONES:.*]] = dpc.constant dense<1.000000e+00> : tensor<8x2x1xf32> {dpc.phase = "backward"}
// CHECK: %[[SUMS:.*]] = dpc.embedding_grad %[[IDS]], %[[ONES]] {{.*}}dpc.phase = "backward"
// CHECK: %[[N:.*]] = dpc.reshape %[[SUMS]]
// CHECK: %[[ALL:.*]] = dpc.reduce sum %[[N]] dims = [0] {{.*}}dpc.phase = "update"
// CHECK: %[[MEAN:.*]] = dpc.binary mul %[[ALL]], %{{.*}}
// CHECK: %[[MOST:.*]] = dpc.reduce max %[[N]]
// CHECK: %[[LOAD:.*]] = dpc.binary div %[[MOST]], %[[MEAN]]
// CHECK: %[[MEANS:.*]] = dpc.broadcast %[[MEAN]]
// CHECK: %[[LEFT:.*]] = dpc.binary sub %[[MEANS]], %[[N]]
// CHECK: %[[SIGN:.*]] = dpc.unary sign %[[LEFT]]
// CHECK: %[[CHANGE:.*]] = dpc.binary mul %[[SIGN]], %{{.*}}
// CHECK: %[[NEXT:.*]] = dpc.binary add %[[BIAS]], %[[CHANGE]]
// CHECK: return %{{.*}}, %[[NEXT]], %{{.*}}, %{{.*}}, %[[LOAD]]

// A step whose gradients are not finite keeps the bias.
// FP16: %[[NEXT:.*]] = dpc.binary add %arg2,
// FP16: %[[KEPT:.*]] = dpc.select %{{.*}}, %[[NEXT]], %arg2
// FP16: return {{.*}}%[[KEPT]]
func.func @forward(%w: tensor<4x16x16xf32> {dpc.name = "w", dpc.role = "parameter"}, %r: tensor<16x4xf32> {dpc.name = "r", dpc.role = "parameter"},
                   %b: tensor<4xf32> {dpc.name = "bias", dpc.role = "buffer", dpc.balance_rate = 1.000000e-03 : f64},
                   %x: tensor<8x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> (tensor<f32> {dpc.loss, dpc.name = "loss"}) {
  %l = dpc.matmul %x, %r : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %s = dpc.unary sigmoid %l : tensor<8x4xf32> -> tensor<8x4xf32>
  %bs = dpc.broadcast %b dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %c = dpc.binary add %s, %bs : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %v, %i = dpc.topk %c : tensor<8x4xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
  %y = dpc.expert_matmul %x, %i, %w : (tensor<8x16xf32>, tensor<8x2xi64>, tensor<4x16x16xf32>) -> tensor<8x2x16xf32>
  %loss = dpc.reduce sum %y dims = [0, 1, 2] : tensor<8x2x16xf32> -> tensor<f32>
  return %loss : tensor<f32>
}
