// RUN: dpc-opt %s --dpc-bucket-collectives | FileCheck %s
// RUN: dpc-opt %s --dpc-bucket-collectives=bucket-bytes=32 | FileCheck %s --check-prefix=SMALL
// RUN: not dpc-opt %s --dpc-bucket-collectives=bucket-bytes=0 2>&1 | FileCheck %s --check-prefix=ZERO

// ZERO: bucket-bytes is 0, expected a positive number

// Three gradients share a call after the last producer, and the user of the first one
// moves after that call. all_reduces of another kind (max) or phase do not share it.

// CHECK-LABEL: func.func @step
// CHECK-NEXT: dpc.all_reduce max
// CHECK-NEXT: %[[N:.*]] = dpc.unary neg
// CHECK-NEXT: %[[R:.*]]:3 = dpc.all_reduce sum %{{.*}}, %{{.*}}, %[[N]] axes = ["dp"] {dpc.phase = "backward"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: dpc.unary exp %[[R]]#0
// CHECK-NEXT: dpc.all_reduce sum {{.*}}{dpc.phase = "update"}

// SMALL: dpc.all_reduce sum {{.*}} : (tensor<4xf32>, tensor<4xf32>) ->
// SMALL: dpc.all_reduce sum {{.*}} : (tensor<4xf32>) ->
func.func @step(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_reduce sum %a axes = ["dp"] {dpc.phase = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.unary exp %0 {dpc.phase = "backward"} : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.all_reduce max %a axes = ["dp"] {dpc.phase = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.all_reduce sum %b axes = ["dp"] {dpc.phase = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.unary neg %b {dpc.phase = "backward"} : tensor<4xf32> -> tensor<4xf32>
  %5 = dpc.all_reduce sum %4 axes = ["dp"] {dpc.phase = "backward"} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = dpc.all_reduce sum %b axes = ["dp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2, %3, %5, %6 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// reduce_scatters of one type also share a call after the last producer. all_gathers of
// new parameters do so in the update phase.

// CHECK-LABEL: func.func @scattered
// CHECK: %[[N:.*]] = dpc.unary neg %arg1
// CHECK-NEXT: %[[S:.*]]:2 = dpc.reduce_scatter sum %arg0, %[[N]] axes = ["dp"] {dpc.phase = "backward"} : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT: %[[A:.*]] = dpc.unary neg %[[S]]#0
// CHECK-NEXT: %[[B:.*]] = dpc.unary abs %[[S]]#1
// CHECK-NEXT: %[[G:.*]]:2 = dpc.all_gather %[[A]], %[[B]] axes = ["dp"] {dpc.phase = "update"}
// CHECK-NEXT: dpc.unary exp
// CHECK-NEXT: return %[[G]]#0, %[[G]]#1
// SMALL-LABEL: func.func @scattered
// SMALL: dpc.reduce_scatter sum %arg0 axes
// SMALL-NEXT: dpc.unary neg %arg1
// SMALL-NEXT: dpc.reduce_scatter sum
// SMALL-NEXT: dpc.unary neg
// SMALL-NEXT: dpc.all_gather
// SMALL-NEXT: dpc.unary abs
// SMALL-NEXT: dpc.all_gather
// SMALL-NEXT: dpc.unary exp
func.func @scattered(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.reduce_scatter sum %a axes = ["dp"] {dpc.phase = "backward"} : tensor<2x4xf32> -> tensor<4xf32>
  %1 = dpc.unary neg %b {dpc.phase = "backward"} : tensor<2x4xf32> -> tensor<2x4xf32>
  %2 = dpc.reduce_scatter sum %1 axes = ["dp"] {dpc.phase = "backward"} : tensor<2x4xf32> -> tensor<4xf32>
  %3 = dpc.unary neg %0 {dpc.phase = "update"} : tensor<4xf32> -> tensor<4xf32>
  %4 = dpc.unary abs %2 {dpc.phase = "update"} : tensor<4xf32> -> tensor<4xf32>
  %5 = dpc.unary exp %4 {dpc.phase = "update"} : tensor<4xf32> -> tensor<4xf32>
  %6 = dpc.all_gather %3 axes = ["dp"] {dpc.phase = "update"} : tensor<4xf32> -> tensor<2x4xf32>
  %7 = dpc.all_gather %4 axes = ["dp"] {dpc.phase = "update"} : tensor<4xf32> -> tensor<2x4xf32>
  return %6, %7, %5 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<4xf32>
}

// Parameters of four layers are gathered one layer ahead. An all_gather of a value that
// the phase computes does not move.

// CHECK-LABEL: func.func @ahead
// CHECK-NEXT: dpc.constant
// CHECK-NEXT: %[[S:.*]] = dpc.binary add
// CHECK-NEXT: %[[W0:.*]] = dpc.all_gather %[[S]]
// CHECK-NEXT: %[[X0:.*]] = dpc.unary exp %arg0
// CHECK-NEXT: %[[W1:.*]] = dpc.all_gather %arg2
// CHECK-NEXT: %[[X1:.*]] = dpc.binary add %[[X0]], %[[W0]]
// CHECK-NEXT: %[[T3:.*]] = dpc.unary neg %arg3
// CHECK-NEXT: %[[R2:.*]] = dpc.reshape %arg3
// CHECK-NEXT: %[[W2:.*]] = dpc.all_gather %[[R2]]
// CHECK-NEXT: dpc.binary add %[[X1]], %[[W1]]
// CHECK-NEXT: %[[W3:.*]] = dpc.all_gather %arg4
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[W2]]
// CHECK-NEXT: dpc.binary add %{{.*}}, %[[W3]]
// CHECK-NEXT: dpc.all_gather %[[T3]]
func.func @ahead(%x: tensor<2x4xf32>, %w0: tensor<4xf32>, %w1: tensor<4xf32>, %w2: tensor<2x2xf32>, %w3: tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2x2x2xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %c = dpc.constant dense<1.0> : tensor<4xf32> {dpc.phase = "forward"} -> tensor<4xf32>
  %s = dpc.binary add %w0, %c {dpc.phase = "setup"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %0 = dpc.unary exp %x {dpc.phase = "forward"} : tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = dpc.all_gather %s axes = ["dp"] {dpc.phase = "forward"} : tensor<4xf32> -> tensor<2x4xf32>
  %2 = dpc.binary add %0, %1 {dpc.phase = "forward"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %made = dpc.unary neg %w2 {dpc.phase = "forward"} : tensor<2x2xf32> -> tensor<2x2xf32>
  %3 = dpc.all_gather %w1 axes = ["dp"] {dpc.phase = "forward"} : tensor<4xf32> -> tensor<2x4xf32>
  %4 = dpc.binary add %2, %3 {dpc.phase = "forward"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %flat = dpc.reshape %w2 {dpc.phase = "forward"} : tensor<2x2xf32> -> tensor<4xf32>
  %5 = dpc.all_gather %flat axes = ["dp"] {dpc.phase = "forward"} : tensor<4xf32> -> tensor<2x4xf32>
  %6 = dpc.binary add %4, %5 {dpc.phase = "forward"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = dpc.all_gather %w3 axes = ["dp"] {dpc.phase = "forward"} : tensor<4xf32> -> tensor<2x4xf32>
  %8 = dpc.binary add %6, %7 {dpc.phase = "forward"} : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %9 = dpc.all_gather %made axes = ["dp"] {dpc.phase = "forward"} : tensor<2x2xf32> -> tensor<2x2x2xf32>
  return %8, %9 : tensor<2x4xf32>, tensor<2x2x2xf32>
}

// A small tensor shares the call of an adjacent large one.

// CHECK-LABEL: func.func @small_with_large
// CHECK-NEXT: %[[G:.*]]:2 = dpc.all_gather %arg1, %arg2
// CHECK-NEXT: dpc.binary add %arg0, %[[G]]#0
// CHECK-NEXT: dpc.unary neg %[[G]]#1
func.func @small_with_large(%x: tensor<2x64xf32>, %w0: tensor<64xf32>, %w1: tensor<4xf32>) -> (tensor<2x64xf32>, tensor<2x4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_gather %w0 axes = ["dp"] {dpc.phase = "forward"} : tensor<64xf32> -> tensor<2x64xf32>
  %1 = dpc.binary add %x, %0 {dpc.phase = "forward"} : (tensor<2x64xf32>, tensor<2x64xf32>) -> tensor<2x64xf32>
  %2 = dpc.all_gather %w1 axes = ["dp"] {dpc.phase = "forward"} : tensor<4xf32> -> tensor<2x4xf32>
  %3 = dpc.unary neg %2 {dpc.phase = "forward"} : tensor<2x4xf32> -> tensor<2x4xf32>
  return %1, %3 : tensor<2x64xf32>, tensor<2x4xf32>
}

// Communication between stages keeps its order even if the operands allow another order,
// because the other stage has the same order of send, recv and all_reduce.

// CHECK-LABEL: func.func @step.1
// CHECK: dpc.all_reduce sum %arg0 axes = ["dp"]
// CHECK-NEXT: dpc.send
// CHECK-NEXT: dpc.recv
// CHECK-NEXT: dpc.all_reduce sum %arg1 axes = ["pp"]
func.func @step.1(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2, pp=2>} {
  %0 = dpc.all_reduce sum %a axes = ["dp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  dpc.send %0 to = 0 tag = 0 {dpc.phase = "update"} : tensor<4xf32>
  %1 = dpc.recv from = 0 tag = 1 {dpc.phase = "update"} : tensor<4xf32>
  %2 = dpc.all_reduce sum %b axes = ["pp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// The first and the last all_reduce do not share a call. The last one depends on the
// all_reduce between stages, which waits for the message, which depends on the first one.

// CHECK-LABEL: func.func @step.2
// CHECK: dpc.all_reduce sum %arg0 axes = ["dp"]
// CHECK-NEXT: dpc.send
// CHECK-NEXT: %[[P:.*]] = dpc.all_reduce sum %arg1 axes = ["pp"]
// CHECK-NEXT: dpc.all_reduce sum %[[P]] axes = ["dp"]
func.func @step.2(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2, pp=2>} {
  %0 = dpc.all_reduce sum %a axes = ["dp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  dpc.send %0 to = 0 tag = 0 {dpc.phase = "update"} : tensor<4xf32>
  %1 = dpc.all_reduce sum %b axes = ["pp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.all_reduce sum %1 axes = ["dp"] {dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
