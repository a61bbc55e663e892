// RUN: dpc-opt %s --split-input-file --dpc-partition --dpc-verify-local | FileCheck %s
// Encodings are printed as aliases of their content: #s_dp_r.

// Arguments and results keep their attributes and get their global type. A partial sum
// over dp becomes one all_reduce.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>
#w = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>
#g = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}], partial = {dp : sum}>

// CHECK-LABEL: func.func @train_step
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32> {dpc.global = tensor<8x3xf32, #s_dp_r>, dpc.name = "x", dpc.role = "input"}
// CHECK-SAME: -> (tensor<3x3xf32> {dpc.global = tensor<3x3xf32, #s_r_r>, dpc.name = "dw"})
// CHECK-SAME: dpc.mesh = #dpc.mesh<dp=2>
// CHECK: %[[P:.*]] = dpc.matmul %[[X]], %[[X]] ta {dpc.phase = "backward"} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
// CHECK-NEXT: %[[S:.*]] = dpc.all_reduce sum %[[P]] axes = ["dp"] {dpc.phase = "backward"} : (tensor<3x3xf32>) -> tensor<3x3xf32>
// CHECK-NEXT: return %[[S]]
func.func @train_step(%x: tensor<8x3xf32, #x> {dpc.name = "x", dpc.role = "input"}) -> (tensor<3x3xf32, #w> {dpc.name = "dw"}) {
  %0 = dpc.matmul %x, %x ta {dpc.phase = "backward"} : (tensor<8x3xf32, #x>, tensor<8x3xf32, #x>) -> tensor<3x3xf32, #g>
  %1 = dpc.reshard %0 {dpc.phase = "backward"} : tensor<3x3xf32, #g> -> tensor<3x3xf32, #w>
  return %1 : tensor<3x3xf32, #w>
}

// -----

// Seven rows over two ranks. Both operands of the contraction use the same mask.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>
#g = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}], partial = {dp : sum}>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>
// CHECK: %[[M:.*]] = dpc.mask %[[X]] value = 0.000000e+00 global = tensor<7x3xf32, #s_dp_r>
// CHECK-NEXT: dpc.matmul %[[M]], %[[M]] ta
func.func @forward(%x: tensor<7x3xf32, #x> {dpc.role = "input"}) -> tensor<3x3xf32, #g> {
  %0 = dpc.matmul %x, %x ta : (tensor<7x3xf32, #x>, tensor<7x3xf32, #x>) -> tensor<3x3xf32, #g>
  return %0 : tensor<3x3xf32, #g>
}

// -----

// Rows are not reduced, so they need no mask. The mask of a maximum is minus infinity.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
#c = #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {dp : max}>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>
// CHECK-NEXT: dpc.reduce max %[[X]] dims = [1]
// CHECK-NEXT: %[[M:.*]] = dpc.mask %[[X]] value = 0xFFF0000000000000
// CHECK-NEXT: dpc.reduce max %[[M]] dims = [0]
func.func @forward(%x: tensor<7x3xf32, #x> {dpc.role = "input"}) -> (tensor<7xf32, #r>, tensor<3xf32, #c>) {
  %0 = dpc.reduce max %x dims = [1] : tensor<7x3xf32, #x> -> tensor<7xf32, #r>
  %1 = dpc.reduce max %x dims = [0] : tensor<7x3xf32, #x> -> tensor<3xf32, #c>
  return %0, %1 : tensor<7xf32, #r>, tensor<3xf32, #c>
}

// -----

// A slice of k from a fused q, k, v that is split by heads has local offsets and needs
// no communication. Four heads of size two are split over three ranks.

#f = #dpc.sharding<#dpc.mesh<tp=3>, [{}, {3, 4:tp, 2}]>
#k = #dpc.sharding<#dpc.mesh<tp=3>, [{}, {4:tp, 2}]>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<5x12xf32>
// CHECK-NEXT: %[[K:.*]] = dpc.slice %[[X]] offsets = [0, 4] strides = [1, 1] {{.*}}: tensor<5x12xf32> -> tensor<5x4xf32>
// CHECK-NEXT: %[[P:.*]] = dpc.pad %[[K]] low = [0, 8] strides = [1, 1] {{.*}}: tensor<5x4xf32> -> tensor<5x12xf32>
// CHECK-NEXT: return
func.func @forward(%x: tensor<5x24xf32, #f> {dpc.role = "input"}) -> (tensor<5x8xf32, #k>, tensor<5x24xf32, #f>) {
  %0 = dpc.slice %x offsets = [0, 8] strides = [1, 1] : tensor<5x24xf32, #f> -> tensor<5x8xf32, #k>
  %1 = dpc.pad %0 low = [0, 16] strides = [1, 1] : tensor<5x8xf32, #k> -> tensor<5x24xf32, #f>
  return %0, %1 : tensor<5x8xf32, #k>, tensor<5x24xf32, #f>
}

// -----

// Ops that count along a split dimension get the global type; other ops do not.

#t = #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {}]>
#c = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp}]>
#i = #dpc.sharding<#dpc.mesh<tp=2>, [{}]>
#y = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}], partial = {tp : sum}>

// CHECK-LABEL: func.func @step
// CHECK: dpc.iota dim = 0 global = tensor<7x4xi64, {{.*}}> {{.*}}: tensor<4x4xi64>
// CHECK: dpc.iota dim = 1 {dpc.phase = "setup"} : tensor<4x4xi64>
// CHECK: dpc.embedding {{.*}} global = tensor<7x4xf32, {{.*}}>
// CHECK: dpc.embedding %{{[a-z0-9]+}}, %{{[a-z0-9]+}} {dpc.phase
func.func @forward(%t: tensor<7x4xf32, #t>, %u: tensor<7x4xf32, #c>, %ids: tensor<5xi64, #i> {dpc.role = "input"})
    -> (tensor<7x4xi64, #t>, tensor<7x4xi64, #t>, tensor<5x4xf32, #y>, tensor<5x4xf32, #c>) {
  %0 = dpc.iota dim = 0 : tensor<7x4xi64, #t>
  %1 = dpc.iota dim = 1 : tensor<7x4xi64, #t>
  %2 = dpc.embedding %t, %ids : (tensor<7x4xf32, #t>, tensor<5xi64, #i>) -> tensor<5x4xf32, #y>
  %3 = dpc.embedding %u, %ids : (tensor<7x4xf32, #c>, tensor<5xi64, #i>) -> tensor<5x4xf32, #c>
  return %0, %1, %2, %3 : tensor<7x4xi64, #t>, tensor<7x4xi64, #t>, tensor<5x4xf32, #y>, tensor<5x4xf32, #c>
}

// -----

// With micro-batches, the sum over mb is next to the gradient, and the sum over ranks
// runs once per step. Values that do not depend on the micro-batch are computed in
// setup.

#x = #dpc.sharding<#dpc.mesh<dp=2, mb=4>, [{dp, mb}, {}]>
#w = #dpc.sharding<#dpc.mesh<dp=2, mb=4>, [{}, {}]>
#g = #dpc.sharding<#dpc.mesh<dp=2, mb=4>, [{}, {}], partial = {dp : sum, mb : sum}>

// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<2x3xf32>
// CHECK-NEXT: %[[W:.*]] = dpc.unary neg {{.*}} {dpc.phase = "setup"}
// CHECK-NEXT: %[[Y:.*]] = dpc.matmul %{{.*}}, %[[W]] {dpc.phase = "forward"}
// CHECK-NEXT: %[[P:.*]] = dpc.matmul %{{.*}}, %[[Y]] ta {dpc.phase = "backward"}
// CHECK-NEXT: %[[A:.*]] = dpc.accumulate sum %[[P]] {dpc.phase = "backward"}
// CHECK-NEXT: %[[R:.*]] = dpc.all_reduce sum %[[A]] axes = ["dp"] {dpc.phase = "update"}
// CHECK-NEXT: dpc.binary sub %{{.*}}, %[[R]] {dpc.phase = "update"}
func.func @train_step(%x: tensor<16x3xf32, #x> {dpc.role = "input"}, %w: tensor<3x3xf32, #w> {dpc.role = "parameter"}) -> tensor<3x3xf32, #w> {
  %n = dpc.unary neg %w {dpc.phase = "forward"} : tensor<3x3xf32, #w> -> tensor<3x3xf32, #w>
  %y = dpc.matmul %x, %n {dpc.phase = "forward"} : (tensor<16x3xf32, #x>, tensor<3x3xf32, #w>) -> tensor<16x3xf32, #x>
  %p = dpc.matmul %x, %y ta {dpc.phase = "backward"} : (tensor<16x3xf32, #x>, tensor<16x3xf32, #x>) -> tensor<3x3xf32, #g>
  %g = dpc.reshard %p {dpc.phase = "backward"} : tensor<3x3xf32, #g> -> tensor<3x3xf32, #w>
  %v = dpc.binary sub %w, %g {dpc.phase = "update"} : (tensor<3x3xf32, #w>, tensor<3x3xf32, #w>) -> tensor<3x3xf32, #w>
  return %v : tensor<3x3xf32, #w>
}

// -----

// The inner dimension of an uneven split is gathered, transposed and trimmed.

#c = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp}]>
#r = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>
// CHECK-NEXT: %[[G:.*]] = dpc.all_gather %[[X]] axes = ["tp"] {{.*}}: tensor<2x4xf32> -> tensor<2x2x4xf32>
// CHECK-NEXT: %[[T:.*]] = dpc.transpose %[[G]] perm = [1, 0, 2]
// CHECK-NEXT: %[[F:.*]] = dpc.reshape %[[T]] {{.*}}: tensor<2x2x4xf32> -> tensor<2x8x1xf32>
// CHECK-NEXT: %[[S:.*]] = dpc.slice %[[F]] {{.*}}: tensor<2x8x1xf32> -> tensor<2x7x1xf32>
// CHECK-NEXT: dpc.reshape %[[S]] {{.*}}: tensor<2x7x1xf32> -> tensor<2x7xf32>
func.func @forward(%x: tensor<2x7xf32, #c> {dpc.role = "input"}) -> tensor<2x7xf32, #r> {
  %0 = dpc.reshard %x : tensor<2x7xf32, #c> -> tensor<2x7xf32, #r>
  return %0 : tensor<2x7xf32, #r>
}

// -----

// An op of the loop reads a sum over all micro-batches. A pass with chunks of its own
// computes the sum before the loop.

#r = #dpc.sharding<#dpc.mesh<mb=2>, []>
#b = #dpc.sharding<#dpc.mesh<mb=2>, [{mb}]>
#p = #dpc.sharding<#dpc.mesh<mb=2>, [], partial = {mb : sum}>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4xf32>
// CHECK-SAME: dpc.schedule = array<i64: 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1>, dpc.totals_passes = 1 : i64
// CHECK-NEXT: %[[P:.*]] = dpc.reduce sum %[[X]] dims = [0] {dpc.phase = "forward"}
// CHECK-NEXT: %[[S:.*]] = dpc.accumulate sum %[[P]] {dpc.phase = "forward"}
// CHECK-NEXT: %[[B:.*]] = dpc.broadcast %[[S]] dims = [] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK-NEXT: %[[Y:.*]] = dpc.binary add %[[X]], %[[B]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK-NEXT: return %[[Y]]
func.func @forward(%x: tensor<8xf32, #b> {dpc.role = "input"}) -> tensor<8xf32, #b> {
  %0 = dpc.reduce sum %x dims = [0] : tensor<8xf32, #b> -> tensor<f32, #p>
  %1 = dpc.reshard %0 : tensor<f32, #p> -> tensor<f32, #r>
  %2 = dpc.broadcast %1 dims = [] : tensor<f32, #r> -> tensor<8xf32, #b>
  %3 = dpc.binary add %x, %2 : (tensor<8xf32, #b>, tensor<8xf32, #b>) -> tensor<8xf32, #b>
  return %3 : tensor<8xf32, #b>
}
