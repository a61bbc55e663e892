// RUN: dpc-opt %s --split-input-file --dpc-tile-experts="rows=4 gather-byte=1 exchange-byte=1" | FileCheck %s --check-prefix=MOVE
// RUN: dpc-opt %s --split-input-file --dpc-tile-experts="rows=4 gather-byte=1 exchange-byte=1 exchange-start=10000" | FileCheck %s --check-prefix=LATE
// RUN: dpc-opt %s --split-input-file --dpc-tile-experts="rows=4" | FileCheck %s --check-prefix=LATE

#e = #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>

// Each rank sends a row for each of its choices, of the 16 rows of a token it has.
// Gathering moves 4 * 16 rows, which take as long as 2 * 16 rows and their ids. With
// two bf16 conversions, the sums are complete before they are rounded.
// MOVE-LABEL: func.func @step
// MOVE-NOT: dpc.all_gather
// MOVE-DAG: %[[IDS:.*]] = dpc.reshape %arg1 {{.*}} : tensor<16x2xi64> -> tensor<32xi64>
// MOVE-DAG: %[[X:.*]] = dpc.convert %arg0 {{.*}} : tensor<16x64xf32> -> tensor<16x64xbf16>
// MOVE: %[[Y:.*]] = dpc.expert_tiles %[[IDS]], %[[X]], %arg2 in = [2, 0] out = [2] global = {{.*}} exchange = ["ep"]
// MOVE-SAME: -> tensor<16x64xf32>
// MOVE-NOT: dpc.reduce_scatter
// MOVE: %[[H:.*]] = dpc.convert %[[Y]] {{.*}} -> tensor<16x64xbf16>
// MOVE-NEXT: dpc.reshape %[[H]] {{.*}} -> tensor<1x1024xbf16>
// LATE-LABEL: func.func @step
// LATE: dpc.all_gather
// LATE: dpc.expert_tiles {{.*}} #{{[a-z_]*}}> {dpc.phase
// LATE: dpc.reduce_scatter
func.func @step(%x: tensor<16x64xf32>, %i: tensor<16x2xi64>, %w: tensor<2x64x64xbf16>) -> tensor<1x1024xbf16> attributes {dpc.mesh = #dpc.mesh<ep=4>} {
  %is = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16x2xi64> -> tensor<4x16x2xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<4x16x2xi64> -> tensor<64x2xi64>
  %xs = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<16x64xf32> -> tensor<4x16x64xf32>
  %xf = dpc.reshape %xs {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<64x64xf32>
  %xc = dpc.convert %xf {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h = dpc.expert_matmul %xc, %ids, %w global = tensor<8x64x64xbf16, #e> {dpc.phase = "forward"} : (tensor<64x64xbf16>, tensor<64x2xi64>, tensor<2x64x64xbf16>) -> tensor<64x2x64xbf16>
  %t = dpc.unary tanh %h {dpc.phase = "forward"} : tensor<64x2x64xbf16> -> tensor<64x2x64xbf16>
  %s = dpc.reduce sum %t dims = [1] {dpc.phase = "forward"} : tensor<64x2x64xbf16> -> tensor<64x64xbf16>
  %p = dpc.reshape %s {dpc.phase = "forward"} : tensor<64x64xbf16> -> tensor<4x1x1024xbf16>
  %y = dpc.reduce_scatter sum %p axes = ["ep"] {dpc.phase = "forward"} : tensor<4x1x1024xbf16> -> tensor<1x1024xbf16>
  return %y : tensor<1x1024xbf16>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>

// Rows that are not stacked by rank, and sums that all ranks need, are gathered.
// MOVE-LABEL: func.func @step
// MOVE-COUNT-2: dpc.all_gather
// MOVE: dpc.expert_tiles {{.*}} #{{[a-z_]*}}> {dpc.phase
func.func @step(%x: tensor<16x64xf32>, %i: tensor<16xi64>, %w: tensor<2x64x64xf32>) -> tensor<64x64xf32> attributes {dpc.mesh = #dpc.mesh<ep=4>} {
  %is = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16xi64> -> tensor<4x16xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<4x16xi64> -> tensor<64xi64>
  %xs = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<16x64xf32> -> tensor<4x16x64xf32>
  %xf = dpc.reshape %xs {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<64x64xf32>
  %h = dpc.expert_matmul %xf, %ids, %w global = tensor<8x64x64xf32, #e> {dpc.phase = "forward"} : (tensor<64x64xf32>, tensor<64xi64>, tensor<2x64x64xf32>) -> tensor<64x64xf32>
  %y = dpc.all_reduce sum %h axes = ["ep"] {dpc.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>

// MOVE-LABEL: func.func @step
// MOVE-COUNT-2: dpc.all_gather
// MOVE: dpc.expert_tiles {{.*}} #{{[a-z_]*}}> {dpc.phase
func.func @step(%x: tensor<16x64xf32>, %i: tensor<16xi64>, %w: tensor<2x64x64xf32>) -> tensor<16x64xf32> attributes {dpc.mesh = #dpc.mesh<ep=4>} {
  %is = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16xi64> -> tensor<4x16xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<4x16xi64> -> tensor<64xi64>
  %xs = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<16x64xf32> -> tensor<4x16x64xf32>
  %xt = dpc.transpose %xs perm = [1, 0, 2] {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<16x4x64xf32>
  %xf = dpc.reshape %xt {dpc.phase = "forward"} : tensor<16x4x64xf32> -> tensor<64x64xf32>
  %h = dpc.expert_matmul %xf, %ids, %w global = tensor<8x64x64xf32, #e> {dpc.phase = "forward"} : (tensor<64x64xf32>, tensor<64xi64>, tensor<2x64x64xf32>) -> tensor<64x64xf32>
  %p = dpc.reshape %h {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<4x16x64xf32>
  %y = dpc.reduce_scatter sum %p axes = ["ep"] {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<16x64xf32>
  return %y : tensor<16x64xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=4, tp=2>, [{ep}, {}, {tp}]>

// Sums over the ranks of the experts and others are summed over the others alone.
// MOVE-LABEL: func.func @step
// MOVE-NOT: dpc.all_gather
// MOVE: %[[Y:.*]] = dpc.expert_tiles {{.*}} exchange = ["ep"]
// MOVE: %[[S:.*]] = dpc.all_reduce sum %[[Y]] axes = ["tp"]
// MOVE-NEXT: %[[P:.*]] = dpc.reshape %[[S]] {{.*}} : tensor<16x64xf32> -> tensor<1x1024xf32>
// MOVE-NOT: dpc.rank_slice
// MOVE: return %[[P]]
func.func @step(%x: tensor<16x64xf32>, %i: tensor<16xi64>, %w: tensor<2x64x64xf32>) -> tensor<1x1024xf32> attributes {dpc.mesh = #dpc.mesh<ep=4, tp=2>} {
  %is = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16xi64> -> tensor<4x16xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<4x16xi64> -> tensor<64xi64>
  %xs = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<16x64xf32> -> tensor<4x16x64xf32>
  %xf = dpc.reshape %xs {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<64x64xf32>
  %h = dpc.expert_matmul %xf, %ids, %w global = tensor<8x64x128xf32, #e> {dpc.phase = "forward"} : (tensor<64x64xf32>, tensor<64xi64>, tensor<2x64x64xf32>) -> tensor<64x64xf32>
  %r = dpc.all_reduce sum %h axes = ["ep", "tp"] {dpc.phase = "forward"} : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %p = dpc.reshape %r {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<4x1x1024xf32>
  %y = dpc.rank_slice %p axes = ["ep"] {dpc.phase = "forward"} : tensor<4x1x1024xf32> -> tensor<1x1024xf32>
  return %y : tensor<1x1024xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>

// Rows of f32 travel as elements of the matrices, which round them anyway. Gates do not.
// MOVE-LABEL: func.func @step
// MOVE: %[[H:.*]] = dpc.convert %arg0 {{.*}} -> tensor<16x64xbf16>
// MOVE: dpc.expert_tiles %arg1, %arg2, %[[H]], %arg3 in = [1, 1, 0] out = [1] {{.*}} : (tensor<16xi64>, tensor<16xf32>, tensor<16x64xbf16>, tensor<2x64x64xbf16>) -> tensor<16x64xf32>
// MOVE-NEXT: ^bb0(%{{.*}}: tensor<4xi64>, %{{.*}}: tensor<4xf32>, %[[T:.*]]: tensor<4x64xbf16>,
// MOVE: dpc.convert %[[T]] {{.*}} -> tensor<4x64xf32>
// MOVE: dpc.expert_matmul
// MOVE: %[[Z:.*]] = dpc.convert {{.*}} : tensor<4x64xf32> -> tensor<4x64xbf16>
// MOVE-NEXT: dpc.yield %[[Z]]
func.func @step(%x: tensor<16x64xf32>, %i: tensor<16xi64>, %g: tensor<16xf32>, %w: tensor<2x64x64xbf16>) -> tensor<1x1024xf32> attributes {dpc.mesh = #dpc.mesh<ep=4>} {
  %is = dpc.all_gather %i axes = ["ep"] {dpc.phase = "forward"} : tensor<16xi64> -> tensor<4x16xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<4x16xi64> -> tensor<64xi64>
  %gs = dpc.all_gather %g axes = ["ep"] {dpc.phase = "forward"} : tensor<16xf32> -> tensor<4x16xf32>
  %gf = dpc.reshape %gs {dpc.phase = "forward"} : tensor<4x16xf32> -> tensor<64xf32>
  %xs = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<16x64xf32> -> tensor<4x16x64xf32>
  %xf = dpc.reshape %xs {dpc.phase = "forward"} : tensor<4x16x64xf32> -> tensor<64x64xf32>
  %gb = dpc.broadcast %gf dims = [0] {dpc.phase = "forward"} : tensor<64xf32> -> tensor<64x64xf32>
  %xg = dpc.binary mul %xf, %gb {dpc.phase = "forward"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %xc = dpc.convert %xg {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<64x64xbf16>
  %h = dpc.expert_matmul %xc, %ids, %w global = tensor<8x64x64xbf16, #e> {dpc.phase = "forward"} : (tensor<64x64xbf16>, tensor<64xi64>, tensor<2x64x64xbf16>) -> tensor<64x64xbf16>
  %hf = dpc.convert %h {dpc.phase = "forward"} : tensor<64x64xbf16> -> tensor<64x64xf32>
  %p = dpc.reshape %hf {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<4x1x1024xf32>
  %y = dpc.reduce_scatter sum %p axes = ["ep"] {dpc.phase = "forward"} : tensor<4x1x1024xf32> -> tensor<1x1024xf32>
  return %y : tensor<1x1024xf32>
}

// -----

#e = #dpc.sharding<#dpc.mesh<ep=4, tp=2>, [{ep}, {}, {tp}]>

// With sequence parallelism, one collective gathers over both axes, or one over
// tp follows, and its ranks come inside those of ep. Each rank gathers its rows
// over tp before the exchange. Sums that are scattered over tp first, by
// columns, are so after the exchange.
// MOVE-LABEL: func.func @step
// MOVE-DAG: %[[I:.*]] = dpc.all_gather %arg1 axes = ["tp"] {{.*}} : tensor<8xi64> -> tensor<2x8xi64>
// MOVE-DAG: %[[IDS:.*]] = dpc.reshape %[[I]] {{.*}} -> tensor<16xi64>
// MOVE-DAG: %[[X:.*]] = dpc.all_gather %{{.*}} axes = ["tp"] {{.*}} : tensor<1x8x64xf32> -> tensor<2x1x8x64xf32>
// MOVE-DAG: %[[T:.*]] = dpc.transpose %[[X]] perm = [1, 0, 2, 3]
// MOVE-DAG: %[[ROWS:.*]] = dpc.reshape %[[T]] {{.*}} -> tensor<16x64xf32>
// MOVE-NOT: axes = ["ep"
// MOVE: %[[Y:.*]]:2 = dpc.expert_tiles %[[IDS]], %[[ROWS]], %arg2 in = [1, 0] out = [1, 1] {{.*}} exchange = ["ep"]
// MOVE-NOT: axes = ["ep"
// MOVE: dpc.reduce_scatter sum %{{.*}} axes = ["tp"] {{.*}} : tensor<2x512xf32> -> tensor<512xf32>
// MOVE: %[[C:.*]] = dpc.transpose %{{.*}} perm = [1, 0, 2] {{.*}} : tensor<16x2x32xf32> -> tensor<2x16x32xf32>
// MOVE: dpc.reduce_scatter sum %[[C]] axes = ["tp"] {{.*}} : tensor<2x16x32xf32> -> tensor<16x32xf32>
func.func @step(%x: tensor<8x64xf32>, %i: tensor<8xi64>, %w: tensor<2x64x64xf32>) -> (tensor<16x32xf32>, tensor<512xf32>) attributes {dpc.mesh = #dpc.mesh<ep=4, tp=2>} {
  %is = dpc.all_gather %i axes = ["ep", "tp"] {dpc.phase = "forward"} : tensor<8xi64> -> tensor<8x8xi64>
  %ids = dpc.reshape %is {dpc.phase = "forward"} : tensor<8x8xi64> -> tensor<64xi64>
  %xe = dpc.all_gather %x axes = ["ep"] {dpc.phase = "forward"} : tensor<8x64xf32> -> tensor<4x8x64xf32>
  %xs = dpc.all_gather %xe axes = ["tp"] {dpc.phase = "forward"} : tensor<4x8x64xf32> -> tensor<2x4x8x64xf32>
  %xt = dpc.transpose %xs perm = [1, 0, 2, 3] {dpc.phase = "forward"} : tensor<2x4x8x64xf32> -> tensor<4x2x8x64xf32>
  %xf = dpc.reshape %xt {dpc.phase = "forward"} : tensor<4x2x8x64xf32> -> tensor<64x64xf32>
  %h = dpc.expert_matmul %xf, %ids, %w global = tensor<8x64x128xf32, #e> {dpc.phase = "forward"} : (tensor<64x64xf32>, tensor<64xi64>, tensor<2x64x64xf32>) -> tensor<64x64xf32>
  %n = dpc.unary neg %h {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<64x64xf32>
  %c = dpc.reshape %h {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<64x2x32xf32>
  %ct = dpc.transpose %c perm = [1, 0, 2] {dpc.phase = "forward"} : tensor<64x2x32xf32> -> tensor<2x64x32xf32>
  %cs = dpc.reduce_scatter sum %ct axes = ["tp"] {dpc.phase = "forward"} : tensor<2x64x32xf32> -> tensor<64x32xf32>
  %cp = dpc.reshape %cs {dpc.phase = "forward"} : tensor<64x32xf32> -> tensor<4x16x32xf32>
  %y = dpc.reduce_scatter sum %cp axes = ["ep"] {dpc.phase = "forward"} : tensor<4x16x32xf32> -> tensor<16x32xf32>
  %p = dpc.reshape %n {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<8x512xf32>
  %z = dpc.reduce_scatter sum %p axes = ["ep", "tp"] {dpc.phase = "forward"} : tensor<8x512xf32> -> tensor<512xf32>
  return %y, %z : tensor<16x32xf32>, tensor<512xf32>
}
