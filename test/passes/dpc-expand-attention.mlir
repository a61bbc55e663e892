// RUN: dpc-opt %s --split-input-file --dpc-expand-attention --verify-diagnostics | FileCheck %s

// Two query heads that share a key head become rows of one matmul.

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x3x5xf32>, %[[K:.*]]: tensor<2x2x6x5xf32>, %[[V:.*]]: tensor<2x2x6x7xf32>
// CHECK-NEXT: %[[QF:.*]] = dpc.reshape %[[Q]] {dpc.phase = "forward"} : tensor<2x4x3x5xf32> -> tensor<2x2x6x5xf32>
// CHECK-NEXT: %[[S:.*]] = dpc.matmul %[[QF]], %[[K]] tb {dpc.phase = "forward"} : {{.*}} -> tensor<2x2x6x6xf32>
// CHECK-NEXT: %[[SU:.*]] = dpc.reshape %[[S]] {{.*}} -> tensor<2x4x3x6xf32>
// CHECK-NEXT: %[[P:.*]], %[[LSE:.*]] = dpc.attention_probs %[[SU]] scale = 5.000000e-01 causal
// CHECK-NEXT: %[[PF:.*]] = dpc.reshape %[[P]] {{.*}} -> tensor<2x2x6x6xf32>
// CHECK-NEXT: %[[O:.*]] = dpc.matmul %[[PF]], %[[V]] {{.*}} -> tensor<2x2x6x7xf32>
// CHECK-NEXT: %[[OU:.*]] = dpc.reshape %[[O]] {{.*}} -> tensor<2x4x3x7xf32>
// CHECK-NEXT: return %[[OU]], %[[LSE]]
func.func @step(%q: tensor<2x4x3x5xf32>, %k: tensor<2x2x6x5xf32>, %v: tensor<2x2x6x7xf32>) -> (tensor<2x4x3x7xf32>, tensor<2x4x3xf32>) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %k, %v scale = 0.5 causal {dpc.phase = "forward"} : (tensor<2x4x3x5xf32>, tensor<2x2x6x5xf32>, tensor<2x2x6x7xf32>) -> (tensor<2x4x3x7xf32>, tensor<2x4x3xf32>)
  return %o, %lse : tensor<2x4x3x7xf32>, tensor<2x4x3xf32>
}

// -----

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{.*}} %[[K:[a-z0-9]+]]: tensor<2x4x6x5xf32>, %[[V:[a-z0-9]+]]: {{.*}} %[[O:[a-z0-9]+]]: {{.*}} %[[LSE:[a-z0-9]+]]: {{.*}} %[[DO:[a-z0-9]+]]: {{.*}} %[[M:[a-z0-9]+]]: tensor<2x1x1x6xf32>
// CHECK-NEXT: %[[S:.*]] = dpc.matmul %[[Q]], %[[K]] tb
// CHECK-NEXT: %[[DP:.*]] = dpc.matmul %[[DO]], %[[V]] tb
// CHECK-NEXT: %[[X:.*]] = dpc.binary mul %[[DO]], %[[O]]
// CHECK-NEXT: %[[D:.*]] = dpc.reduce sum %[[X]] dims = [3]
// CHECK-NEXT: %[[P:.*]], %[[DS:.*]] = dpc.attention_scores_grad %[[S]], %[[LSE]], %[[DP]], %[[D]] mask %[[M]] scale = 5.000000e-01
// CHECK-NEXT: %[[DQ:.*]] = dpc.matmul %[[DS]], %[[K]]
// CHECK-NEXT: %[[DK:.*]] = dpc.matmul %[[DS]], %[[Q]] ta
// CHECK-NEXT: %[[DV:.*]] = dpc.matmul %[[P]], %[[DO]] ta
// CHECK-NEXT: return %[[DQ]], %[[DK]], %[[DV]]
func.func @step(%q: tensor<2x4x3x5xf32>, %k: tensor<2x4x6x5xf32>, %v: tensor<2x4x6x7xf32>, %o: tensor<2x4x3x7xf32>, %lse: tensor<2x4x3xf32>, %do: tensor<2x4x3x7xf32>, %m: tensor<2x1x1x6xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6x7xf32>) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do mask %m scale = 0.5 : (tensor<2x4x3x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6x7xf32>, tensor<2x4x3x7xf32>, tensor<2x4x3xf32>, tensor<2x4x3x7xf32>, tensor<2x1x1x6xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6x7xf32>)
  return %dq, %dk, %dv : tensor<2x4x3x5xf32>, tensor<2x4x6x5xf32>, tensor<2x4x6x7xf32>
}

// -----

// Only local functions change.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.attention
func.func @forward(%q: tensor<1x1x3x5xf32>) -> tensor<1x1x3x5xf32> {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 : (tensor<1x1x3x5xf32>, tensor<1x1x3x5xf32>, tensor<1x1x3x5xf32>) -> (tensor<1x1x3x5xf32>, tensor<1x1x3xf32>)
  return %o : tensor<1x1x3x5xf32>
}
