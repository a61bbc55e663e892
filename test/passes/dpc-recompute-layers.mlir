// RUN: dpc-opt %s "--dpc-recompute=mode=full layers=true" --dpc-verify-local | FileCheck %s --check-prefixes=CHECK,NEEDED
// RUN: dpc-opt %s "--dpc-recompute=mode=full layers=true whole=true" --dpc-verify-local | FileCheck %s --check-prefixes=CHECK,WHOLE

// Three layers x = x + relu(x w1) w2 are followed by a head of one matmul. The input of
// each layer and the values of the head are kept. h and relu(h) of all layers are
// recomputed. `whole` also marks the second matmuls, whose results the backward phase
// does not read.

// CHECK-LABEL: func.func @step
// NEEDED-NOT: dpc.again
// WHOLE: dpc.matmul %{{.*}}, %arg1 {dpc.phase = "forward"}
// WHOLE: dpc.matmul %{{.*}}, %arg2 {dpc.again, dpc.phase = "forward"}
// CHECK: %[[X1:.*]] = dpc.binary add {{.*}}"forward"
// WHOLE: dpc.matmul %{{.*}}, %arg2 {dpc.again, dpc.phase = "forward"}
// CHECK: %[[X2:.*]] = dpc.binary add {{.*}}"forward"
// WHOLE: dpc.matmul %{{.*}}, %arg2 {dpc.again, dpc.phase = "forward"}
// CHECK: %[[X3:.*]] = dpc.binary add {{.*}}"forward"
// CHECK: %[[Z:.*]] = dpc.matmul %[[X3]], %arg3 {dpc.phase = "forward"}
// CHECK: dpc.binary mul %[[Z]], %[[Z]] {dpc.phase = "backward"}
// CHECK: %[[H3:.*]] = dpc.matmul %[[X2]], %arg1 {dpc.phase = "backward", dpc.recompute}
// CHECK: dpc.unary relu %[[H3]] {dpc.phase = "backward", dpc.recompute}
// CHECK: %[[H2:.*]] = dpc.matmul %[[X1]], %arg1 {dpc.phase = "backward", dpc.recompute}
// CHECK: dpc.unary relu %[[H2]] {dpc.phase = "backward", dpc.recompute}
// CHECK: %[[H1:.*]] = dpc.matmul %arg0, %arg1 {dpc.phase = "backward", dpc.recompute}
// CHECK: dpc.unary relu %[[H1]] {dpc.phase = "backward", dpc.recompute}
// NEEDED-NOT: dpc.again

!x = tensor<8x16xf32>
!h = tensor<8x64xf32>
!z = tensor<8x256xf32>
!w1 = tensor<16x64xf32>
!w2 = tensor<64x16xf32>
!w3 = tensor<16x256xf32>
!gx = tensor<8x16xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gw1 = tensor<16x64xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gw2 = tensor<64x16xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gw3 = tensor<16x256xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gz = tensor<8x256xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
func.func @step(%x0: !x {dpc.role = "input", dpc.global = !gx}, %w1: !w1 {dpc.role = "parameter", dpc.global = !gw1}, %w2: !w2 {dpc.role = "parameter", dpc.global = !gw2}, %w3: !w3 {dpc.role = "parameter", dpc.global = !gw3}) -> (!z {dpc.global = !gz}, !w2 {dpc.global = !gw2}, !w2 {dpc.global = !gw2}, !w2 {dpc.global = !gw2}) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %h1 = dpc.matmul %x0, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a1 = dpc.unary relu %h1 {dpc.phase = "forward"} : !h -> !h
  %p1 = dpc.matmul %a1, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %x1 = dpc.binary add %x0, %p1 {dpc.phase = "forward"} : (!x, !x) -> !x
  %h2 = dpc.matmul %x1, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a2 = dpc.unary relu %h2 {dpc.phase = "forward"} : !h -> !h
  %p2 = dpc.matmul %a2, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %x2 = dpc.binary add %x1, %p2 {dpc.phase = "forward"} : (!x, !x) -> !x
  %h3 = dpc.matmul %x2, %w1 {dpc.phase = "forward"} : (!x, !w1) -> !h
  %a3 = dpc.unary relu %h3 {dpc.phase = "forward"} : !h -> !h
  %p3 = dpc.matmul %a3, %w2 {dpc.phase = "forward"} : (!h, !w2) -> !x
  %x3 = dpc.binary add %x2, %p3 {dpc.phase = "forward"} : (!x, !x) -> !x
  %z = dpc.matmul %x3, %w3 {dpc.phase = "forward"} : (!x, !w3) -> !z
  %dz = dpc.binary mul %z, %z {dpc.phase = "backward"} : (!z, !z) -> !z
  %dx3 = dpc.matmul %dz, %w3 tb {dpc.phase = "backward"} : (!z, !w3) -> !x
  %da3 = dpc.matmul %dx3, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh3 = dpc.binary mul %da3, %h3 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw3 = dpc.matmul %a3, %dx3 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  %dx2 = dpc.matmul %dh3, %w1 tb {dpc.phase = "backward"} : (!h, !w1) -> !x
  %da2 = dpc.matmul %dx2, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh2 = dpc.binary mul %da2, %h2 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw2 = dpc.matmul %a2, %dx2 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  %dx1 = dpc.matmul %dh2, %w1 tb {dpc.phase = "backward"} : (!h, !w1) -> !x
  %da1 = dpc.matmul %dx1, %w2 tb {dpc.phase = "backward"} : (!x, !w2) -> !h
  %dh1 = dpc.binary mul %da1, %h1 {dpc.phase = "backward"} : (!h, !h) -> !h
  %dw1 = dpc.matmul %a1, %dx1 ta {dpc.phase = "backward"} : (!h, !x) -> !w2
  return %dz, %dw1, %dw2, %dw3 : !z, !w2, !w2, !w2
}
