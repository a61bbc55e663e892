// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision))' | FileCheck %s
// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{type=f16}))' | FileCheck %s --check-prefix=F16

// A convolution has the compute type, like the copy of its parameter and the bias. Sums
// are in f32.

// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4x4xf32> {{.*}}, %[[W:.*]]: tensor<5x3x3x3xf32> {{.*}}, %[[B:.*]]: tensor<2x5x4x4xf32>
// CHECK-DAG: %[[XH:.*]] = dpc.convert %[[X]] : tensor<2x3x4x4xf32> -> tensor<2x3x4x4xbf16>
// CHECK-DAG: %[[WH:.*]] = dpc.convert %[[W]] : tensor<5x3x3x3xf32> -> tensor<5x3x3x3xbf16>
// CHECK-DAG: %[[BH:.*]] = dpc.convert %[[B]] : tensor<2x5x4x4xf32> -> tensor<2x5x4x4xbf16>
// CHECK: %[[Y:.*]] = dpc.conv %[[XH]], %[[WH]] {{.*}} -> tensor<2x5x4x4xbf16>
// CHECK: %[[S:.*]] = dpc.binary add %[[Y]], %[[BH]] : {{.*}} -> tensor<2x5x4x4xbf16>
// CHECK: %[[SF:.*]] = dpc.convert %[[S]] : tensor<2x5x4x4xbf16> -> tensor<2x5x4x4xf32>
// CHECK: dpc.reduce sum %[[SF]] {{.*}} -> tensor<f32>

// F16: dpc.conv {{.*}} : (tensor<2x3x4x4xf16>, tensor<5x3x3x3xf16>) -> tensor<2x5x4x4xf16>
func.func @forward(%x: tensor<2x3x4x4xf32> {dpc.role = "input"}, %w: tensor<5x3x3x3xf32> {dpc.role = "parameter"}, %b: tensor<2x5x4x4xf32> {dpc.role = "parameter"}) -> tensor<f32> {
  %y = dpc.conv %x, %w strides = [1, 1] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<2x3x4x4xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x4x4xf32>
  %s = dpc.binary add %y, %b : (tensor<2x5x4x4xf32>, tensor<2x5x4x4xf32>) -> tensor<2x5x4x4xf32>
  %sum = dpc.reduce sum %s dims = [0, 1, 2, 3] : tensor<2x5x4x4xf32> -> tensor<f32>
  return %sum : tensor<f32>
}
