// All ops except collectives may be removed, merged and moved.
//
// RUN: dpc-opt %s --canonicalize --cse | FileCheck %s

// CHECK-LABEL: func.func @unused_computation_vanishes(
func.func @unused_computation_vanishes(%x: tensor<4x4xf32>) {
  // CHECK-NEXT: return
  %0 = dpc.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = dpc.softmax %0 : tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = dpc.kernel %1 : (tensor<4x4xf32>) -> tensor<4x4xf32> {
  ^bb0(%a: tensor<4x4xf32>):
    %b = dpc.unary exp %a : tensor<4x4xf32> -> tensor<4x4xf32>
    dpc.yield %b : tensor<4x4xf32>
  }
  return
}

// Every rank of a group must participate in every call, even if it does not use the
// result.
// CHECK-LABEL: func.func @unused_collectives_stay(
func.func @unused_collectives_stay(%x: tensor<4x8xf32>) {
  // CHECK-NEXT: dpc.all_reduce
  // CHECK-NEXT: dpc.all_reduce
  // CHECK-NEXT: dpc.all_gather
  // CHECK-NEXT: dpc.reduce_scatter
  // CHECK-NEXT: dpc.all_to_all
  // CHECK-NEXT: dpc.ring_shift
  // CHECK-NEXT: return
  %0 = dpc.all_reduce sum %x axes = ["dp"] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = dpc.all_reduce sum %x axes = ["dp"] : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = dpc.all_gather %x axes = ["dp"] : tensor<4x8xf32> -> tensor<4x4x8xf32>
  %3 = dpc.reduce_scatter sum %x axes = ["dp"] : tensor<4x8xf32> -> tensor<8xf32>
  %4 = dpc.all_to_all %x axes = ["dp"] : tensor<4x8xf32> -> tensor<4x8xf32>
  %5 = dpc.ring_shift %x axes = ["dp"] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @equal_computations_merge(
func.func @equal_computations_merge(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[E:.+]] = dpc.unary exp
  // CHECK-NEXT: return %[[E]], %[[E]]
  %0 = dpc.unary exp %x : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.unary exp %x : tensor<4xf32> -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Constants remain in the body of a kernel, because it is isolated from above.
// CHECK-LABEL: func.func @folds_stay_inside_a_kernel(
func.func @folds_stay_inside_a_kernel(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: dpc.kernel
  // CHECK-NEXT: ^bb0(%[[A:.+]]: tensor<4xf32>):
  // CHECK-NEXT: %[[C:.+]] = dpc.constant dense<3.000000e+00>
  // CHECK-NEXT: dpc.binary mul %[[A]], %[[C]]
  %0 = dpc.kernel %x : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %one = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
    %two = dpc.constant dense<2.0> : tensor<4xf32> -> tensor<4xf32>
    %three = dpc.binary add %one, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %b = dpc.binary mul %a, %three : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    dpc.yield %b : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
