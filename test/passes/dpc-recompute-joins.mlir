// RUN: dpc-opt %s --dpc-recompute=mode=selective --dpc-verify-local | FileCheck %s

// Seven layers x = x + (x w) g, as a gated residual connection has. The backward phase
// reads every x and every product x w, which is kept because it is the result of a
// matmul. Each addition is cheap, but the first reader would recompute the chain of
// all of them, which then stay in memory. Every second one is kept: those of layers 3,
// 5 and 7. (The first reads the input of the step, which is no chain.)

// CHECK-LABEL: func.func @chain
// CHECK-COUNT-7: %[[X7:.*]] = dpc.binary add {{.*}} {dpc.phase = "forward"}
// CHECK-NOT: dpc.recompute
// CHECK: dpc.binary mul %[[X7]], %[[X7]] {dpc.phase = "backward"}

// Each reader of another one recomputes at most the two before the next kept one.
// CHECK: dpc.matmul {{.*}} {dpc.phase = "backward"}
// CHECK: dpc.binary add {{.*}} {dpc.phase = "backward", dpc.recompute}
// CHECK: dpc.matmul {{.*}} {dpc.phase = "backward"}
// CHECK-NOT: dpc.recompute
// CHECK: dpc.matmul {{.*}} {dpc.phase = "backward"}
// CHECK: dpc.binary add {{.*}} {dpc.phase = "backward", dpc.recompute}
// CHECK: dpc.matmul {{.*}} {dpc.phase = "backward"}
// CHECK-NOT: dpc.recompute
// CHECK: dpc.matmul {{.*}} {dpc.phase = "backward"}
// CHECK-COUNT-2: dpc.binary add {{.*}} {dpc.phase = "backward", dpc.recompute}
// CHECK-NOT: dpc.recompute

!x = tensor<8x16xf32>
!w = tensor<16x16xf32>
!gx = tensor<8x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
!gw = tensor<16x16xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>>
func.func @chain(%x0: !x {dpc.role = "input", dpc.global = !gx}, %w: !w {dpc.role = "parameter", dpc.global = !gw}, %g: !x {dpc.role = "parameter", dpc.global = !gx}) -> (!x {dpc.global = !gx}) attributes {dpc.mesh = #dpc.mesh<tp=2>} {
  %y1 = dpc.matmul %x0, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g1 = dpc.binary mul %y1, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x1 = dpc.binary add %x0, %g1 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y2 = dpc.matmul %x1, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g2 = dpc.binary mul %y2, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x2 = dpc.binary add %x1, %g2 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y3 = dpc.matmul %x2, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g3 = dpc.binary mul %y3, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x3 = dpc.binary add %x2, %g3 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y4 = dpc.matmul %x3, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g4 = dpc.binary mul %y4, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x4 = dpc.binary add %x3, %g4 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y5 = dpc.matmul %x4, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g5 = dpc.binary mul %y5, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x5 = dpc.binary add %x4, %g5 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y6 = dpc.matmul %x5, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g6 = dpc.binary mul %y6, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x6 = dpc.binary add %x5, %g6 {dpc.phase = "forward"} : (!x, !x) -> !x
  %y7 = dpc.matmul %x6, %w {dpc.phase = "forward"} : (!x, !w) -> !x
  %g7 = dpc.binary mul %y7, %g {dpc.phase = "forward"} : (!x, !x) -> !x
  %x7 = dpc.binary add %x6, %g7 {dpc.phase = "forward"} : (!x, !x) -> !x
  %f7 = dpc.binary mul %x7, %x7 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d7 = dpc.binary mul %f7, %y7 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e7 = dpc.matmul %d7, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f6 = dpc.binary mul %x6, %e7 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d6 = dpc.binary mul %f6, %y6 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e6 = dpc.matmul %d6, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f5 = dpc.binary mul %x5, %e6 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d5 = dpc.binary mul %f5, %y5 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e5 = dpc.matmul %d5, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f4 = dpc.binary mul %x4, %e5 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d4 = dpc.binary mul %f4, %y4 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e4 = dpc.matmul %d4, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f3 = dpc.binary mul %x3, %e4 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d3 = dpc.binary mul %f3, %y3 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e3 = dpc.matmul %d3, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f2 = dpc.binary mul %x2, %e3 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d2 = dpc.binary mul %f2, %y2 {dpc.phase = "backward"} : (!x, !x) -> !x
  %e2 = dpc.matmul %d2, %w tb {dpc.phase = "backward"} : (!x, !w) -> !x
  %f1 = dpc.binary mul %x1, %e2 {dpc.phase = "backward"} : (!x, !x) -> !x
  %d1 = dpc.binary mul %f1, %y1 {dpc.phase = "backward"} : (!x, !x) -> !x
  return %d1 : !x
}
