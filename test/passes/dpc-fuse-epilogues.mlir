// RUN: dpc-opt %s --split-input-file --dpc-fuse-epilogues --dpc-verify-local | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-fuse-epilogues --dpc-fuse-epilogues | FileCheck %s

!n = tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}]>>
!gx = tensor<4x6xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gw = tensor<6x8xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!gy = tensor<4x8xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}]>>
!t = tensor<4x8xf32>
// A bias and gelu. The kernel also returns the argument of gelu. The view of the bias
// is created before the matmul.
// CHECK-LABEL: func.func @step
// CHECK-NEXT: %[[B:.*]] = dpc.broadcast %arg2
// CHECK-NEXT: %[[K:.*]]:2 = dpc.kernel %arg0, %arg1, %[[B]] {dpc.epilogue = "gelu_aux_bias", dpc.phase = "forward"}
// CHECK-NEXT: ^bb0(%[[X:.*]]: tensor<4x6xf32>, %[[W:.*]]: tensor<6x8xf32>, %[[V:.*]]: tensor<4x8xf32>):
// CHECK-NEXT: %[[S:.*]] = dpc.matmul %[[X]], %[[W]] :
// CHECK-NEXT: %[[P:.*]] = dpc.binary add %[[S]], %[[V]]
// CHECK-NEXT: %[[Y:.*]] = dpc.unary gelu_tanh %[[P]]
// CHECK-NEXT: dpc.yield %[[Y]], %[[P]]
// CHECK: return %[[K]]#0, %[[K]]#1
func.func @step(%x: tensor<4x6xf32> {dpc.global = !gx}, %w: tensor<6x8xf32> {dpc.global = !gw},
                %v: tensor<8xf32> {dpc.global = !n}) -> (!t {dpc.global = !gy}, !t {dpc.global = !gy})
    attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %0 = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<4x6xf32>, tensor<6x8xf32>) -> !t
  %1 = dpc.broadcast %v dims = [1] {dpc.view, dpc.phase = "forward"} : tensor<8xf32> -> !t
  %2:2 = dpc.kernel %0, %1 {dpc.phase = "forward"} : (!t, !t) -> (!t, !t) {
  ^bb0(%s: !t, %b: !t):
    %p = dpc.binary add %s, %b : (!t, !t) -> !t
    %y = dpc.unary gelu_tanh %p : !t -> !t
    dpc.yield %p, %y : !t, !t
  }
  return %2#1, %2#0 : !t, !t
}

// -----

!g = tensor<6x8xbf16, #dpc.sharding<#dpc.mesh<mb=3>, [{mb}, {}]>>
!gw = tensor<8x8xf32, #dpc.sharding<#dpc.mesh<mb=3>, [{}, {}]>>
!gb = tensor<8xf32, #dpc.sharding<#dpc.mesh<mb=3>, [{}]>>
!t = tensor<2x8xbf16>
!w = tensor<2x8xf32>
// The row sums read %dy, not its f32 copy. They become an epilogue of the matmul that
// also reads %dy, and their user moves after it. The matmul writes f32 and adds to the
// sum.
// CHECK-LABEL: func.func @step
// CHECK: %[[DY:.*]] = dpc.kernel %arg0 {dpc.phase = "backward"} : (tensor<2x8xbf16>) -> tensor<2x8xbf16> {
// CHECK: %[[K:.*]]:2 = dpc.kernel %[[DY]], %arg1 {dpc.epilogue = "sums_of_a", dpc.phase = "backward"} : (tensor<2x8xbf16>, tensor<2x8xbf16>) -> (tensor<8x8xf32>, tensor<8xf32>) {
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x8xbf16>, %[[B:.*]]: tensor<2x8xbf16>):
// CHECK-NEXT: %[[P:.*]] = dpc.matmul %[[A]], %[[B]] ta
// CHECK-NEXT: %[[F:.*]] = dpc.convert %[[P]]
// CHECK-NEXT: %[[C:.*]] = dpc.convert %[[A]]
// CHECK-NEXT: %[[S:.*]] = dpc.reduce sum %[[C]]
// CHECK-NEXT: dpc.yield %[[F]], %[[S]]
// CHECK: %[[DB:.*]] = dpc.accumulate sum %[[K]]#1 {dpc.phase = "backward"}
// CHECK: %[[DW:.*]] = dpc.accumulate sum %[[K]]#0 {dpc.phase = "backward", dpc.view}
// CHECK: return %[[DW]], %[[DB]]
func.func @step(%x: !t {dpc.global = !g}, %c: !t {dpc.global = !g}) -> (tensor<8x8xf32> {dpc.global = !gw}, tensor<8xf32> {dpc.global = !gb})
    attributes {dpc.mesh = #dpc.mesh<mb=3>} {
  %dy:2 = dpc.kernel %x {dpc.phase = "backward"} : (!t) -> (!t, !w) {
  ^bb0(%i: !t):
    %n = dpc.unary neg %i : !t -> !t
    %f = dpc.convert %n : !t -> !w
    dpc.yield %n, %f : !t, !w
  }
  %s = dpc.kernel %dy#1 {dpc.phase = "backward"} : (!w) -> tensor<8xf32> {
  ^bb0(%i: !w):
    %r = dpc.reduce sum %i dims = [0] : !w -> tensor<8xf32>
    dpc.yield %r : tensor<8xf32>
  }
  %db = dpc.accumulate sum %s {dpc.phase = "backward"} : tensor<8xf32> -> tensor<8xf32>
  %p = dpc.matmul %dy#0, %c ta {dpc.phase = "backward"} : (!t, !t) -> tensor<8x8xbf16>
  %f = dpc.kernel %p {dpc.phase = "backward"} : (tensor<8x8xbf16>) -> tensor<8x8xf32> {
  ^bb0(%i: tensor<8x8xbf16>):
    %o = dpc.convert %i : tensor<8x8xbf16> -> tensor<8x8xf32>
    dpc.yield %o : tensor<8x8xf32>
  }
  %dw = dpc.accumulate sum %f {dpc.phase = "backward"} : tensor<8x8xf32> -> tensor<8x8xf32>
  return %dw, %db : tensor<8x8xf32>, tensor<8xf32>
}

// -----

!gx = tensor<2x4x6xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}, {}]>>
!gw = tensor<2x6x8xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}, {}]>>
!gy = tensor<2x4x8xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}, {}, {}]>>
!t = tensor<2x4x8xf32>
// Two matrices are two GEMMs. The kernels of the update remain separate.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.epilogue
func.func @step(%x: tensor<2x4x6xf32> {dpc.global = !gx}, %w: tensor<2x6x8xf32> {dpc.global = !gw}) -> (!t {dpc.global = !gy}, !t {dpc.global = !gy})
    attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %0 = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<2x4x6xf32>, tensor<2x6x8xf32>) -> !t
  %1 = dpc.kernel %0 {dpc.phase = "forward"} : (!t) -> !t {
  ^bb0(%s: !t):
    %y = dpc.unary relu %s : !t -> !t
    dpc.yield %y : !t
  }
  %2 = dpc.slice %w offsets = [0, 0, 0] strides = [1, 1, 1] {dpc.view, dpc.phase = "update"} : tensor<2x6x8xf32> -> tensor<1x6x8xf32>
  %3 = dpc.reshape %2 {dpc.phase = "update"} : tensor<1x6x8xf32> -> tensor<6x8xf32>
  %4 = dpc.matmul %x, %3 {dpc.phase = "update"} : (tensor<2x4x6xf32>, tensor<6x8xf32>) -> !t
  %5 = dpc.kernel %4 {dpc.phase = "update"} : (!t) -> !t {
  ^bb0(%s: !t):
    %y = dpc.unary relu %s : !t -> !t
    dpc.yield %y : !t
  }
  return %1, %5 : !t, !t
}
