// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=4,ep=2 micro-batches=2" --dpc-verify-sharded | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=2,ep=2,zero=3" --dpc-verify-sharded | FileCheck %s --check-prefix=ZERO

// Tokens are gathered over ep once, one all_to_all sends gates to their experts, and a
// reduce_scatter sums the results of the experts.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<32x4xf32, #s_r_r>
// CHECK-SAME: tensor<4x32x64xf32, #s_ep_r_r>
// CHECK-SAME: tensor<4x64x32xf32, #s_ep_r_r>
// CHECK-SAME: %[[X:.*]]: tensor<16x32xf32, #s_dpmbep_r>
// CHECK: dpc.topk
// CHECK-SAME: tensor<16x4xf32, #s_dpmbep_r>
// CHECK: dpc.reshard %[[X]]
// CHECK-SAME: tensor<16x32xf32, #s_dpmbep_r> -> tensor<16x32xf32, #s_dpmb_r>
// CHECK: dpc.matmul
// CHECK-SAME: -> tensor<4x16x64xf32, #s_ep_dpmb_r>
// CHECK: dpc.reshard
// CHECK-SAME: tensor<16x4xf32, #s_dpmbep_r> -> tensor<16x4xf32, #s_dpmb_ep>
// CHECK: dpc.matmul
// CHECK-SAME: -> tensor<16x32xf32, #s_dpmb_r_sum_ep>
// CHECK: dpc.reshard
// CHECK-SAME: tensor<16x32xf32, #s_dpmb_r_sum_ep> -> tensor<16x32xf32, #s_dpmbep_r>
// CHECK-NOT: dpc.reshard
// CHECK: return
// Experts are already split over ep, and ZeRO splits the gate over ep.
// ZERO-LABEL: func.func @forward
// ZERO-SAME: tensor<32x4xf32, #s_ep_r>
// ZERO-SAME: tensor<4x32x64xf32, #s_ep_r_r>
func.func @forward(
    %gate: tensor<32x4xf32> {dpc.name = "gate", dpc.role = "parameter"},
    %w1: tensor<4x32x64xf32> {dpc.name = "w1", dpc.role = "parameter"},
    %w2: tensor<4x64x32xf32> {dpc.name = "w2", dpc.role = "parameter"},
    %x: tensor<16x32xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<16x32xf32> {dpc.name = "y"}) {
  %l = dpc.matmul %x, %gate : (tensor<16x32xf32>, tensor<32x4xf32>) -> tensor<16x4xf32>
  %v, %i = dpc.topk %l : tensor<16x4xf32> -> tensor<16x2xf32>, tensor<16x2xi64>
  %wide = dpc.broadcast %i dims = [0, 1] : tensor<16x2xi64> -> tensor<16x2x4xi64>
  %place = dpc.iota dim = 2 : tensor<16x2x4xi64>
  %hit = dpc.compare eq %place, %wide : (tensor<16x2x4xi64>, tensor<16x2x4xi64>) -> tensor<16x2x4xi1>
  %zero = dpc.constant dense<0.0> : tensor<16x2x4xf32> -> tensor<16x2x4xf32>
  %vw = dpc.broadcast %v dims = [0, 1] : tensor<16x2xf32> -> tensor<16x2x4xf32>
  %s = dpc.select %hit, %vw, %zero : (tensor<16x2x4xi1>, tensor<16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<16x2x4xf32>
  %g = dpc.reduce sum %s dims = [1] : tensor<16x2x4xf32> -> tensor<16x4xf32>
  %xe = dpc.broadcast %x dims = [1, 2] : tensor<16x32xf32> -> tensor<4x16x32xf32>
  %h = dpc.matmul %xe, %w1 : (tensor<4x16x32xf32>, tensor<4x32x64xf32>) -> tensor<4x16x64xf32>
  %gt = dpc.transpose %g perm = [1, 0] : tensor<16x4xf32> -> tensor<4x16xf32>
  %gw = dpc.broadcast %gt dims = [0, 1] : tensor<4x16xf32> -> tensor<4x16x64xf32>
  %m = dpc.binary mul %h, %gw : (tensor<4x16x64xf32>, tensor<4x16x64xf32>) -> tensor<4x16x64xf32>
  %t = dpc.transpose %m perm = [1, 0, 2] : tensor<4x16x64xf32> -> tensor<16x4x64xf32>
  %flat = dpc.reshape %t : tensor<16x4x64xf32> -> tensor<16x256xf32>
  %w = dpc.reshape %w2 : tensor<4x64x32xf32> -> tensor<256x32xf32>
  %y = dpc.matmul %flat, %w : (tensor<16x256xf32>, tensor<256x32xf32>) -> tensor<16x32xf32>
  %z = dpc.binary add %y, %x : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  return %z : tensor<16x32xf32>
}

// -----

// Gates and values of separate products stay on the ranks of their experts, although
// both are reshaped before they meet: nothing is sent between the products.
// CHECK-LABEL: func.func @forward
// CHECK: dpc.expert_matmul {{.*}} -> tensor<16x2x8xf32, #s_dpmb_r_r_routed_ep>
// CHECK: dpc.expert_matmul {{.*}} -> tensor<16x2x8xf32, #s_dpmb_r_r_routed_ep>
// CHECK-NOT: dpc.reshard
// CHECK: dpc.expert_matmul {{.*}} -> tensor<32x16xf32, #{{.*}}_sum_ep>
// CHECK: return
// ZERO-LABEL: func.func @forward
func.func @forward(
    %gate: tensor<16x4xf32> {dpc.name = "gate", dpc.role = "parameter"},
    %g: tensor<4x16x8xf32> {dpc.name = "g", dpc.role = "parameter"},
    %u: tensor<4x16x8xf32> {dpc.name = "u", dpc.role = "parameter"},
    %d: tensor<4x8x16xf32> {dpc.name = "d", dpc.role = "parameter"},
    %x: tensor<16x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<16x16xf32> {dpc.name = "y"}) {
  %l = dpc.matmul %x, %gate : (tensor<16x16xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  %v, %i = dpc.topk %l : tensor<16x4xf32> -> tensor<16x2xf32>, tensor<16x2xi64>
  %ids = dpc.reshape %i : tensor<16x2xi64> -> tensor<32xi64>
  %a = dpc.expert_matmul %x, %i, %g : (tensor<16x16xf32>, tensor<16x2xi64>, tensor<4x16x8xf32>) -> tensor<16x2x8xf32>
  %b = dpc.expert_matmul %x, %i, %u : (tensor<16x16xf32>, tensor<16x2xi64>, tensor<4x16x8xf32>) -> tensor<16x2x8xf32>
  %ar = dpc.reshape %a : tensor<16x2x8xf32> -> tensor<32x1x8xf32>
  %br = dpc.reshape %b : tensor<16x2x8xf32> -> tensor<32x1x8xf32>
  %s = dpc.unary silu %ar : tensor<32x1x8xf32> -> tensor<32x1x8xf32>
  %m = dpc.binary mul %s, %br : (tensor<32x1x8xf32>, tensor<32x1x8xf32>) -> tensor<32x1x8xf32>
  %f = dpc.reshape %m : tensor<32x1x8xf32> -> tensor<32x8xf32>
  %p = dpc.expert_matmul %f, %ids, %d : (tensor<32x8xf32>, tensor<32xi64>, tensor<4x8x16xf32>) -> tensor<32x16xf32>
  %p3 = dpc.reshape %p : tensor<32x16xf32> -> tensor<16x2x16xf32>
  %w = dpc.broadcast %v dims = [0, 1] : tensor<16x2xf32> -> tensor<16x2x16xf32>
  %z = dpc.binary mul %p3, %w : (tensor<16x2x16xf32>, tensor<16x2x16xf32>) -> tensor<16x2x16xf32>
  %y = dpc.reduce sum %z dims = [1] : tensor<16x2x16xf32> -> tensor<16x16xf32>
  return %y : tensor<16x16xf32>
}
