// RUN: dpc-opt %s --pass-pipeline="builtin.module(func.func(dpc-expand-batch-norm))" | FileCheck %s
// RUN: dpc-opt %s --pass-pipeline="builtin.module(func.func(dpc-expand-batch-norm{data-ranks=2 micro-batches=4}))" | FileCheck %s --check-prefix=MICRO
// RUN: not dpc-opt %s --pass-pipeline="builtin.module(func.func(dpc-expand-batch-norm{data-ranks=3 micro-batches=2}))" 2>&1 | FileCheck %s --check-prefix=UNEVEN

// The sums over the batch and the image are divided by 16 * 9. Phases and groups
// remain.
// CHECK-LABEL: func @step
// CHECK-NEXT: %[[SUM:.*]] = dpc.reduce sum %arg0 dims = [0, 2] {dpc.group = 3 : i64, dpc.phase = "forward"} : tensor<16x5x9xf32> -> tensor<5xf32>
// CHECK-NEXT: dpc.constant dense<0.0069
// CHECK-NEXT: %[[MEAN:.*]] = dpc.binary mul %[[SUM]]
// CHECK-NEXT: %[[SPREAD:.*]] = dpc.broadcast %[[MEAN]] dims = [1]
// CHECK-NEXT: %[[X:.*]] = dpc.binary sub %arg0, %[[SPREAD]]
// CHECK-NEXT: %[[SQUARE:.*]] = dpc.binary mul %[[X]], %[[X]]
// CHECK-NEXT: dpc.reduce sum %[[SQUARE]] dims = [0, 2]
// CHECK: %[[Y:.*]] = dpc.binary add {{.*}}dpc.phase = "forward"{{.*}} -> tensor<16x5x9xf32>
// The gradient reads the statistics of the forward pass.
// CHECK: dpc.broadcast %[[MEAN]] dims = [1] {dpc.group = 3 : i64, dpc.phase = "backward"}
// CHECK: %[[DBIAS:.*]] = dpc.reduce sum %arg3 dims = [0, 2]
// CHECK-NOT: dpc.batch_norm
// CHECK: return %[[Y]], %{{.*}}, %{{.*}}, %{{.*}}, %[[DBIAS]]

// Sample (d, m, i) is in micro-batch m. Running statistics are averaged.
// MICRO-LABEL: func @step
// MICRO-NEXT: %[[X:.*]] = dpc.reshape %arg0 {{.*}} -> tensor<2x4x2x5x9xf32>
// MICRO-NEXT: %[[SUM:.*]] = dpc.reduce sum %[[X]] dims = [0, 2, 4] {{.*}} -> tensor<4x5xf32>
// MICRO-NEXT: dpc.constant dense<0.0277
// MICRO-NEXT: %[[MEAN:.*]] = dpc.binary mul %[[SUM]]
// MICRO-NEXT: dpc.broadcast %[[MEAN]] dims = [1, 3] {{.*}} -> tensor<2x4x2x5x9xf32>
// MICRO: dpc.reduce sum %[[MEAN]] dims = [0] {{.*}} -> tensor<5xf32>
// MICRO: %[[DBIAS:.*]] = dpc.reduce sum %{{.*}} dims = [0, 2, 4] {{.*}}"backward"
// MICRO: dpc.reduce sum %[[DBIAS]] dims = [0]

// UNEVEN: batch norm computes statistics per micro-batch, so all micro-batches must have the same size: a batch of 16 cannot be split into 3 x 2
func.func @step(%x: tensor<16x5x9xf32>, %s: tensor<5xf32>, %b: tensor<5xf32>, %dy: tensor<16x5x9xf32>) -> (tensor<16x5x9xf32>, tensor<5xf32>, tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>) {
  %y, %m, %v = dpc.batch_norm %x, %s, %b eps = 1.0e-5 {dpc.phase = "forward", dpc.group = 3 : i64} : (tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>)
  %dx, %ds, %db = dpc.batch_norm_grad %x, %m, %v, %dy, %s eps = 1.0e-5 {dpc.phase = "backward", dpc.group = 3 : i64} : (tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>, tensor<16x5x9xf32>, tensor<5xf32>) -> (tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>)
  return %y, %m, %dx, %ds, %db : tensor<16x5x9xf32>, tensor<5xf32>, tensor<16x5x9xf32>, tensor<5xf32>, tensor<5xf32>
}

// Weights that a model standardizes by a batch norm have no samples to split.
// MICRO-LABEL: func @standardized
// MICRO-NEXT: dpc.reduce sum %arg0 dims = [0, 2] : tensor<1x5x9xf32> -> tensor<5xf32>
func.func @standardized(%w: tensor<1x5x9xf32> {dpc.role = "parameter", dpc.name = "w"}, %s: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<1x5x9xf32> {
  %y, %m, %v = dpc.batch_norm %w, %s, %b eps = 1.0e-5 : (tensor<1x5x9xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<1x5x9xf32>, tensor<5xf32>, tensor<5xf32>)
  return %y : tensor<1x5x9xf32>
}
