// RUN: dpc-opt %s --dpc-recompute=mode=selective --dpc-verify-local | FileCheck %s --check-prefix=SELECTIVE
// RUN: dpc-opt %s --dpc-recompute=mode=full --dpc-verify-local | FileCheck %s --check-prefix=FULL
// RUN: dpc-opt %s --dpc-recompute="mode=full omitted-layers=29" --dpc-verify-local | FileCheck %s --check-prefix=DEEP
// RUN: dpc-opt %s --dpc-recompute="mode=full block-layers=1" --dpc-verify-local | FileCheck %s --check-prefix=ONE
// RUN: dpc-opt %s --dpc-recompute | FileCheck %s --check-prefix=NONE
// RUN: not dpc-opt %s --dpc-recompute=mode=some 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: recompute mode is 'some', expected none, selective or full
// NONE-NOT: dpc.recompute

// Three layers x = x + all_reduce(relu(x w1) w2). Of their gradients, the program has
// only the ops that read x, h = x w1 and relu(h).
//
// `selective` keeps the results of matmuls and the inputs of layers, and recomputes
// relu before its use.

// SELECTIVE-LABEL: func.func @step
// SELECTIVE: %[[H1:.*]] = dpc.matmul %arg0, %arg1 {dpc.phase = "forward"}
// SELECTIVE: %[[X1:.*]] = dpc.binary add {{.*}}"forward"
// SELECTIVE: %[[H2:.*]] = dpc.matmul %[[X1]], %arg1 {dpc.phase = "forward"}
// SELECTIVE: dpc.binary mul %{{.*}}, %[[H2]] {dpc.phase = "backward"}
// SELECTIVE-NEXT: %[[A2:.*]] = dpc.unary relu %[[H2]] {dpc.phase = "backward", dpc.recompute}
// SELECTIVE-NEXT: dpc.matmul %[[A2]]
// SELECTIVE: dpc.binary mul %{{.*}}, %[[H1]] {dpc.phase = "backward"}
// SELECTIVE-NEXT: %[[A1:.*]] = dpc.unary relu %[[H1]] {dpc.phase = "backward", dpc.recompute}
// SELECTIVE-NEXT: dpc.matmul %[[A1]]
// SELECTIVE-NOT: all_reduce

// `full` keeps x after the additions; cuts before the all_reduces would repeat them. It
// recomputes h and relu(h) of the first two layers. The last block is not recomputed.

// FULL-LABEL: func.func @step
// FULL: %[[X1:.*]] = dpc.binary add {{.*}}"forward"
// FULL: %[[X2:.*]] = dpc.binary add {{.*}}"forward"
// FULL: %[[H3:.*]] = dpc.matmul %[[X2]], %arg1 {dpc.phase = "forward"}
// FULL-NEXT: %[[A3:.*]] = dpc.unary relu %[[H3]] {dpc.phase = "forward"}
// FULL: dpc.binary mul %{{.*}}, %[[H3]] {dpc.phase = "backward"}
// FULL-NEXT: dpc.matmul %[[A3]]
// FULL: %[[H2:.*]] = dpc.matmul %[[X1]], %arg1 {dpc.phase = "backward", dpc.recompute}
// FULL-NEXT: dpc.binary mul %{{.*}}, %[[H2]] {dpc.phase = "backward"}
// FULL-NEXT: %[[A2:.*]] = dpc.unary relu %[[H2]] {dpc.phase = "backward", dpc.recompute}
// FULL-NEXT: dpc.matmul %[[A2]]
// FULL: dpc.matmul %arg0, %arg1 {dpc.phase = "backward", dpc.recompute}
// FULL-NOT: all_reduce

// In a model of 32 layers, blocks of two layers need the least memory: 512 bytes cross a
// cut, and each layer has 4096 bytes inside. Of three layers, the first is a block.

// DEEP-LABEL: func.func @step
// DEEP-SAME: dpc.block_layers = 2
// DEEP-NOT: dpc.matmul %{{[0-9]+}}, %arg1 {{.*}}dpc.recompute
// DEEP: dpc.matmul %arg0, %arg1 {dpc.phase = "backward", dpc.recompute}

!x = tensor<8x16xf32>
!h = tensor<8x64xf32>
!w1 = tensor<16x64xf32>
!w2 = tensor<64x16xf32>
!gx = tensor<8x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
!gw1 = tensor<16x64xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
!gw2 = tensor<64x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
func.func @step(%x0: !x {dpc.role = "input", dpc.global = !gx}, %w1: !w1 {dpc.role = "parameter", dpc.global = !gw1}, %w2: !w2 {dpc.role = "parameter", dpc.global = !gw2}) -> (!x {dpc.global = !gx}, !w2 {dpc.global = !gw2}, !w2 {dpc.global = !gw2}, !w2 {dpc.global = !gw2}) attributes {dpc.mesh = #dpc.mesh<tp=2>} {
  %h1 = dpc.matmul %x0, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a1 = dpc.unary relu %h1 {dpc.phase = "forward"} : !h -> !h
  %p1 = dpc.matmul %a1, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %y1 = dpc.all_reduce sum %p1 axes = ["tp"] {dpc.phase = "forward"} : (!x) -> !x
  %x1 = dpc.binary add %x0, %y1 {dpc.phase = "forward"} : (!x, !x) -> !x
  %h2 = dpc.matmul %x1, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a2 = dpc.unary relu %h2 {dpc.phase = "forward"} : !h -> !h
  %p2 = dpc.matmul %a2, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %y2 = dpc.all_reduce sum %p2 axes = ["tp"] {dpc.phase = "forward"} : (!x) -> !x
  %x2 = dpc.binary add %x1, %y2 {dpc.phase = "forward"} : (!x, !x) -> !x
  %h3 = dpc.matmul %x2, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a3 = dpc.unary relu %h3 {dpc.phase = "forward"} : !h -> !h
  %p3 = dpc.matmul %a3, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %y3 = dpc.all_reduce sum %p3 axes = ["tp"] {dpc.phase = "forward"} : (!x) -> !x
  %x3 = dpc.binary add %x2, %y3 {dpc.phase = "forward"} : (!x, !x) -> !x
  %da3 = dpc.matmul %x3, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh3 = dpc.binary mul %da3, %h3 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw3 = dpc.matmul %a3, %x3 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  %dx3 = dpc.matmul %dh3, %w1 tb {dpc.phase = "backward"} : (!h, !w1) -> !x
  %da2 = dpc.matmul %dx3, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh2 = dpc.binary mul %da2, %h2 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw2 = dpc.matmul %a2, %dx3 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  %dx2 = dpc.matmul %dh2, %w1 tb {dpc.phase = "backward"} : (!h, !w1) -> !x
  %da1 = dpc.matmul %dx2, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh1 = dpc.binary mul %da1, %h1 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw1 = dpc.matmul %a1, %dx2 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  %dx1 = dpc.matmul %dh1, %w1 tb {dpc.phase = "backward"} : (!h, !w1) -> !x
  return %dx1, %dw1, %dw2, %dw3 : !x, !w2, !w2, !w2
}

// In zb-h1, an all_gather of the weight phase moves before the backward op for which x
// w is recomputed. The all_gather and the recomputed op get the phase of this op.

// FULL-LABEL: func.func @zero_bubble
// FULL: dpc.binary add
// FULL-NEXT: %[[P:.*]] = dpc.all_gather %arg1 {{.*}} {dpc.phase = "backward"}
// FULL-NEXT: %[[W:.*]] = dpc.reshape %[[P]] {dpc.phase = "backward"}
// FULL-NEXT: %[[H:.*]] = dpc.matmul %arg0, %[[W]] {dpc.phase = "backward", dpc.recompute}
// FULL-NEXT: dpc.binary mul %arg2, %[[H]] {dpc.phase = "backward"}
// FULL-NEXT: dpc.matmul {{.*}} ta {dpc.phase = "weight"}
// FULL-NEXT: dpc.binary add {{.*}}, %[[W]] {dpc.phase = "weight"}

!row = tensor<8x16xf32>
!piece = tensor<2x8x16xf32>
!w = tensor<16x16xf32>
!gw = tensor<16x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {}]>>
!gd = tensor<16x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
func.func @zero_bubble(%x: !x {dpc.role = "input", dpc.global = !gx}, %w: !row {dpc.role = "parameter", dpc.global = !gw}, %dy: !x {dpc.role = "input", dpc.global = !gx}) -> (!x {dpc.global = !gx}, !x {dpc.global = !gx}, !w {dpc.global = !gd}) attributes {dpc.mesh = #dpc.mesh<tp=2>, dpc.stage = 0 : i64, dpc.schedule = array<i64: 1, 0, 0, 2, 0, 0, 3, 0, 0>} {
  %p = dpc.all_gather %w axes = ["tp"] {dpc.phase = "forward"} : !row -> !piece
  %all = dpc.reshape %p {dpc.phase = "forward"} : !piece -> !w
  %h = dpc.matmul %x, %all {dpc.phase = "forward"} : (!x, !w) -> !x
  %y = dpc.binary add %x, %h {dpc.phase = "forward"} : (!x, !x) -> !x
  %dx = dpc.binary mul %dy, %h {dpc.phase = "backward"} : (!x, !x) -> !x
  %d = dpc.matmul %x, %dx ta {dpc.phase = "weight"} : (!x, !x) -> !w
  %p2 = dpc.all_gather %w axes = ["tp"] {dpc.phase = "weight"} : !row -> !piece
  %all2 = dpc.reshape %p2 {dpc.phase = "weight"} : !piece -> !w
  %dw = dpc.binary add %d, %all2 {dpc.phase = "weight"} : (!w, !w) -> !w
  return %y, %dx, %dw : !x, !x, !w
}

// A cut after x1 keeps 48 columns per micro-batch and halves the 2 x 64 columns inside
// the blocks. This saves memory if one micro-batch is alive, as in the last stage of
// 1F1B, but not if two are, as in zb-h1 until the weight phase.

// FULL-LABEL: func.func @one_alive
// FULL-NOT: dpc.binary add {{.*}}dpc.recompute
// FULL-LABEL: func.func @two_alive
// FULL: dpc.binary add {{.*}}dpc.recompute

// ONE-LABEL: func.func @two_alive
// ONE-NOT: dpc.binary add {{.*}}dpc.recompute

!x48 = tensor<8x48xf32>
!u = tensor<48x64xf32>
!v = tensor<64x48xf32>
!gx48 = tensor<8x48xf32, #dpc.sharding<#dpc.mesh<pp=2>, [{}, {}]>>
!gh = tensor<8x64xf32, #dpc.sharding<#dpc.mesh<pp=2>, [{}, {}]>>
!gu = tensor<48x64xf32, #dpc.sharding<#dpc.mesh<pp=2>, [{}, {}]>>
!gv = tensor<64x48xf32, #dpc.sharding<#dpc.mesh<pp=2>, [{}, {}]>>
func.func @one_alive(%x: !x48 {dpc.role = "input", dpc.global = !gx48}, %u: !u {dpc.role = "parameter", dpc.global = !gu}, %v: !v {dpc.role = "parameter", dpc.global = !gv}, %d: !h {dpc.role = "input", dpc.global = !gh}) -> (!x48 {dpc.global = !gx48}, !h {dpc.global = !gh}) attributes {dpc.mesh = #dpc.mesh<pp=2>, dpc.stage = 1 : i64, dpc.schedule = array<i64: 1, 0, 0, 2, 0, 0, 1, 0, 1, 2, 0, 1>} {
  %h1 = dpc.matmul %x, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p1 = dpc.matmul %h1, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x1 = dpc.binary add %x, %p1 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %h2 = dpc.matmul %x1, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p2 = dpc.matmul %h2, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x2 = dpc.binary add %x1, %p2 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %d2 = dpc.binary mul %d, %h2 {dpc.phase = "backward"} : (!h, !h) -> !h
  %d1 = dpc.binary mul %d2, %h1 {dpc.phase = "backward"} : (!h, !h) -> !h
  return %x2, %d1 : !x48, !h
}
func.func @two_alive(%x: !x48 {dpc.role = "input", dpc.global = !gx48}, %u: !u {dpc.role = "parameter", dpc.global = !gu}, %v: !v {dpc.role = "parameter", dpc.global = !gv}, %d: !h {dpc.role = "input", dpc.global = !gh}) -> (!x48 {dpc.global = !gx48}, !h {dpc.global = !gh}) attributes {dpc.mesh = #dpc.mesh<pp=2>, dpc.stage = 1 : i64, dpc.schedule = array<i64: 1, 0, 0, 2, 0, 0, 1, 0, 1, 2, 0, 1, 3, 0, 0, 3, 0, 1>} {
  %h1 = dpc.matmul %x, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p1 = dpc.matmul %h1, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x1 = dpc.binary add %x, %p1 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %h2 = dpc.matmul %x1, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p2 = dpc.matmul %h2, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x2 = dpc.binary add %x1, %p2 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %d2 = dpc.binary mul %d, %h2 {dpc.phase = "backward"} : (!h, !h) -> !h
  %d1 = dpc.binary mul %d2, %h1 {dpc.phase = "backward"} : (!h, !h) -> !h
  return %x2, %d1 : !x48, !h
}

// The op before the layers is a part of the first block: the other block would not be
// smaller if its result were kept.

// FULL-LABEL: func.func @head
// FULL: dpc.unary exp {{.*}}dpc.recompute

func.func @head(%x: !x48 {dpc.role = "input", dpc.global = !gx48}, %u: !u {dpc.role = "parameter", dpc.global = !gu}, %v: !v {dpc.role = "parameter", dpc.global = !gv}, %d: !h {dpc.role = "input", dpc.global = !gh}) -> (!x48 {dpc.global = !gx48}, !h {dpc.global = !gh}) attributes {dpc.mesh = #dpc.mesh<pp=2>, dpc.stage = 1 : i64, dpc.schedule = array<i64: 1, 0, 0, 2, 0, 0, 1, 0, 1, 2, 0, 1, 3, 0, 0, 3, 0, 1>} {
  %x0 = dpc.unary exp %x {dpc.phase = "forward"} : !x48 -> !x48
  %h1 = dpc.matmul %x0, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p1 = dpc.matmul %h1, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x1 = dpc.binary add %x0, %p1 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %h2 = dpc.matmul %x1, %u {dpc.phase = "forward"} : (!x48, !u) -> !h
  %p2 = dpc.matmul %h2, %v {dpc.phase = "forward"} : (!h, !v) -> !x48
  %x2 = dpc.binary add %x1, %p2 {dpc.phase = "forward"} : (!x48, !x48) -> !x48
  %d2 = dpc.binary mul %d, %h2 {dpc.phase = "backward"} : (!h, !h) -> !h
  %d1 = dpc.binary mul %d2, %h1 {dpc.phase = "backward"} : (!h, !h) -> !h
  return %x2, %d1 : !x48, !h
}
