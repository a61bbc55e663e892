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

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>
#b = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}]>

// Biases that no product adds have rows of the set, too: the tiles add both gradients
// of a gate.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.embedding
// CHECK: %[[T:.*]]:2 = dpc.expert_tiles {{.*}} out = [1, 0]
// CHECK: dpc.embedding %
// CHECK: dpc.embedding_grad
// CHECK: dpc.yield
// CHECK: dpc.all_reduce sum %[[T]]#0
// AUTO-LABEL: func.func @step
func.func @step(%a: tensor<64x16xf32>, %ids: tensor<64xi64>, %w: tensor<2x16x16xf32>, %b: tensor<2x16xf32>, %dz: tensor<64x16xf32>) -> (tensor<64xf32>, tensor<2x16xf32>) attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %q = dpc.expert_matmul %dz, %ids, %w tb global = tensor<4x16x16xf32, #e> {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  %m = dpc.binary mul %q, %a {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %d = dpc.reduce sum %m dims = [1] {dpc.phase = "backward"} : tensor<64x16xf32> -> tensor<64xf32>
  %l = dpc.embedding %b, %ids global = tensor<4x16xf32, #b> {dpc.phase = "backward"} : (tensor<2x16xf32>, tensor<64xi64>) -> tensor<64x16xf32>
  %n = dpc.binary mul %dz, %l {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  %e = dpc.reduce sum %n dims = [1] {dpc.phase = "backward"} : tensor<64x16xf32> -> tensor<64xf32>
  %db = dpc.embedding_grad %ids, %dz global = tensor<4x16xf32, #b> {dpc.phase = "backward"} : (tensor<64xi64>, tensor<64x16xf32>) -> tensor<2x16xf32>
  %s = dpc.binary add %d, %e {dpc.phase = "backward"} : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
  %dg = dpc.all_reduce sum %s axes = ["ep"] {dpc.phase = "backward"} : (tensor<64xf32>) -> tensor<64xf32>
  return %dg, %db : tensor<64xf32>, tensor<2x16xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// Matrices that are gathered after the first reader of a result are gathered earlier.
// CHECK-LABEL: func.func @step
// CHECK: %[[G:.*]] = dpc.all_gather %arg3
// CHECK: %[[V:.*]] = dpc.reshape %[[G]]
// CHECK: %[[T:.*]]:2 = dpc.expert_tiles {{.*}}%[[V]]
// CHECK: dpc.reduce sum %[[T]]
// CHECK-NOT: dpc.all_gather
// AUTO-LABEL: func.func @step
func.func @step(%x: tensor<64x16xf32>, %ids: tensor<64xi64>, %dy: tensor<64x16xf32>, %v: tensor<2x8x16xf32>) -> (tensor<f32>, tensor<64x16xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2, ep=2>} {
  %dw = dpc.expert_matmul_grad %x, %ids, %dy global = tensor<4x16x16xf32, #e> {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<64x16xf32>) -> tensor<2x16x16xf32>
  %n = dpc.reduce sum %dw dims = [0, 1, 2] {dpc.phase = "backward"} : tensor<2x16x16xf32> -> tensor<f32>
  %g = dpc.all_gather %v axes = ["dp"] {dpc.at_use, dpc.phase = "backward"} : tensor<2x8x16xf32> -> tensor<2x2x8x16xf32>
  %w = dpc.reshape %g {dpc.phase = "backward"} : tensor<2x2x8x16xf32> -> tensor<2x16x16xf32>
  %dx = dpc.expert_matmul %dy, %ids, %w tb global = tensor<4x16x16xf32, #e> {dpc.phase = "backward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  return %n, %dx : tensor<f32>, tensor<64x16xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// Rows that leave the set and come back cannot be in one tile.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.expert_tiles
// AUTO-LABEL: func.func @step
// AUTO-NOT: dpc.expert_tiles
func.func @step(%x: tensor<64x16xf32>, %ids: tensor<64xi64>, %w: tensor<2x16x16xf32>) -> tensor<64x16xf32> attributes {dpc.mesh = #dpc.mesh<ep=2, tp=2>} {
  %p = dpc.expert_matmul %x, %ids, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  %s = dpc.all_to_all %p axes = ["tp"] {dpc.phase = "forward"} : tensor<64x16xf32> -> tensor<64x16xf32>
  %q = dpc.expert_matmul %s, %ids, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  return %q : tensor<64x16xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// Neither can rows that are computed from sums of the set.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.expert_tiles
// AUTO-LABEL: func.func @step
// AUTO-NOT: dpc.expert_tiles
func.func @step(%x: tensor<32x16xf32>, %ids: tensor<32x2xi64>, %w: tensor<2x16x16xf32>) -> tensor<32x2x16xf32> attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %h = dpc.expert_matmul %x, %ids, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<32x16xf32>, tensor<32x2xi64>, tensor<2x16x16xf32>) -> tensor<32x2x16xf32>
  %s = dpc.reduce sum %h dims = [1] {dpc.phase = "forward"} : tensor<32x2x16xf32> -> tensor<32x16xf32>
  %g = dpc.all_gather %s axes = ["ep"] {dpc.phase = "forward"} : tensor<32x16xf32> -> tensor<2x32x16xf32>
  %y = dpc.reduce sum %g dims = [0] {dpc.phase = "forward"} : tensor<2x32x16xf32> -> tensor<32x16xf32>
  %q = dpc.expert_matmul %y, %ids, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<32x16xf32>, tensor<32x2xi64>, tensor<2x16x16xf32>) -> tensor<32x2x16xf32>
  return %q : tensor<32x2x16xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>

// Ids that are gathered in two shapes are those of one mixture.
// CHECK-LABEL: func.func @step
// CHECK-COUNT-1: dpc.all_gather
// CHECK-NOT: dpc.all_gather
// CHECK-COUNT-1: dpc.expert_tiles
// CHECK-NOT: dpc.expert_tiles
// AUTO-LABEL: func.func @step
func.func @step(%x: tensor<32x16xf32>, %i: tensor<16x2xi64>, %w: tensor<2x16x16xf32>) -> tensor<64x16xf32> attributes {dpc.mesh = #dpc.mesh<ep=2>} {
  %f = dpc.reshape %i {dpc.phase = "forward"} : tensor<16x2xi64> -> tensor<32xi64>
  %g = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16x2xi64> -> tensor<2x16x2xi64>
  %a = dpc.reshape %g {dpc.phase = "forward"} : tensor<2x16x2xi64> -> tensor<32x2xi64>
  %k = dpc.all_gather %f axes = ["ep"] {dpc.phase = "forward"} : tensor<32xi64> -> tensor<2x32xi64>
  %b = dpc.reshape %k {dpc.phase = "forward"} : tensor<2x32xi64> -> tensor<64xi64>
  %h = dpc.expert_matmul %x, %a, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<32x16xf32>, tensor<32x2xi64>, tensor<2x16x16xf32>) -> tensor<32x2x16xf32>
  %r = dpc.reshape %h {dpc.phase = "forward"} : tensor<32x2x16xf32> -> tensor<64x16xf32>
  %q = dpc.expert_matmul %r, %b, %w global = tensor<4x16x16xf32, #e> {dpc.phase = "forward"} : (tensor<64x16xf32>, tensor<64xi64>, tensor<2x16x16xf32>) -> tensor<64x16xf32>
  return %q : tensor<64x16xf32>
}
