// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=dp=4,hybrid_shard=2,zero=1,cp=2,cp_kind=ulysses" --dpc-verify-sharded | FileCheck %s --check-prefix=CP
// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=cp=2" --dpc-verify-sharded | FileCheck %s --check-prefix=RING
// RUN: dpc-opt %s --split-input-file --dpc-shard="strategy=tp=4x2" --dpc-verify-sharded | FileCheck %s --check-prefix=GRID

// Ulysses splits positions everywhere except in attention, where it splits heads.
// CP-LABEL: func.func @forward
// CP-SAME: tensor<8x32xi64, #s_dpdpi_cp>
// CP: dpc.matmul
// CP-SAME: -> tensor<8x4x32x16xf32, #s_dpdpi_r_cp_r>
// CP: dpc.reshard
// CP-SAME: #s_dpdpi_r_cp_r> -> tensor<8x4x32x16xf32, #s_dpdpi_cp_r_r>
// CP-NOT: dpc.reshard
// CP: dpc.attention
// CP-SAME: -> (tensor<8x4x32x16xf32, #s_dpdpi_cp_r_r>
// CP: dpc.reshard
// CP-SAME: #s_dpdpi_cp_r_r> -> tensor<8x4x32x16xf32, #s_dpdpi_r_cp_r>
// CP-NOT: dpc.reshard
// CP: return
// A ring splits positions into two stripes, also in attention.
// RING-LABEL: func.func @forward
// RING-SAME: tensor<8x32xi64, #s_r_2x16cp>
// RING-NOT: dpc.reshard
// RING: dpc.attention {{.*}}dpc.ring{{.*}} -> (tensor<8x4x32x16xf32, #s_r_r_2x16cp_r>
// RING-NOT: dpc.reshard
// RING: return
// GRID-LABEL: func.func @forward
func.func @forward(
    %table: tensor<100x64xf32> {dpc.name = "table", dpc.role = "parameter"},
    %w: tensor<4x16x16xf32> {dpc.name = "w", dpc.role = "parameter"},
    %ids: tensor<8x32xi64> {dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x4x32x16xf32> {dpc.name = "y"}) {
  %x = dpc.embedding %table, %ids : (tensor<100x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  %h = dpc.reshape %x : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %t = dpc.transpose %h perm = [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %wb = dpc.broadcast %w dims = [1, 2, 3] : tensor<4x16x16xf32> -> tensor<8x4x16x16xf32>
  %q = dpc.matmul %t, %wb : (tensor<8x4x32x16xf32>, tensor<8x4x16x16xf32>) -> tensor<8x4x32x16xf32>
  %o, %lse = dpc.attention %q, %q, %q scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  %y = dpc.unary gelu %o : tensor<8x4x32x16xf32> -> tensor<8x4x32x16xf32>
  return %y : tensor<8x4x32x16xf32>
}

// -----

// The first axis of the grid splits the 4 outputs completely, so the other splits the
// inputs.
// GRID-LABEL: func.func @forward
// GRID-SAME: tensor<64x4xf32, #s_tp1_tp0>
// GRID: dpc.matmul
// GRID-SAME: -> tensor<8x4xf32, #s_r_tp0_sum_tp1>
// RING-LABEL: func.func @forward
// States are split only over the two ranks of dpi and over cp, with the innermost axis
// first.
// CP-LABEL: func.func @forward
// CP-SAME: tensor<64x4xf32, #s_r_r>
// CP-SAME: tensor<64x4xf32, #s_cpdpi_r>
func.func @forward(
    %w: tensor<64x4xf32> {dpc.name = "w", dpc.role = "parameter"},
    %m: tensor<64x4xf32> {dpc.name = "m", dpc.role = "state", dpc.of = "w", dpc.slot = "momentum"},
    %x: tensor<8x64xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64},
    %positions: tensor<8x32xi64> {dpc.name = "positions", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x4xf32> {dpc.name = "y"}) {
  %y = dpc.matmul %x, %w : (tensor<8x64xf32>, tensor<64x4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}

// -----

// Positions are also striped with a mask, whose columns are all keys.
// RING-LABEL: func.func @forward
// RING-SAME: tensor<8x1x1x32xf32, #s_r_r_r_r>
// RING-NOT: dpc.reshard
// RING: dpc.attention {{.*}}dpc.ring{{.*}} -> (tensor<8x4x32x16xf32, #s_r_r_2x16cp_r>
func.func @forward(
    %table: tensor<100x64xf32> {dpc.name = "table", dpc.role = "parameter"},
    %mask: tensor<8x1x1x32xf32> {dpc.name = "mask", dpc.role = "input", dpc.batch_dim = 0 : i64},
    %ids: tensor<8x32xi64> {dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x4x32x16xf32> {dpc.name = "y"}) {
  %x = dpc.embedding %table, %ids : (tensor<100x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  %h = dpc.reshape %x : tensor<8x32x64xf32> -> tensor<8x32x4x16xf32>
  %t = dpc.transpose %h perm = [0, 2, 1, 3] : tensor<8x32x4x16xf32> -> tensor<8x4x32x16xf32>
  %o, %lse = dpc.attention %t, %t, %t mask %mask scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x1x1x32xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return %o : tensor<8x4x32x16xf32>
}
