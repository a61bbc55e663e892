// RUN: dpc-opt %s --split-input-file --dpc-tile-experts="rows=4" | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-tile-experts | FileCheck %s --check-prefix=AUTO

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// The forward op takes the row of a token for each of its choices, and sums the results
// of a token. The backward op computes the rows again: nothing else is kept.
// CHECK-LABEL: func.func @step
// CHECK: %[[IDS:.*]] = dpc.reshape %{{.*}} : tensor<32x2xi64> -> tensor<64xi64>
// CHECK: %[[Y:.*]] = dpc.expert_tiles %[[IDS]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} in = [2, 0, 0, 1] out = [2]
// CHECK-NEXT: ^bb0(%[[I:.*]]: tensor<4xi64>, %[[X:.*]]: tensor<4x16xf32>, %[[U:.*]]: tensor<2x16x16xf32>, %[[D:.*]]: tensor<2x16x16xf32>, %[[G:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[H:.*]] = dpc.expert_matmul %[[X]], %[[I]], %[[U]]
// CHECK-SAME: -> tensor<4x16xf32>
// CHECK-NEXT: %[[T:.*]] = dpc.unary tanh %[[H]]
// CHECK-NEXT: %[[P:.*]] = dpc.expert_matmul %[[T]], %[[I]], %[[D]]
// CHECK-NEXT: %[[B:.*]] = dpc.broadcast %[[G]] dims = [0]
// CHECK-NEXT: %[[Z:.*]] = dpc.binary mul %[[P]], %[[B]]
// CHECK-NEXT: dpc.yield %[[Z]] : tensor<4x16xf32>
// CHECK: dpc.all_reduce sum %[[Y]]
// CHECK: dpc.expert_tiles {{.*}} out = [0]
// CHECK: dpc.expert_matmul
// CHECK: dpc.unary tanh
// CHECK: %[[DW:.*]] = dpc.expert_matmul_grad
// CHECK-SAME: dpc.phase = "backward"
// CHECK-NEXT: dpc.yield %[[DW]]
// CHECK-NOT: dpc.expert_matmul
// CHECK: return

// A quarter of the expected 32 rows, rounded up to a multiple of 16.
// AUTO-LABEL: func.func @step
// AUTO: ^bb0(%{{.*}}: tensor<16xi64>
func.func @step(%x: tensor<32x16xf32>, %i: tensor<32x2xi64>, %g: tensor<64xf32>, %u: tensor<2x16x16xf32>, %d: tensor<2x16x16xf32>, %dy: tensor<64x16xf32>)
    -> (tensor<32x16xf32>, tensor<2x16x16xf32>) attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %ids = dpc.reshape %i {dpc.phase = "forward"} : tensor<32x2xi64> -> tensor<64xi64>
  %h = dpc.expert_matmul %x, %i, %u global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<32x16xf32>, tensor<32x2xi64>, tensor<2x16x16xf32>) -> tensor<32x2x16xf32>
  %t = dpc.unary tanh %h {dpc.phase = "forward"} : tensor<32x2x16xf32> -> tensor<32x2x16xf32>
  %f = dpc.reshape %t {dpc.phase = "forward"} : tensor<32x2x16xf32> -> tensor<64x16xf32>
  %p = dpc.expert_matmul %f, %ids, %d global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  %b = dpc.broadcast %g dims = [0] {dpc.phase = "forward"} : tensor<64xf32> -> tensor<64x16xf32>
  %z = dpc.binary mul %p, %b {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %s = dpc.reshape %z {dpc.phase = "forward"} : tensor<64x16xf32> -> tensor<32x2x16xf32>
  %r = dpc.reduce sum %s dims = [1] {dpc.phase = "forward"} : tensor<32x2x16xf32> -> tensor<32x16xf32>
  %y = dpc.all_reduce sum %r axes = ["ep"] {dpc.phase = "forward"} : (tensor<32x16xf32>) -> tensor<32x16xf32>
  %dd = dpc.expert_matmul_grad %f, %ids, %dy global = tensor<4x16x16xf32, #e> {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<64x16xf32>) -> tensor<2x16x16xf32>
  return %y, %dd : tensor<32x16xf32>, tensor<2x16x16xf32>
}

// -----

// Experts that are not split have no rows of other ranks.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.expert_tiles
// AUTO-LABEL: func.func @step
// AUTO-NOT: dpc.expert_tiles
func.func @step(%x: tensor<32x16xf32>, %i: tensor<32xi64>, %w: tensor<4x16x16xf32>) -> tensor<32x16xf32> attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %y = dpc.expert_matmul %x, %i, %w {dpc.phase = "forward"} : (tensor<32x16xf32>, tensor<32xi64>, tensor<4x16x16xf32>) -> tensor<32x16xf32>
  return %y : tensor<32x16xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// The gradient of gates reads rows that are rounded to integers, which follow from no
// other product.
// CHECK-LABEL: func.func @step
// CHECK: dpc.expert_tiles
// CHECK: dpc.convert {{.*}} -> tensor<4x16xi32>
// CHECK: %[[Q:.*]] = dpc.convert {{.*}} -> tensor<4x16xf32>
// CHECK: %[[M:.*]] = dpc.binary mul %{{.*}}, %[[Q]]
// CHECK: dpc.reduce sum %[[M]] dims = [1]
// AUTO-LABEL: func.func @step
func.func @step(%x: tensor<64x16xf32>, %ids: tensor<64xi64>, %g: tensor<64xf32>, %d: tensor<2x16x16xf32>, %dy: tensor<64x16xf32>)
    -> (tensor<64xf32>, tensor<64x16xf32>) attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %p = dpc.expert_matmul %x, %ids, %d global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  %b = dpc.broadcast %g dims = [0] {dpc.phase = "backward"} : tensor<64xf32> -> tensor<64x16xf32>
  %i = dpc.convert %p {dpc.phase = "backward"} : tensor<64x16xf32> -> tensor<64x16xi32>
  %q = dpc.convert %i {dpc.phase = "backward"} : tensor<64x16xi32> -> tensor<64x16xf32>
  %m = dpc.binary mul %dy, %q {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %dg = dpc.reduce sum %m dims = [1] {dpc.phase = "backward"} : tensor<64x16xf32> -> tensor<64xf32>
  %dz = dpc.binary mul %dy, %b {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %dx = dpc.expert_matmul %dz, %ids, %d tb global = tensor<4x16x16xf32, #e> {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  return %dg, %dx : tensor<64xf32>, tensor<64x16xf32>
}
