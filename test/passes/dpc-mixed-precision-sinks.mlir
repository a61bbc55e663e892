// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision))' | FileCheck %s

// Sinks are in f32 as the statistics, also if they are computed.

// CHECK-LABEL: func.func @forward
// CHECK: %[[SUM:.*]] = dpc.binary add {{.*}} -> tensor<2xbf16>
// CHECK: %[[SINKS:.*]] = dpc.convert %[[SUM]] : tensor<2xbf16> -> tensor<2xf32>
// CHECK: dpc.attention {{.*}} sinks %[[SINKS]] {{.*}} -> (tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>)
func.func @forward(%q: tensor<1x2x4x8xf32> {dpc.role = "input"}, %s: tensor<2xf32> {dpc.role = "parameter"}) -> tensor<1x2x4x8xf32> {
  %sum = dpc.binary add %s, %s : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %o, %lse = dpc.attention %q, %q, %q sinks %sum scale = 0.5 causal : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<2xf32>) -> (tensor<1x2x4x8xf32>, tensor<1x2x4xf32>)
  return %o : tensor<1x2x4x8xf32>
}
