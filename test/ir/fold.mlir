// Folds of single ops. A fold never changes a type, including its encoding.
//
// RUN: dpc-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @neutral_operands(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
func.func @neutral_operands(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return %[[X]]
  %zero = dpc.constant dense<0.0> : tensor<4xf32> -> tensor<4xf32>
  %one = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary add %x, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.binary mul %one, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.binary sub %1, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.binary div %2, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.binary pow %3, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// CHECK-LABEL: func.func @zero_is_not_neutral_everywhere(
func.func @zero_is_not_neutral_everywhere(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: dpc.binary sub
  // CHECK: dpc.binary mul
  %zero = dpc.constant dense<0.0> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary sub %zero, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.binary mul %x, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @conjunction_with_true(
// CHECK-SAME: %[[X:.+]]: tensor<4xi1>
func.func @conjunction_with_true(%x: tensor<4xi1>) -> tensor<4xi1> {
  // CHECK-NEXT: return %[[X]]
  %true = dpc.constant dense<true> : tensor<4xi1> -> tensor<4xi1>
  %0 = dpc.binary logical_and %x, %true : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// The logical_and of integers is 0 or 1, not its operand.
// CHECK-LABEL: func.func @conjunction_of_integers(
func.func @conjunction_of_integers(%x: tensor<4xi64>) -> tensor<4xi64> {
  // CHECK: dpc.binary logical_and
  %one = dpc.constant dense<1> : tensor<4xi64> -> tensor<4xi64>
  %0 = dpc.binary logical_and %x, %one : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// CHECK-LABEL: func.func @arithmetic(
func.func @arithmetic() -> tensor<4xf32> {
  // CHECK-NEXT: %[[C:.+]] = dpc.constant dense<[1.500000e+00, 5.000000e-01, -5.000000e-01, 7.500000e+00]>
  // CHECK-NEXT: return %[[C]]
  %a = dpc.constant dense<[1.0, 0.0, -1.0, 7.0]> : tensor<4xf32> -> tensor<4xf32>
  %b = dpc.constant dense<0.5> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @integer_arithmetic(
func.func @integer_arithmetic() -> (tensor<3xi64>, tensor<3xi64>) {
  // CHECK-DAG: dpc.constant dense<[-3, 3, 0]> : tensor<3xi64>
  // CHECK-DAG: dpc.constant dense<[-1, 1, 1]> : tensor<3xi64>
  %a = dpc.constant dense<[-7, 7, 1]> : tensor<3xi64> -> tensor<3xi64>
  %b = dpc.constant dense<2> : tensor<3xi64> -> tensor<3xi64>
  %0 = dpc.binary div %a, %b : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %1 = dpc.binary rem %a, %b : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  return %0, %1 : tensor<3xi64>, tensor<3xi64>
}

// CHECK-LABEL: func.func @division_by_zero_stays(
func.func @division_by_zero_stays() -> tensor<2xi64> {
  // CHECK: dpc.binary div
  %a = dpc.constant dense<1> : tensor<2xi64> -> tensor<2xi64>
  %b = dpc.constant dense<[1, 0]> : tensor<2xi64> -> tensor<2xi64>
  %0 = dpc.binary div %a, %b : (tensor<2xi64>, tensor<2xi64>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// CHECK-LABEL: func.func @functions_of_constants(
func.func @functions_of_constants() -> (tensor<2xf32>, tensor<2xf32>, tensor<i64>) {
  // CHECK-DAG: dpc.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
  // CHECK-DAG: dpc.constant dense<[0.841344773, 1.95449972]> : tensor<2xf32>
  // CHECK-DAG: dpc.constant dense<-3> : tensor<i64>
  %a = dpc.constant dense<[4.0, 16.0]> : tensor<2xf32> -> tensor<2xf32>
  %0 = dpc.unary rsqrt %a : tensor<2xf32> -> tensor<2xf32>
  %b = dpc.constant dense<[1.0, 2.0]> : tensor<2xf32> -> tensor<2xf32>
  %1 = dpc.unary gelu %b : tensor<2xf32> -> tensor<2xf32>
  %c = dpc.constant dense<3> : tensor<i64> -> tensor<i64>
  %2 = dpc.unary neg %c : tensor<i64> -> tensor<i64>
  return %0, %1, %2 : tensor<2xf32>, tensor<2xf32>, tensor<i64>
}

// CHECK-LABEL: func.func @large_constants_stay(
func.func @large_constants_stay(%x: tensor<5000xf32>) -> (tensor<5000xf32>, tensor<2x4097xf32>) {
  // CHECK-DAG: dpc.constant dense<2.000000e+00> : tensor<5000xf32>
  // CHECK: dpc.unary neg
  %splat = dpc.constant dense<4.0> : tensor<5000xf32> -> tensor<5000xf32>
  %0 = dpc.unary sqrt %splat : tensor<5000xf32> -> tensor<5000xf32>
  %big = dpc.constant dense_resource<big> : tensor<2x4097xf32> -> tensor<2x4097xf32>
  %1 = dpc.unary neg %big : tensor<2x4097xf32> -> tensor<2x4097xf32>
  return %0, %1 : tensor<5000xf32>, tensor<2x4097xf32>
}

// CHECK-LABEL: func.func @conversions(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
func.func @conversions(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xi32>, tensor<2xi1>, tensor<2xf32>, tensor<2xi32>) {
  // CHECK-DAG: %[[I:.+]] = dpc.constant dense<[-1, 2]> : tensor<2xi32>
  // CHECK-DAG: %[[B:.+]] = dpc.constant dense<true> : tensor<2xi1>
  // CHECK-DAG: %[[F:.+]] = dpc.constant dense<1.000000e+00> : tensor<2xf32>
  // CHECK-DAG: %[[N:.+]] = dpc.convert
  // CHECK: return %[[X]], %[[I]], %[[B]], %[[F]], %[[N]]
  %0 = dpc.convert %x : tensor<4xf32> -> tensor<4xf32>
  %a = dpc.constant dense<[-1.9, 2.9]> : tensor<2xf32> -> tensor<2xf32>
  %1 = dpc.convert %a : tensor<2xf32> -> tensor<2xi32>
  %2 = dpc.convert %a : tensor<2xf32> -> tensor<2xi1>
  %3 = dpc.convert %2 : tensor<2xi1> -> tensor<2xf32>
  %huge = dpc.constant dense<1.0e30> : tensor<2xf32> -> tensor<2xf32>
  %4 = dpc.convert %huge : tensor<2xf32> -> tensor<2xi32>
  return %0, %1, %2, %3, %4 : tensor<4xf32>, tensor<2xi32>, tensor<2xi1>, tensor<2xf32>, tensor<2xi32>
}

// CHECK-LABEL: func.func @a_stop_of_gradients_stays(
func.func @a_stop_of_gradients_stays(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[S:.+]] = dpc.convert %{{.+}} {dpc.stop_gradient}
  // CHECK: return %[[S]]
  %0 = dpc.convert %x {dpc.stop_gradient} : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @logical_kinds_take_bits(
func.func @logical_kinds_take_bits(%x: tensor<2xi32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) {
  // CHECK-DAG: %[[A:.+]] = dpc.constant dense<[8, 2]> : tensor<2xi32>
  // CHECK-DAG: %[[O:.+]] = dpc.constant dense<[14, 7]> : tensor<2xi32>
  // CHECK-DAG: %[[L:.+]] = dpc.binary logical_and
  // CHECK: return %[[A]], %[[O]], %{{.*}}, %[[L]]
  %a = dpc.constant dense<[12, 3]> : tensor<2xi32> -> tensor<2xi32>
  %b = dpc.constant dense<[10, 6]> : tensor<2xi32> -> tensor<2xi32>
  %zero = dpc.constant dense<0> : tensor<2xi32> -> tensor<2xi32>
  %one = dpc.constant dense<1> : tensor<2xi32> -> tensor<2xi32>
  %0 = dpc.binary logical_and %a, %b : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %1 = dpc.binary logical_or %a, %b : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %2 = dpc.binary logical_xor %x, %zero : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  %3 = dpc.binary logical_and %x, %one : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %0, %1, %2, %3 : tensor<2xi32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>
}

// CHECK-LABEL: func.func @identities(
// CHECK-SAME: %[[X:.+]]: tensor<2x4xf32>
func.func @identities(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK-NEXT: return %[[X]]
  %0 = dpc.reshape %x : tensor<2x4xf32> -> tensor<2x4xf32>
  %1 = dpc.transpose %0 perm = [0, 1] : tensor<2x4xf32> -> tensor<2x4xf32>
  %2 = dpc.slice %1 offsets = [0, 0] strides = [1, 1] : tensor<2x4xf32> -> tensor<2x4xf32>
  %3 = dpc.broadcast %2 dims = [0, 1] : tensor<2x4xf32> -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @square_transpose_stays(
func.func @square_transpose_stays(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NEXT: dpc.transpose
  %0 = dpc.transpose %x perm = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @chains(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<24xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>) {
  // CHECK-NEXT: %[[R:.+]] = dpc.reshape %[[X]] : tensor<2x3x4xf32> -> tensor<24xf32>
  // CHECK-NEXT: %[[T:.+]] = dpc.transpose %[[X]] perm = [2, 0, 1]
  // CHECK-NEXT: return %[[R]], %[[T]], %[[X]]
  %0 = dpc.reshape %x : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %1 = dpc.reshape %0 : tensor<6x4xf32> -> tensor<24xf32>
  %2 = dpc.transpose %x perm = [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %3 = dpc.transpose %2 perm = [1, 2, 0] : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  %4 = dpc.transpose %3 perm = [1, 2, 0] : tensor<4x2x3xf32> -> tensor<2x3x4xf32>
  return %1, %3, %4 : tensor<24xf32>, tensor<4x2x3xf32>, tensor<2x3x4xf32>
}

// CHECK-LABEL: func.func @moved_constants(
func.func @moved_constants() -> (tensor<8x4xf32>, tensor<2xf32>, tensor<2x2xi64>) {
  // CHECK-DAG: dpc.constant dense<2.000000e+00> : tensor<8x4xf32>
  // CHECK-DAG: dpc.constant dense<2.000000e+00> : tensor<2xf32>
  // CHECK-DAG: dpc.constant dense<{{\[}}[1, 2], [3, 4]]> : tensor<2x2xi64>
  // CHECK-NOT: dpc.broadcast
  %s = dpc.constant dense<2.0> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.broadcast %s dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %1 = dpc.slice %s offsets = [1] strides = [2] : tensor<4xf32> -> tensor<2xf32>
  %a = dpc.constant dense<[1, 2, 3, 4]> : tensor<4xi64> -> tensor<4xi64>
  %2 = dpc.reshape %a : tensor<4xi64> -> tensor<2x2xi64>
  return %0, %1, %2 : tensor<8x4xf32>, tensor<2xf32>, tensor<2x2xi64>
}
