// RUN: dpc-opt %s --dpc-simplify --split-input-file | FileCheck %s

// The transpose of a weight becomes a flag, even if the weight is not a parameter and
// has other users.
// CHECK-LABEL: func @transposed_operands
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>, %[[W:[^:]*]]: tensor<6x8xf32>
// CHECK-NEXT: %[[Y:.*]] = dpc.matmul %[[X]], %[[W]] tb :
// CHECK-NEXT: %[[Z:.*]] = dpc.matmul %[[X]], %[[X]] ta :
// CHECK-NEXT: return %[[Y]], %[[Z]]
func.func @transposed_operands(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>) -> (tensor<4x6xf32>, tensor<8x8xf32>) {
  %0 = dpc.transpose %w perm = [1, 0] : tensor<6x8xf32> -> tensor<8x6xf32>
  %1 = dpc.matmul %x, %0 : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %2 = dpc.transpose %x perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %3 = dpc.matmul %2, %x : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %1, %3 : tensor<4x6xf32>, tensor<8x8xf32>
}

// -----

// Keys of shape [B, H, D, T] keep a transpose that moves only heads.
// CHECK-LABEL: func @keys
// CHECK: %[[K:.*]] = dpc.transpose %{{.*}} perm = [0, 2, 1, 3]
// CHECK: dpc.matmul %{{.*}}, %[[K]] tb
func.func @keys(%q: tensor<2x4x5x8xf32>, %k: tensor<2x5x4x8xf32>) -> tensor<2x4x5x5xf32> {
  %0 = dpc.transpose %k perm = [0, 2, 3, 1] : tensor<2x5x4x8xf32> -> tensor<2x4x8x5xf32>
  %1 = dpc.matmul %q, %0 : (tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32>) -> tensor<2x4x5x5xf32>
  return %1 : tensor<2x4x5x5xf32>
}

// -----

// `ta` with one matrix for all batches requires a first operand of rank 2, so the
// transpose remains.
// CHECK-LABEL: func @no_ta_with_shared_matrix
// CHECK: dpc.transpose
// CHECK: dpc.matmul %{{[^ ]*}}, %{{[^ ]*}} :
func.func @no_ta_with_shared_matrix(%x: tensor<2x8x4xf32>, %w: tensor<8x6xf32>) -> tensor<2x4x6xf32> {
  %0 = dpc.transpose %x perm = [0, 2, 1] : tensor<2x8x4xf32> -> tensor<2x4x8xf32>
  %1 = dpc.matmul %0, %w : (tensor<2x4x8xf32>, tensor<8x6xf32>) -> tensor<2x4x6xf32>
  return %1 : tensor<2x4x6xf32>
}

// -----

// CHECK-LABEL: func @shared_matrix
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x4x8xf32>, %[[W:[^:]*]]: tensor<8x6xf32>
// CHECK-NEXT: dpc.matmul %[[X]], %[[W]] : (tensor<2x4x8xf32>, tensor<8x6xf32>)
func.func @shared_matrix(%x: tensor<2x4x8xf32>, %w: tensor<8x6xf32>) -> tensor<2x4x6xf32> {
  %0 = dpc.broadcast %w dims = [1, 2] : tensor<8x6xf32> -> tensor<2x8x6xf32>
  %1 = dpc.matmul %x, %0 : (tensor<2x4x8xf32>, tensor<2x8x6xf32>) -> tensor<2x4x6xf32>
  return %1 : tensor<2x4x6xf32>
}

// -----

// CHECK-LABEL: func @movement
// CHECK-SAME: %[[X:[^:]*]]: tensor<8x6xf32>, %[[B:[^:]*]]: tensor<6xf32>
// CHECK-DAG: %[[S:.*]] = dpc.slice %[[X]] offsets = [3, 0] strides = [4, 1] : tensor<8x6xf32> -> tensor<2x6xf32>
// CHECK-DAG: %[[V:.*]] = dpc.broadcast %[[B]] dims = [1] : tensor<6xf32> -> tensor<2x6xf32>
// CHECK: dpc.binary add %[[S]], %[[V]]
func.func @movement(%x: tensor<8x6xf32>, %b: tensor<6xf32>) -> tensor<2x6xf32> {
  %0 = dpc.slice %x offsets = [1, 0] strides = [2, 1] : tensor<8x6xf32> -> tensor<3x6xf32>
  %1 = dpc.slice %0 offsets = [1, 0] strides = [2, 1] : tensor<3x6xf32> -> tensor<1x6xf32>
  %2 = dpc.slice %x offsets = [3, 0] strides = [2, 1] : tensor<8x6xf32> -> tensor<3x6xf32>
  %3 = dpc.slice %2 offsets = [0, 0] strides = [2, 1] : tensor<3x6xf32> -> tensor<2x6xf32>
  %4 = dpc.reshape %b : tensor<6xf32> -> tensor<1x1x6xf32>
  %5 = dpc.reshape %4 : tensor<1x1x6xf32> -> tensor<1x6xf32>
  %6 = dpc.broadcast %5 dims = [0, 1] : tensor<1x6xf32> -> tensor<2x6xf32>
  %7 = dpc.binary add %3, %6 : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
  return %7 : tensor<2x6xf32>
}

// -----

// CHECK-LABEL: func @arithmetic
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-DAG: %[[Q:.*]] = dpc.constant dense<2.500000e-01>
// CHECK-DAG: %[[T:.*]] = dpc.constant dense<3.000000e+00>
// CHECK-DAG: %[[A:.*]] = dpc.binary mul %[[X]], %[[X]]
// CHECK-DAG: %[[B:.*]] = dpc.binary mul %[[A]], %[[Q]]
// 1 / 3 is not exact, so the division remains.
// CHECK-DAG: %[[C:.*]] = dpc.binary div %[[B]], %[[T]]
// CHECK-DAG: %[[D:.*]] = dpc.unary rsqrt %[[C]]
// CHECK: return %[[D]]
func.func @arithmetic(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
  %two = dpc.constant dense<2.0> : tensor<4xf32> -> tensor<4xf32>
  %three = dpc.constant dense<3.0> : tensor<4xf32> -> tensor<4xf32>
  %four = dpc.constant dense<4.0> : tensor<4xf32> -> tensor<4xf32>
  %zero = dpc.constant dense<0.0> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary pow %x, %two : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.binary mul %one, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.binary div %1, %four : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.binary add %2, %zero : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.binary div %3, %three : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = dpc.unary sqrt %4 : tensor<4xf32> -> tensor<4xf32>
  %6 = dpc.binary div %one, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}

// -----

// Divisions of integers do not become multiplications.
// CHECK-LABEL: func @integers
// CHECK: dpc.binary div
func.func @integers(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = dpc.constant dense<4> : tensor<4xi64> -> tensor<4xi64>
  %1 = dpc.binary div %x, %0 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  return %1 : tensor<4xi64>
}

// -----

// CHECK-LABEL: func @logic
// CHECK-SAME: %[[C:[^:]*]]: tensor<4xi1>, %[[A:[^:]*]]: tensor<4xf32>, %[[B:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: %[[R:.*]] = dpc.select %[[C]], %[[B]], %[[A]]
// CHECK-NEXT: return %[[R]]
func.func @logic(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = dpc.convert %c : tensor<4xi1> -> tensor<4xi32>
  %1 = dpc.convert %0 : tensor<4xi32> -> tensor<4xi1>
  %2 = dpc.unary logical_not %1 : tensor<4xi1> -> tensor<4xi1>
  %3 = dpc.select %2, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// -----

// A slice of a constant is a constant.
// CHECK-LABEL: func @constant_slice
// CHECK-NEXT: dpc.constant dense<{{\[}}[true, false], [true, true]]>
func.func @constant_slice() -> tensor<2x2xi1> {
  %0 = dpc.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1> -> tensor<3x3xi1>
  %1 = dpc.slice %0 offsets = [0, 0] strides = [1, 1] : tensor<3x3xi1> -> tensor<2x2xi1>
  return %1 : tensor<2x2xi1>
}

// -----

// The gradient of slices places parts next to each other.
// CHECK-LABEL: func @sum_of_pads
// CHECK-SAME: %[[A:[^:]*]]: tensor<4x2xf32>, %[[B:[^:]*]]: tensor<4x3xf32>, %[[C:[^:]*]]: tensor<4x1xf32>
// CHECK-NEXT: dpc.concat %[[A]], %[[B]], %[[C]] dim = 1
func.func @sum_of_pads(%a: tensor<4x2xf32>, %b: tensor<4x3xf32>, %c: tensor<4x1xf32>) -> tensor<4x6xf32> {
  %0 = dpc.pad %c low = [0, 5] strides = [1, 1] : tensor<4x1xf32> -> tensor<4x6xf32>
  %1 = dpc.pad %a low = [0, 0] strides = [1, 1] : tensor<4x2xf32> -> tensor<4x6xf32>
  %2 = dpc.pad %b low = [0, 2] strides = [1, 1] : tensor<4x3xf32> -> tensor<4x6xf32>
  %3 = dpc.binary add %0, %1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = dpc.binary add %3, %2 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}

// -----

// Sums of parts that overlap or leave a gap do not change.
// CHECK-LABEL: func @overlapping_pads
// CHECK-NOT: dpc.concat
// CHECK: dpc.binary add
func.func @overlapping_pads(%a: tensor<4x4xf32>, %b: tensor<4x3xf32>) -> tensor<4x6xf32> {
  %0 = dpc.pad %a low = [0, 0] strides = [1, 1] : tensor<4x4xf32> -> tensor<4x6xf32>
  %1 = dpc.pad %b low = [0, 3] strides = [1, 1] : tensor<4x3xf32> -> tensor<4x6xf32>
  %2 = dpc.binary add %0, %1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// -----

// Equal ops become one. Unused arguments remain. Rewritten ops keep their phase and
// group.
// CHECK-LABEL: func @dead_code
// CHECK-SAME: (%[[X:[^:]*]]: tensor<4xf32>, %{{.*}}: tensor<4xf32>)
// CHECK-NEXT: %[[Y:.*]] = dpc.unary rsqrt %[[X]] {dpc.group = 3 : i64, dpc.phase = "backward"}
// CHECK-NEXT: return %[[Y]], %[[Y]]
func.func @dead_code(%x: tensor<4xf32>, %unused: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dpc.unary sqrt %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.unary reciprocal %0 {dpc.phase = "backward", dpc.group = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.unary reciprocal %0 {dpc.phase = "backward", dpc.group = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
  %3 = dpc.unary exp %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Slices of constants of every kind of element type.
// CHECK-LABEL: func @slices_of_tables
// CHECK-DAG: dpc.constant dense<{{\[\[}}-5.000000e-01, 3.000000e+00{{\], \[}}7.500000e+00, 9.000000e+00]]> : tensor<2x2xf32>
// CHECK-DAG: dpc.constant dense<[1.500000e+00, -2.000000e+00]> : tensor<2xbf16>
// CHECK-DAG: dpc.constant dense<[-9223372036854775808, 7]> : tensor<2xi64>
// CHECK-DAG: dpc.constant dense<[-1, 4]> : tensor<2xi32>
// CHECK-NOT: dpc.slice
func.func @slices_of_tables() -> (tensor<2x2xf32>, tensor<2xbf16>, tensor<2xi64>, tensor<2xi32>) {
  %a = dpc.constant dense<[[1.0, -0.5, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 7.5, 8.5, 9.0]]> : tensor<3x4xf32> -> tensor<3x4xf32>
  %b = dpc.constant dense<[0.0, 1.5, -2.0]> : tensor<3xbf16> -> tensor<3xbf16>
  %c = dpc.constant dense<[-9223372036854775808, 7, 8]> : tensor<3xi64> -> tensor<3xi64>
  %d = dpc.constant dense<[-1, 3, 4]> : tensor<3xi32> -> tensor<3xi32>
  %0 = dpc.slice %a offsets = [0, 1] strides = [2, 2] : tensor<3x4xf32> -> tensor<2x2xf32>
  %1 = dpc.slice %b offsets = [1] strides = [1] : tensor<3xbf16> -> tensor<2xbf16>
  %2 = dpc.slice %c offsets = [0] strides = [1] : tensor<3xi64> -> tensor<2xi64>
  %3 = dpc.slice %d offsets = [0] strides = [2] : tensor<3xi32> -> tensor<2xi32>
  return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<2xbf16>, tensor<2xi64>, tensor<2xi32>
}
