// RUN: dpc-opt %s --split-input-file "--dpc-split-stages=schedule=interleaved chunks=2" | FileCheck %s

!u = tensor<4xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{}]>>
!c = tensor<8xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{mb}]>>

// Virtual stages 0 and 2 are chunks of rank stage 0. So stage 2 reads the values of
// stage 0 there.

// CHECK-LABEL: func.func @step.0(
// CHECK: %[[A:.*]] = dpc.unary exp %{{.*}} {dpc.phase = "forward"}
// CHECK: dpc.send %[[A]] to = 1 tag = 0 {dpc.phase = "forward"}
// CHECK: %[[B:.*]] = dpc.recv from = 1 tag = 1 {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[C:.*]] = dpc.binary add %[[A]], %[[B]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: dpc.send %[[C]] to = 1 tag = 2 {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK-LABEL: func.func @step.1(
// CHECK: dpc.recv from = 0 tag = 0 {dpc.phase = "forward"}
// CHECK: dpc.send {{.*}} to = 0 tag = 1 {dpc.phase = "forward"}
// CHECK: dpc.recv from = 0 tag = 2 {dpc.chunk = 1 : i64, dpc.phase = "forward"}

func.func @step(%x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.global = !c})
    -> (tensor<4xf32> {dpc.name = "y", dpc.global = !c})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>} {
  %a = dpc.unary exp %x {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %b = dpc.unary exp %a {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  %c = dpc.binary add %a, %b {dpc.phase = "forward", dpc.stage = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = dpc.unary exp %c {dpc.phase = "forward", dpc.stage = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{}]>>

// A returned value (a running statistic) is resharded after the stage that computes it
// (stage 2, the second chunk of rank 0), not with the first chunk of the rank.

// CHECK-LABEL: func.func @step.0(%arg0: tensor<4xf32> {{.*}}dpc.name = "mean"
// CHECK: %[[OLD:.*]] = dpc.unary neg %arg0 {dpc.phase = "setup"}
// CHECK: dpc.recv {{.*}}dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[MADE:.*]] = dpc.binary add %[[OLD]], %{{.*}} {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: %[[LAID:.*]] = dpc.unary exp %[[MADE]] {dpc.chunk = 1 : i64, dpc.phase = "forward"}
// CHECK: return %[[LAID]]
func.func @step(%mean: tensor<4xf32> {dpc.name = "mean", dpc.role = "parameter", dpc.global = !x},
                %x: tensor<4xf32> {dpc.name = "x", dpc.role = "input", dpc.global = !x})
    -> (tensor<4xf32> {dpc.name = "mean", dpc.ties = 0 : i64, dpc.global = !x})
    attributes {dpc.mesh = #dpc.mesh<pp=2, mb=2>} {
  %old = dpc.unary neg %mean {dpc.phase = "setup"} : tensor<4xf32> -> tensor<4xf32>
  %a = dpc.unary relu %x {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  %b = dpc.unary relu %a {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  %made = dpc.binary add %old, %b {dpc.phase = "forward", dpc.stage = 2 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %laid = dpc.unary exp %made {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  return %laid : tensor<4xf32>
}
