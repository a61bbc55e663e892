// RUN: dpc-opt %s --dpc-bucket-collectives | FileCheck %s
// RUN: dpc-opt %s --dpc-bucket-collectives=bucket-bytes=32 | FileCheck %s --check-prefix=SMALL
// RUN: not dpc-opt %s --dpc-bucket-collectives=bucket-bytes=0 2>&1 | FileCheck %s --check-prefix=ZERO

// ZERO: bucket-bytes is 0, expected a positive number

// Three gradients of one kind share a call behind the last producer; the op
// that reads the first moves behind it. The maximum is another kind, the last
// all-reduce another phase.

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
