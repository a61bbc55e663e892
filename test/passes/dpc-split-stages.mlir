// RUN: dpc-opt %s --split-input-file --dpc-split-stages | FileCheck %s
// RUN: dpc-opt %s --split-input-file "--dpc-split-stages=schedule=zb-h1" | FileCheck %s --check-prefix=ZB

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{}]>>
!b = tensor<8xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{mb}]>>
!s = tensor<f32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, []>>

// Both stages have a copy of a parameter that both use (tied), and its gradients are
// summed when they are complete. A value without a stage (%mask) is computed in the
// stage that reads it. The stage that computes the loss returns it.

// CHECK-LABEL: func.func @step.0(
// CHECK-SAME: %[[W:arg[0-9]+]]: tensor<4xf32> {dpc.global = {{[^,]*, #[^,]*}}, dpc.name = "w"
// CHECK-SAME: %[[X:arg[0-9]+]]: tensor<4xf32> {{{.*}}dpc.name = "x"
// CHECK-SAME: -> (tensor<4xf32> {{{.*}}dpc.ties = 0 : i64})
// CHECK-SAME: dpc.schedule = array<i64: 1, 0, 0, 1, 0, 1, 2, 0, 0, 2, 0, 1>, dpc.stage = 0 : i64
// CHECK: %[[MASK:.*]] = dpc.unary relu %[[X]] {dpc.phase = "forward"}
// CHECK: %[[H:.*]] = dpc.binary mul %[[W]], %[[MASK]] {dpc.group = 0 : i64, dpc.phase = "forward"}
// CHECK: dpc.send %[[H]] to = 1 tag = [[HTAG:[0-9]+]] {dpc.phase = "forward"}
// CHECK: %[[DH:.*]] = dpc.recv from = 1 tag = [[DTAG:[0-9]+]] {dpc.phase = "backward"}
// CHECK: %[[G0:.*]] = dpc.binary mul %[[DH]], %[[MASK]] {dpc.group = 0 : i64, dpc.phase = "backward"}
// CHECK: %[[A0:.*]] = dpc.accumulate sum %[[G0]] {dpc.phase = "backward"}
// CHECK: dpc.send %[[A0]] to = 1 tag = [[G0TAG:[0-9]+]] {dpc.phase = "update"}
// CHECK: %[[A1:.*]] = dpc.recv from = 1 tag = [[G1TAG:[0-9]+]] {dpc.phase = "update"}
// CHECK: %[[G:.*]] = dpc.binary add %[[A0]], %[[A1]] {dpc.phase = "update"}
// CHECK: %[[N0:.*]] = dpc.sum_squares %[[G]]
// CHECK: dpc.all_reduce sum %[[N0]] axes = ["pp"]
// CHECK-NOT: dpc.stage_value

// CHECK-LABEL: func.func @step.1(
// CHECK-SAME: %[[W:arg[0-9]+]]: tensor<4xf32> {dpc.copy
// CHECK-SAME: -> ({{.*}}dpc.ties = 0 : i64}, tensor<f32> {{{.*}}dpc.name = "loss"}, tensor<f32> {{{.*}}dpc.name = "norm"})
// CHECK-SAME: dpc.schedule = array<i64: 1, 0, 0, 2, 0, 0, 1, 0, 1, 2, 0, 1>, dpc.stage = 1 : i64
// CHECK-NOT: dpc.recv
// CHECK: dpc.constant dense<1.0
// CHECK-NOT: dpc.recv
// CHECK: %[[MASK:.*]] = dpc.unary relu
// CHECK: %[[H:.*]] = dpc.recv from = 0 tag = [[HTAG]] {dpc.phase = "forward"}
// CHECK: %[[L:.*]] = dpc.binary mul %[[H]], %[[W]]
// CHECK: dpc.binary add %[[L]], %[[MASK]]
// CHECK: %[[G1:.*]] = dpc.binary mul %{{.*}}, %[[H]] {{.*}}dpc.phase = "backward"}
// CHECK: %[[A1:.*]] = dpc.accumulate sum %[[G1]]
// CHECK: %[[DH:.*]] = dpc.binary mul %{{.*}}, %[[W]] {{.*}}dpc.phase = "backward"}
// CHECK: dpc.send %[[DH]] to = 0 tag = [[DTAG]] {dpc.phase = "backward"}
// CHECK: dpc.send %[[A1]] to = 0 tag = [[G1TAG]] {dpc.phase = "update"}
// CHECK: %[[A0:.*]] = dpc.recv from = 0 tag = [[G0TAG]] {dpc.phase = "update"}
// CHECK: dpc.binary add %[[A0]], %[[A1]] {dpc.phase = "update"}
// CHECK: %[[ZERO:.*]] = dpc.constant dense<0.0
// CHECK: dpc.all_reduce sum %[[ZERO]] axes = ["pp"]

// In zb-h1, the gradient of the weight is in the weight phase, and the gradient of the
// activation is in the backward phase.
// ZB-LABEL: func.func @step.1(
// ZB: dpc.binary mul {{.*}} {dpc.group = 1 : i64, dpc.phase = "backward"}
// ZB: dpc.send {{.*}} {dpc.phase = "backward"}
// ZB: dpc.binary mul {{.*}} {dpc.group = 1 : i64, dpc.phase = "weight"}
// ZB: dpc.accumulate {{.*}} {dpc.phase = "weight"}

func.func @step(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter", dpc.global = !x},
                %x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.global = !b})
    -> (tensor<4xf32> {dpc.name = "w", dpc.ties = 0 : i64, dpc.global = !x},
        tensor<f32> {dpc.name = "loss", dpc.global = !s},
        tensor<f32> {dpc.name = "norm", dpc.global = !s})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>} {
  %mask = dpc.unary relu %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  %h = dpc.binary mul %w, %mask {dpc.phase = "forward", dpc.stage = 0 : i64, dpc.group = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %l = dpc.binary mul %h, %w {dpc.phase = "forward", dpc.stage = 1 : i64, dpc.group = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = dpc.binary add %l, %mask {dpc.phase = "forward", dpc.stage = 1 : i64, dpc.group = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %p = dpc.reduce sum %m dims = [0] {dpc.phase = "forward", dpc.stage = 1 : i64, dpc.group = 3 : i64} : tensor<4xf32> -> tensor<f32>
  %loss = dpc.accumulate sum %p {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<f32> -> tensor<f32>
  %one = dpc.constant dense<1.0> : tensor<4xf32> {dpc.phase = "setup", dpc.stage = 0 : i64} -> tensor<4xf32>
  %g1 = dpc.binary mul %one, %h {dpc.phase = "backward", dpc.stage = 1 : i64, dpc.group = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a1 = dpc.accumulate sum %g1 {dpc.phase = "backward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  %dh = dpc.binary mul %one, %w {dpc.phase = "backward", dpc.stage = 1 : i64, dpc.group = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g0 = dpc.binary mul %dh, %mask {dpc.phase = "backward", dpc.stage = 0 : i64, dpc.group = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %a0 = dpc.accumulate sum %g0 {dpc.phase = "backward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %g = dpc.binary add %a0, %a1 {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %n0 = dpc.sum_squares %g {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<f32>
  %n1 = dpc.constant dense<0.0> : tensor<f32> {dpc.phase = "update"} -> tensor<f32>
  %own = dpc.stage_value %n0, %n1 {dpc.phase = "update"} : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %norm = dpc.all_reduce sum %own axes = ["pp"] {dpc.phase = "update"} : (tensor<f32>) -> tensor<f32>
  %new = dpc.binary sub %w, %g {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new, %loss, %norm : tensor<4xf32>, tensor<f32>, tensor<f32>
}

// -----

// Without an axis pp, nothing changes.
// CHECK-LABEL: func.func @step(
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  return %x : tensor<4xf32>
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{}]>>

// The gradient of a 16-bit copy is also in the weight phase, although its conversion
// belongs to another forward op.

// ZB-LABEL: func.func @step.0(
// ZB: %[[G:.*]] = dpc.binary mul {{.*}}dpc.phase = "weight"}
// ZB: dpc.convert %[[G]] {{.*}}dpc.phase = "weight"}
func.func @step(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter", dpc.global = !x},
                %x: tensor<4xbf16> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<4xf32> {dpc.name = "w", dpc.ties = 0 : i64, dpc.global = !x})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>} {
  %h = dpc.unary relu %x {dpc.phase = "forward", dpc.stage = 0 : i64, dpc.group = 1 : i64} : tensor<4xbf16> -> tensor<4xbf16>
  %y = dpc.unary relu %h {dpc.phase = "forward", dpc.stage = 1 : i64, dpc.group = 2 : i64} : tensor<4xbf16> -> tensor<4xbf16>
  %dy = dpc.unary neg %y {dpc.phase = "backward", dpc.stage = 1 : i64, dpc.group = 2 : i64} : tensor<4xbf16> -> tensor<4xbf16>
  %g = dpc.binary mul %dy, %x {dpc.phase = "backward", dpc.stage = 0 : i64, dpc.group = 1 : i64} : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %f = dpc.convert %g {dpc.phase = "backward", dpc.stage = 0 : i64, dpc.group = 0 : i64} : tensor<4xbf16> -> tensor<4xf32>
  %a = dpc.accumulate sum %f {dpc.phase = "backward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %new = dpc.binary sub %w, %a {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %new : tensor<4xf32>
}

// -----

// A pass for totals: its stages are chunks of their own, which all micro-batches run
// first. A sum of the pass is sent when the next pass begins, once per micro-batch.

!b = tensor<8xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{mb}]>>
!s = tensor<f32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, []>>

// CHECK-LABEL: func.func @step.0({{.*}}tensor<8xf32
// CHECK-SAME: dpc.schedule = array<i64: 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1>
// CHECK: %[[H0:.*]] = dpc.unary exp %{{.*}} {dpc.phase = "forward"}
// CHECK: %[[P0:.*]] = dpc.reduce sum %[[H0]] dims = [0] {dpc.phase = "forward"}
// CHECK: %[[S0:.*]] = dpc.accumulate sum %[[P0]] {dpc.phase = "forward"}
// CHECK: dpc.send %[[S0]] to = 1 tag = [[STAG:[0-9]+]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[H1:.*]] = dpc.unary exp %{{.*}} {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: dpc.send %[[H1]] to = 1 tag = [[HTAG:[0-9]+]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}

// CHECK-LABEL: func.func @step.1(
// CHECK-SAME: dpc.schedule = array<i64: 1, 0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1>
// CHECK: %[[S1:.*]] = dpc.recv from = 0 tag = [[STAG]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[B:.*]] = dpc.broadcast %[[S1]] dims = [] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[H:.*]] = dpc.recv from = 0 tag = [[HTAG]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: dpc.binary div %[[H]], %[[B]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}

func.func @step(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.global = !b})
    -> (tensor<f32> {dpc.name = "loss", dpc.global = !s})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>, dpc.totals_passes = 1 : i64} {
  %h0 = dpc.unary exp %x {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %p0 = dpc.reduce sum %h0 dims = [0] {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<f32>
  %s0 = dpc.accumulate sum %p0 {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<f32> -> tensor<f32>
  %h1 = dpc.unary exp %x {dpc.chunk = 1 : i64, dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %b = dpc.broadcast %s0 dims = [] {dpc.chunk = 1 : i64, dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<f32> -> tensor<4xf32>
  %y = dpc.binary div %h1, %b {dpc.chunk = 1 : i64, dpc.phase = "forward", dpc.stage = 1 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %p = dpc.reduce sum %y dims = [0] {dpc.chunk = 1 : i64, dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<f32>
  %loss = dpc.accumulate sum %p {dpc.chunk = 1 : i64, dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<f32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// An input that no op reads is on stage 0, so that plans of all strategies have it.

!b = tensor<8xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{mb}]>>
!s = tensor<f32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, []>>

// CHECK-LABEL: func.func @step.0(
// CHECK-SAME: dpc.name = "x"
// CHECK-SAME: dpc.name = "unread"
// CHECK-LABEL: func.func @step.1(
// CHECK-NOT: dpc.name = "unread"

func.func @step(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.global = !b},
                %unread: tensor<4xf32> {dpc.name = "unread", dpc.role = "input", dpc.global = !b})
    -> (tensor<f32> {dpc.name = "loss", dpc.global = !s})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>} {
  %h = dpc.unary exp %x {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %p = dpc.reduce sum %h dims = [0] {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<f32>
  %loss = dpc.accumulate sum %p {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<f32> -> tensor<f32>
  return %loss : tensor<f32>
}
