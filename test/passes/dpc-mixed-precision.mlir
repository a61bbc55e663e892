// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision))' | FileCheck %s
// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{type=f16}))' | FileCheck %s --check-prefix=F16
// RUN: not dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{type=f8}))' 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: compute type is 'f8', expected bf16 or f16

// The parameter has two users but is converted once. Row statistics, losses and sums
// are in f32. A constant gets the type that its user needs. Values computed from
// integers remain in f32, because the mask is only added here.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32> {{.*}}, %[[W:.*]]: tensor<8x8xf32> {{.*}}, %[[L:.*]]: tensor<4xi64>
// CHECK-DAG: %[[XH:.*]] = dpc.convert %[[X]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-DAG: %[[WH:.*]] = dpc.convert %[[W]] : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK-NOT: dpc.convert %[[W]]
// CHECK: %[[H:.*]] = dpc.matmul %[[XH]], %[[WH]] : {{.*}} -> tensor<4x8xbf16>
// CHECK: dpc.constant dense<5.000000e-01> : tensor<4x8xbf16>
// CHECK: %[[S:.*]] = dpc.binary mul %[[H]], {{.*}} -> tensor<4x8xbf16>
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = dpc.norm layer %[[S]] eps = {{.*}} -> (tensor<4x8xbf16>, tensor<4xf32>, tensor<4xf32>)
// CHECK: %[[Y:.*]] = dpc.matmul %[[N]], %[[WH]] {{.*}} -> tensor<4x8xf32>
// CHECK: %[[LOSS:.*]], %{{.*}} = dpc.cross_entropy %[[Y]], %[[L]] {{.*}} : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK: dpc.reduce sum %[[LOSS]] {{.*}} -> tensor<f32>

// Finite numbers remain finite.
// F16: dpc.constant dense<-6.550400e+04> : tensor<4x8xf16>
func.func @forward(%x: tensor<4x8xf32> {dpc.role = "input"}, %w: tensor<8x8xf32> {dpc.role = "parameter"}, %labels: tensor<4xi64> {dpc.role = "input"}) -> (tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %h = dpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %half = dpc.constant dense<0.5> : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = dpc.binary mul %h, %half : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %n, %mean, %rstd = dpc.norm layer %s eps = 1.0e-5 : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>)
  %y = dpc.matmul %n, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %loss, %lse = dpc.cross_entropy %y, %labels ignore_index = -100 : (tensor<4x8xf32>, tensor<4xi64>) -> (tensor<4xf32>, tensor<4xf32>)
  %sum = dpc.reduce sum %loss dims = [0] : tensor<4xf32> -> tensor<f32>
  %low = dpc.constant dense<-1.0e9> : tensor<4x8xf32> -> tensor<4x8xf32>
  %masked = dpc.binary add %h, %low : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %sum, %y, %masked : tensor<f32>, tensor<4x8xf32>, tensor<4x8xf32>
}
