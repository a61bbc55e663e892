// RUN: dpc-opt %s --pass-pipeline="builtin.module(func.func(dpc-check-indices))" --split-input-file | FileCheck %s

// Ids from an input are checked before the step, and %twice is counted once for
// both tables.

// CHECK-LABEL: func @forward
// CHECK-SAME: -> (tensor<8x4xf32> {dpc.name = "y"}, tensor<f32> {dpc.faults = "indices of 'dpc.embedding' (accepted: 0 to 15)", dpc.name = "dpc.faults1"})
// CHECK: dpc.embedding %{{.*}}, %[[IDS:.*]] :
// CHECK-DAG: %[[TWICE:.*]] = dpc.binary add %[[IDS]], %[[IDS]]
// CHECK-DAG: %[[LAST:.*]] = dpc.constant dense<15>
// CHECK-DAG: %[[BELOW:.*]] = dpc.compare lt %[[TWICE]]
// CHECK-DAG: %[[ABOVE:.*]] = dpc.compare gt %[[TWICE]], %[[LAST]]
// CHECK-DAG: %[[A:.*]] = dpc.convert %[[BELOW]]
// CHECK-DAG: %[[B:.*]] = dpc.convert %[[ABOVE]]
// CHECK: %[[FAULTS:.*]] = dpc.binary add %[[A]], %[[B]]
// CHECK: %[[COUNT:.*]] = dpc.reduce sum %[[FAULTS]] dims = [0]
// CHECK: return %{{.*}}, %[[COUNT]]
func.func @forward(%t: tensor<16x4xf32> {dpc.name = "t", dpc.role = "parameter"},
                   %u: tensor<16x4xf32> {dpc.name = "u", dpc.role = "parameter"},
                   %ids: tensor<8xi64> {dpc.name = "ids", dpc.role = "input"})
    -> (tensor<8x4xf32> {dpc.name = "y"}) {
  %0 = dpc.embedding %t, %ids : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %twice = dpc.binary add %ids, %ids : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %1 = dpc.embedding %t, %twice : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %2 = dpc.embedding %u, %twice : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %3 = dpc.binary add %0, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %4 = dpc.binary add %3, %2 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %4 : tensor<8x4xf32>
}

// -----

// The ignored label is accepted, and a select of an ignored label does not hide
// the other labels.

// CHECK-LABEL: func @forward
// CHECK-SAME: dpc.faults = "labels of 'dpc.cross_entropy' (accepted: 0 to 3 and -1)"
// CHECK: %[[LABELS:.*]] = dpc.select
// CHECK: %[[COUNTED:.*]] = dpc.compare ne %[[LABELS]], %{{.*}}
// CHECK: %[[C:.*]] = dpc.convert %[[COUNTED]]
// CHECK: dpc.binary mul %{{.*}}, %[[C]]
func.func @forward(%x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input"},
                   %labels: tensor<8xi64> {dpc.name = "labels", dpc.role = "input"})
    -> (tensor<f32> {dpc.name = "loss", dpc.loss}) {
  %pad = dpc.constant dense<9> : tensor<8xi64> -> tensor<8xi64>
  %none = dpc.constant dense<-1> : tensor<8xi64> -> tensor<8xi64>
  %is = dpc.compare eq %labels, %pad : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %all = dpc.select %is, %none, %labels : (tensor<8xi1>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %losses, %lse = dpc.cross_entropy %x, %all ignore_index = -1 : (tensor<8x4xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  %loss = dpc.reduce sum %losses dims = [0] : tensor<8xf32> -> tensor<f32>
  return %loss : tensor<f32>
}

// -----

// Each of these keeps indices in range, or leads to an input.

// CHECK-LABEL: func @forward
// CHECK-NOT: dpc.faults
func.func @forward(%t: tensor<16x4xf32> {dpc.name = "t", dpc.role = "parameter"},
                   %ids: tensor<8xi64> {dpc.name = "ids", dpc.role = "input"})
    -> (tensor<16x4xf32> {dpc.name = "y"}) {
  %n = dpc.constant dense<16> : tensor<8xi64> -> tensor<8xi64>
  %last = dpc.constant dense<15> : tensor<8xi64> -> tensor<8xi64>
  %zero = dpc.constant dense<0> : tensor<8xi64> -> tensor<8xi64>
  %more = dpc.binary add %ids, %n : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %below = dpc.compare lt %ids, %zero : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
  %wrapped = dpc.select %below, %more, %ids : (tensor<8xi1>, tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %0 = dpc.embedding %t, %wrapped : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %both = dpc.concat %ids, %last dim = 0 : (tensor<8xi64>, tensor<8xi64>) -> tensor<16xi64>
  %1 = dpc.embedding %t, %both : (tensor<16x4xf32>, tensor<16xi64>) -> tensor<16x4xf32>
  %low = dpc.binary maximum %more, %zero : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %clamped = dpc.binary minimum %low, %last : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  %2 = dpc.embedding %t, %clamped : (tensor<16x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %3 = dpc.concat %0, %2 dim = 0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %4 = dpc.binary add %1, %3 : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x4xf32>
  return %4 : tensor<16x4xf32>
}
