// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=2,tp=2" --dpc-verify-sharded | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=2 micro-batches=2" --dpc-verify-sharded | FileCheck %s --check-prefix=MB
// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=tp=3" --dpc-verify-sharded | FileCheck %s --check-prefix=UNEVEN

// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=4,zero=3" --dpc-verify-sharded | FileCheck %s --check-prefix=ZERO

// The parameter is stored split over dp, and gathered before its use.
// ZERO-LABEL: func.func @train_step
// ZERO-SAME: %[[W1:.*]]: tensor<16x64xf32, #s_dp_r>
// ZERO: %[[FULL:.*]] = dpc.reshard %[[W1]] {dpc.at_use, dpc.phase = "forward"}
// ZERO: dpc.matmul %{{.*}}, %[[FULL]]

// The first matmul is split by columns and the second by rows, so only one reduction at
// the end is needed (the MLP of Megatron-LM).
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %[[W1:.*]]: tensor<16x64xf32, #s_r_tp>
// CHECK-SAME: %[[W2:.*]]: tensor<64x16xf32, #s_tp_r>
// CHECK-SAME: %[[X:.*]]: tensor<8x16xf32, #s_dp_r>
// CHECK: dpc.matmul %[[X]], %[[W1]]
// CHECK-SAME: -> tensor<8x64xf32, #s_dp_tp>
// CHECK: dpc.matmul
// CHECK-SAME: -> tensor<8x16xf32, #s_dp_r_sum_tp>
// CHECK: dpc.reshard
// CHECK-SAME: tensor<8x16xf32, #s_dp_r_sum_tp> -> tensor<8x16xf32, #s_dp_r>
// CHECK-NOT: dpc.reshard
// CHECK: return

// MB-LABEL: func.func @train_step
// MB: dpc.matmul
// MB-SAME: -> tensor<8x64xf32, #s_dpmb_r>
// MB-NOT: dpc.reshard
// MB: return

// 64 columns over 3 ranks are 22, 22 and 20 columns.
// UNEVEN-LABEL: func.func @train_step
// UNEVEN-SAME: tensor<16x64xf32, #s_r_tp>
func.func @train_step(
    %w1: tensor<16x64xf32> {dpc.name = "w1", dpc.role = "parameter"},
    %w2: tensor<64x16xf32> {dpc.name = "w2", dpc.role = "parameter"},
    %x: tensor<8x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x16xf32> {dpc.name = "y"}) {
  %h = dpc.matmul %x, %w1 {dpc.phase = "forward"} : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %g = dpc.unary relu %h {dpc.phase = "forward"} : tensor<8x64xf32> -> tensor<8x64xf32>
  %y = dpc.matmul %g, %w2 {dpc.phase = "forward"} : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %n, %mean, %rstd = dpc.norm rms %y eps = 1.0e-5 {dpc.phase = "forward"} : (tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>)
  return %n : tensor<8x16xf32>
}

// -----

// A fused qkv projection is split by heads: 192 columns are 3 x (4 x 16). Neither the
// slices nor the reshape communicate.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: tensor<64x192xf32, #s_r_3x64tp>
// CHECK-NOT: dpc.reshard
// CHECK: dpc.attention
// CHECK-SAME: -> (tensor<8x4x32x16xf32, #s_dp_tp_r_r>
// CHECK-NOT: dpc.reshard
// CHECK: dpc.matmul
// CHECK-SAME: -> tensor<8x32x64xf32, #s_dp_r_r_sum_tp>
// CHECK: dpc.reshard
// CHECK: return
// UNEVEN-LABEL: func.func @forward
// MB-LABEL: func.func @forward
func.func @forward(
    %w: tensor<64x192xf32> {dpc.name = "w", dpc.role = "parameter"},
    %p: tensor<64x64xf32> {dpc.name = "p", dpc.role = "parameter"},
    %x: tensor<8x32x64xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x32x64xf32> {dpc.name = "y"}) {
  %h = dpc.matmul %x, %w : (tensor<8x32x64xf32>, tensor<64x192xf32>) -> tensor<8x32x192xf32>
  %q0 = dpc.slice %h offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %k0 = dpc.slice %h offsets = [0, 0, 64] strides = [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %v0 = dpc.slice %h offsets = [0, 0, 128] strides = [1, 1, 1] : tensor<8x32x192xf32> -> tensor<8x32x64xf32>
  %q1 = dpc.reshape %q0 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %k1 = dpc.reshape %k0 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %v1 = dpc.reshape %v0 : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %q = dpc.transpose %q1 perm = [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %k = dpc.transpose %k1 perm = [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %v = dpc.transpose %v1 perm = [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %o, %lse = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  %t = dpc.transpose %o perm = [0, 2, 1, 3] : tensor<8x4x32x16xf32> -> tensor<8x32x4x16xf32>
  %r = dpc.reshape %t : tensor<8x32x4x16xf32> -> tensor<8x32x64xf32>
  %y = dpc.matmul %r, %p : (tensor<8x32x64xf32>, tensor<64x64xf32>) -> tensor<8x32x64xf32>
  %n, %mean, %rstd = dpc.norm rms %y eps = 1.0e-5 : (tensor<8x32x64xf32>) -> (tensor<8x32x64xf32>, tensor<8x32xf32>, tensor<8x32xf32>)
  return %n : tensor<8x32x64xf32>
}

// -----

// In ZeRO, the gradient is scattered and a shard is updated.
// ZERO-LABEL: func.func @forward
// ZERO-LABEL: func.func @train_step
// ZERO: dpc.reshard %{{.*}} : tensor<16x64xf32, #s_r_r_sum_dp> -> tensor<16x64xf32, #s_dp_r>
// ZERO: dpc.sgd {{.*}} -> (tensor<16x64xf32, #s_dp_r>
// A gradient gets the sharding of its parameter once, next to its definition. The norm
// and the optimizer read the same value.
// CHECK-LABEL: func.func @train_step
// CHECK: %[[G:.*]] = dpc.matmul
// CHECK-SAME: #s_r_{{(r|tp)}}_sum_dp
// CHECK-NEXT: %[[R:.*]] = dpc.reshard %[[G]]
// CHECK: dpc.global_norm %[[R]]
// CHECK-NOT: dpc.reshard
// CHECK: dpc.sgd {{.*}}, {{.*}}, %[[R]]
// MB-LABEL: func.func @train_step
// UNEVEN-LABEL: func.func @train_step
func.func @train_step(
    %w: tensor<16x64xf32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<8x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64},
    %dy: tensor<8x64xf32> {dpc.name = "dy", dpc.role = "input", dpc.batch_dim = 0 : i64},
    %lr: tensor<f32> {dpc.name = "lr", dpc.role = "scalar"},
    %step: tensor<f32> {dpc.name = "step", dpc.role = "scalar"})
    -> (tensor<16x64xf32> {dpc.name = "w", dpc.ties = 0 : i64}, tensor<f32> {dpc.name = "grad_norm"}) {
  %g = dpc.matmul %x, %dy ta {dpc.phase = "backward"} : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  %n = dpc.global_norm %g {dpc.phase = "update"} : (tensor<16x64xf32>) -> tensor<f32>
  %p, %b = dpc.sgd %w, %g, %g, %n, %lr, %step momentum = 0.0 weight_decay = 0.0 {dpc.phase = "update"} : (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<16x64xf32>, tensor<16x64xf32>)
  return %p, %n : tensor<16x64xf32>, tensor<f32>
}

// -----

// Empty tensors are not split.
// CHECK-LABEL: func.func @forward
// CHECK: dpc.reshape %{{.*}} : tensor<2x0xf32, #s_r_r> -> tensor<3x0xf32, #s_r_r>
func.func @forward(%x: tensor<2x0xf32> {dpc.name = "x", dpc.role = "input"}) -> (tensor<3x0xf32> {dpc.name = "y"}) {
  %0 = dpc.reshape %x : tensor<2x0xf32> -> tensor<3x0xf32>
  return %0 : tensor<3x0xf32>
}

// -----

// A state may be before its parameter.
// CHECK-LABEL: func.func @train_step
// CHECK-SAME: %{{[^:]*}}: tensor<16x64xf32, #[[S:[a-z_]*]]> {dpc.name = "w.momentum"
// CHECK-SAME: %{{[^:]*}}: tensor<16x64xf32, #[[S]]> {dpc.name = "w"
func.func @train_step(
    %m: tensor<16x64xf32> {dpc.name = "w.momentum", dpc.of = "w", dpc.role = "state", dpc.slot = "momentum"},
    %w: tensor<16x64xf32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<8x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> (tensor<8x64xf32> {dpc.name = "y"}) {
  %0 = dpc.matmul %x, %w : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}
