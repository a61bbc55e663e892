// RUN: dpc-opt %s --split-input-file --dpc-offload --dpc-verify-local | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-offload --dpc-offload | FileCheck %s

!g = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}]>>
!s = tensor<f32, #dpc.sharding<#dpc.mesh<dp=1>, []>>
!t = tensor<4xf32>
// A state is fetched, updated and stored. A parameter on the device is not fetched.
// CHECK-LABEL: func.func @step
// CHECK: %[[F:.*]] = dpc.fetch %arg1 {dpc.phase = "update"}
// CHECK: %[[K:.*]]:2 = dpc.kernel %arg0, %[[F]]
// CHECK: %[[S:.*]] = dpc.store %[[K]]#1 into %arg1 {dpc.phase = "update"}
// CHECK: return %[[K]]#0, %[[S]]
func.func @step(%p: !t {dpc.role = "parameter", dpc.global = !g},
                %m: !t {dpc.role = "state", dpc.global = !g, dpc.space = "host"})
    -> (!t {dpc.ties = 0 : i64, dpc.global = !g}, !t {dpc.ties = 1 : i64, dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %0:2 = dpc.kernel %p, %m {dpc.phase = "update"} : (!t, !t) -> (!t, !t) {
  ^bb0(%a: !t, %b: !t):
    %s = dpc.binary add %a, %b : (!t, !t) -> !t
    dpc.yield %s, %s : !t, !t
  }
  return %0#0, %0#1 : !t, !t
}

// -----

!g = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=1>, [{}]>>
!t = tensor<4xf32>
// The fetch of %a is at the begin of the phase, the fetch of %b is at the first user of
// %a, and so on. After %b, %a is still on the device; after %d, it is fetched again.
// The next phase has its own fetches.
// CHECK-LABEL: func.func @step
// CHECK: %[[A0:.*]] = dpc.fetch %arg0 {dpc.phase = "forward"}
// CHECK-NEXT: dpc.unary exp
// CHECK-NEXT: %[[B0:.*]] = dpc.fetch %arg1
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[A0]]
// CHECK-NEXT: %[[C0:.*]] = dpc.fetch %arg2
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[B0]]
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[A0]]
// CHECK-NEXT: %[[D0:.*]] = dpc.fetch %arg3
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[C0]]
// CHECK-NEXT: %[[A1:.*]] = dpc.fetch %arg0
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[D0]]
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[A1]]
// CHECK-NEXT: dpc.fetch %arg0 {dpc.phase = "backward"}
func.func @step(%a: !t {dpc.role = "parameter", dpc.global = !g, dpc.space = "disk"},
                %b: !t {dpc.role = "parameter", dpc.global = !g, dpc.space = "disk"},
                %c: !t {dpc.role = "parameter", dpc.global = !g, dpc.space = "disk"},
                %d: !t {dpc.role = "parameter", dpc.global = !g, dpc.space = "disk"},
                %x: !t {dpc.role = "input", dpc.global = !g})
    -> (!t {dpc.global = !g}) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %0 = dpc.unary exp %x {dpc.phase = "forward"} : !t -> !t
  %1 = dpc.binary add %0, %a {dpc.phase = "forward"} : (!t, !t) -> !t
  %2 = dpc.binary add %1, %b {dpc.phase = "forward"} : (!t, !t) -> !t
  %3 = dpc.binary add %2, %a {dpc.phase = "forward"} : (!t, !t) -> !t
  %4 = dpc.binary add %3, %c {dpc.phase = "forward"} : (!t, !t) -> !t
  %5 = dpc.binary add %4, %d {dpc.phase = "forward"} : (!t, !t) -> !t
  %6 = dpc.binary add %5, %a {dpc.phase = "forward"} : (!t, !t) -> !t
  %7 = dpc.binary add %6, %a {dpc.phase = "backward"} : (!t, !t) -> !t
  return %7 : !t
}

// -----

!g = tensor<4x4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>>
!t = tensor<2x4xf32>
!h = tensor<2x4xbf16>
!w = tensor<2x2x4xbf16>
// Setup ops of a parameter with `dpc.at_use` run in each phase. The store of the new
// value is after the last user of the old one.
// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.phase = "setup"
// CHECK: %[[F:.*]] = dpc.fetch %arg0 {dpc.phase = "forward"}
// CHECK: %[[H:.*]] = dpc.convert %[[F]] {dpc.phase = "forward"}
// CHECK: %[[G:.*]] = dpc.all_gather %[[H]] axes = ["dp"] {dpc.phase = "forward"}
// CHECK: dpc.unary exp %[[G]]
// CHECK: dpc.fetch %arg0 {dpc.phase = "backward"}
// CHECK: dpc.convert {{.*}} {dpc.phase = "backward"}
// CHECK: dpc.all_gather {{.*}} {dpc.phase = "backward"}
// CHECK: %[[U:.*]] = dpc.fetch %arg0 {dpc.phase = "update"}
// CHECK: %[[N:.*]] = dpc.unary neg %[[U]]
// CHECK: dpc.unary abs %[[U]]
// CHECK-NEXT: dpc.store %[[N]] into %arg0
func.func @step(%w: !t {dpc.role = "parameter", dpc.global = !g, dpc.space = "host", dpc.at_use})
    -> (!t {dpc.ties = 0 : i64, dpc.global = !g}, !t {dpc.global = !g})
    attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.convert %w {dpc.phase = "setup"} : !t -> !h
  %1 = dpc.all_gather %0 axes = ["dp"] {dpc.phase = "setup"} : !h -> !w
  %2 = dpc.unary exp %1 {dpc.phase = "forward"} : !w -> !w
  %3 = dpc.binary add %1, %2 {dpc.phase = "backward"} : (!w, !w) -> !w
  %4 = dpc.unary neg %w {dpc.phase = "update"} : !t -> !t
  %5 = dpc.unary abs %w {dpc.phase = "update"} : !t -> !t
  return %4, %5 : !t, !t
}
