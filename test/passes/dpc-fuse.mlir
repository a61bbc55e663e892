// RUN: dpc-opt %s --dpc-simplify --dpc-fuse --dpc-simplify --split-input-file | FileCheck %s

// These cases check the IR, and programs that must not be fused. graph-test compares the
// results of fused and unfused ops.

// CHECK-LABEL: func @gelu
// CHECK-SAME: %[[X:[^:]*]]: tensor<4xf32>
// CHECK-NEXT: dpc.unary gelu %[[X]]
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = dpc.constant dense<1.4142135381698608> : tensor<4xf32> -> tensor<4xf32>
  %one = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
  %half = dpc.constant dense<0.5> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary div %x, %root : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.unary erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.binary add %1, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.binary mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.binary mul %3, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// -----

// With another constant or another x, this is not gelu.
// CHECK-LABEL: func @not_gelu
// CHECK-NOT: gelu
// CHECK: return
func.func @not_gelu(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %root = dpc.constant dense<1.4142135381698608> : tensor<4xf32> -> tensor<4xf32>
  %one = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
  %half = dpc.constant dense<0.5> : tensor<4xf32> -> tensor<4xf32>
  %wrong = dpc.constant dense<0.501> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.binary div %x, %root : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = dpc.unary erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.binary add %1, %one : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.binary mul %x, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.binary mul %3, %wrong : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = dpc.binary mul %z, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = dpc.binary mul %5, %half : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4, %6 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func @silu
// CHECK-DAG: dpc.unary silu
// CHECK-DAG: dpc.unary sigmoid
func.func @silu(%x: tensor<4xf32>, %z: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = dpc.unary sigmoid %x : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.binary mul %0, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.binary mul %0, %z : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func @rms_norm
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x8xf32>, %[[W:[^:]*]]: tensor<8xf32>
// CHECK-NEXT: %[[Y:.*]], %{{.*}}, %{{.*}} = dpc.norm rms %[[X]] scale %[[W]] eps = 9.9{{.*}}E-6
// CHECK-NEXT: return %[[Y]]
func.func @rms_norm(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  %n = dpc.constant dense<8.0> : tensor<2x1xf32> -> tensor<2x1xf32>
  %eps = dpc.constant dense<1.0e-5> : tensor<2x1xf32> -> tensor<2x1xf32>
  %0 = dpc.binary mul %x, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = dpc.reduce sum %0 dims = [1] : tensor<2x8xf32> -> tensor<2xf32>
  %2 = dpc.reshape %1 : tensor<2xf32> -> tensor<2x1xf32>
  %3 = dpc.binary div %2, %n : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = dpc.binary add %3, %eps : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  %5 = dpc.unary rsqrt %4 : tensor<2x1xf32> -> tensor<2x1xf32>
  %6 = dpc.broadcast %5 dims = [0, 1] : tensor<2x1xf32> -> tensor<2x8xf32>
  %7 = dpc.binary mul %x, %6 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %8 = dpc.broadcast %w dims = [1] : tensor<8xf32> -> tensor<2x8xf32>
  %9 = dpc.binary mul %8, %7 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %9 : tensor<2x8xf32>
}

// -----

// Divided by another count, or by the root mean square of another value, this is not a
// norm.
// CHECK-LABEL: func @not_rms_norm
// CHECK-NOT: dpc.norm
// CHECK: return
func.func @not_rms_norm(%x: tensor<2x8xf32>, %z: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %seventh = dpc.constant dense<0.14285715> : tensor<2xf32> -> tensor<2xf32>
  %eighth = dpc.constant dense<0.125> : tensor<2xf32> -> tensor<2xf32>
  %eps = dpc.constant dense<1.0e-5> : tensor<2xf32> -> tensor<2xf32>
  %0 = dpc.binary mul %x, %x : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = dpc.reduce sum %0 dims = [1] : tensor<2x8xf32> -> tensor<2xf32>
  %2 = dpc.binary mul %1, %seventh : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = dpc.binary add %2, %eps : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = dpc.unary rsqrt %3 : tensor<2xf32> -> tensor<2xf32>
  %5 = dpc.broadcast %4 dims = [0] : tensor<2xf32> -> tensor<2x8xf32>
  %6 = dpc.binary mul %x, %5 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %7 = dpc.binary mul %1, %eighth : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %8 = dpc.binary add %7, %eps : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %9 = dpc.unary rsqrt %8 : tensor<2xf32> -> tensor<2xf32>
  %10 = dpc.broadcast %9 dims = [0] : tensor<2xf32> -> tensor<2x8xf32>
  %11 = dpc.binary mul %z, %10 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %6, %11 : tensor<2x8xf32>, tensor<2x8xf32>
}

// -----

// CHECK-LABEL: func @softmax
// CHECK: dpc.softmax
// With a sum over another dimension, this is not a softmax of rows.
// CHECK-LABEL: func @not_softmax
// CHECK-NOT: dpc.softmax
// CHECK: return
func.func @softmax(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dpc.unary exp %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = dpc.reduce sum %0 dims = [1] : tensor<4x4xf32> -> tensor<4xf32>
  %2 = dpc.broadcast %1 dims = [0] : tensor<4xf32> -> tensor<4x4xf32>
  %3 = dpc.binary div %0, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
func.func @not_softmax(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dpc.unary exp %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = dpc.reduce sum %0 dims = [0] : tensor<4x4xf32> -> tensor<4xf32>
  %2 = dpc.broadcast %1 dims = [1] : tensor<4xf32> -> tensor<4x4xf32>
  %3 = dpc.binary div %0, %2 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func @rope
// CHECK-SAME: %[[X:[^:]*]]: tensor<2x3x4xf32>, %[[C:[^:]*]]: tensor<3x4xf32>, %[[S:[^:]*]]: tensor<3x4xf32>
// CHECK-NEXT: dpc.rope %[[X]], %[[C]], %[[S]] :
func.func @rope(%x: tensor<2x3x4xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  %1 = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  %2 = dpc.unary neg %1 : tensor<2x3x2xf32> -> tensor<2x3x2xf32>
  %3 = dpc.concat %2, %0 dim = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %4 = dpc.broadcast %c dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %5 = dpc.broadcast %s dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %6 = dpc.binary mul %4, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %7 = dpc.binary mul %3, %5 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %8 = dpc.binary add %7, %6 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %8 : tensor<2x3x4xf32>
}

// -----

// The rotated part of a head, whose halves are slices of the head.
// CHECK-LABEL: func @rope_of_a_part
// CHECK: %[[R:.*]] = dpc.slice %{{.*}} offsets = [0, 0, 2]
// CHECK: dpc.rope %[[R]], %{{.*}}, %{{.*}} :
func.func @rope_of_a_part(%x: tensor<2x3x6xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  %r = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x4xf32>
  %a = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x2xf32>
  %b = dpc.slice %x offsets = [0, 0, 4] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x2xf32>
  %n = dpc.unary neg %b : tensor<2x3x2xf32> -> tensor<2x3x2xf32>
  %h = dpc.concat %n, %a dim = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %cw = dpc.broadcast %c dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %sw = dpc.broadcast %s dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %0 = dpc.binary mul %r, %cw : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = dpc.binary mul %h, %sw : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %2 = dpc.binary add %0, %1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// -----

// The second half is another part of the head.
// CHECK-LABEL: func @no_rope_of_parts
// CHECK-NOT: dpc.rope
func.func @no_rope_of_parts(%x: tensor<2x3x6xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  %r = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x4xf32>
  %a = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x2xf32>
  %b = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x2xf32>
  %n = dpc.unary neg %b : tensor<2x3x2xf32> -> tensor<2x3x2xf32>
  %h = dpc.concat %n, %a dim = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %cw = dpc.broadcast %c dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %sw = dpc.broadcast %s dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %0 = dpc.binary mul %r, %cw : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %1 = dpc.binary mul %h, %sw : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %2 = dpc.binary add %0, %1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// -----

// With swapped halves or a trained table, this is not rope.
// CHECK-LABEL: func @not_rope
// CHECK-NOT: dpc.rope
// CHECK: return
func.func @not_rope(%x: tensor<2x3x4xf32>, %c: tensor<3x4xf32>, %s: tensor<3x4xf32>, %p: tensor<3x4xf32> {dpc.role = "parameter"}) -> (tensor<2x3x4xf32>, tensor<2x3x4xf32>) {
  %0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  %1 = dpc.slice %x offsets = [0, 0, 2] strides = [1, 1, 1] : tensor<2x3x4xf32> -> tensor<2x3x2xf32>
  %2 = dpc.unary neg %0 : tensor<2x3x2xf32> -> tensor<2x3x2xf32>
  %3 = dpc.concat %1, %2 dim = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %4 = dpc.broadcast %c dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %5 = dpc.broadcast %s dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %6 = dpc.binary mul %4, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %7 = dpc.binary mul %3, %5 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %8 = dpc.binary add %7, %6 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %9 = dpc.unary neg %1 : tensor<2x3x2xf32> -> tensor<2x3x2xf32>
  %10 = dpc.concat %9, %0 dim = 2 : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %11 = dpc.broadcast %p dims = [1, 2] : tensor<3x4xf32> -> tensor<2x3x4xf32>
  %12 = dpc.binary mul %11, %x : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %13 = dpc.binary mul %10, %5 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %14 = dpc.binary add %12, %13 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %8, %14 : tensor<2x3x4xf32>, tensor<2x3x4xf32>
}

// -----

// q is scaled before, keys are expanded from two heads to four, and an additive mask
// compares positions.
// CHECK-LABEL: func @causal
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x4x3x8xf32>, %[[K:[^:]*]]: tensor<2x2x3x8xf32>, %[[V:[^:]*]]: tensor<2x2x3x8xf32>
// CHECK-NEXT: %{{.*}}, %{{.*}} = dpc.attention %[[Q]], %[[K]], %[[V]] scale = 2.500000e-01 causal :
// CHECK-NEXT: return
func.func @causal(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %v: tensor<2x2x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %c = dpc.constant dense<0.25> : tensor<2x4x3x8xf32> -> tensor<2x4x3x8xf32>
  %minus = dpc.constant dense<-1.0e9> : tensor<3x3xf32> -> tensor<3x3xf32>
  %zero = dpc.constant dense<0.0> : tensor<3x3xf32> -> tensor<3x3xf32>
  %t = dpc.iota dim = 0 : tensor<3x3xi64>
  %s = dpc.iota dim = 1 : tensor<3x3xi64>
  %keep = dpc.compare ge %t, %s : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
  %m = dpc.select %keep, %zero, %minus : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %mask = dpc.broadcast %m dims = [2, 3] : tensor<3x3xf32> -> tensor<2x4x3x3xf32>
  %k5 = dpc.broadcast %k dims = [0, 1, 3, 4] : tensor<2x2x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %k4 = dpc.reshape %k5 : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %v5 = dpc.broadcast %v dims = [0, 1, 3, 4] : tensor<2x2x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %v4 = dpc.reshape %v5 : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %0 = dpc.binary mul %q, %c : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %1 = dpc.matmul %0, %k4 tb : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %2 = dpc.binary add %1, %mask : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = dpc.softmax %2 : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xf32>
  %4 = dpc.matmul %3, %v4 : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %4 : tensor<2x4x3x8xf32>
}

// -----

// One element differs from a causal mask, so it remains a mask operand. Heads repeated
// as a block (h mod 2 instead of h / 2) remain repeated.
// CHECK-LABEL: func @almost_causal
// CHECK: %[[K:.*]] = dpc.reshape %{{.*}} -> tensor<2x4x3x8xf32>
// CHECK: dpc.attention %{{[^ ]*}}, %[[K]], %[[K]] mask %{{[^ ]*}} scale = 1.000000e+00 :
// CHECK-SAME: tensor<1x1x3x3xf32>)
func.func @almost_causal(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %m = dpc.constant dense<[[0.0, -1.0e9, -1.0e9], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32> -> tensor<3x3xf32>
  %mask = dpc.broadcast %m dims = [2, 3] : tensor<3x3xf32> -> tensor<2x4x3x3xf32>
  %k5 = dpc.broadcast %k dims = [0, 2, 3, 4] : tensor<2x2x3x8xf32> -> tensor<2x2x2x3x8xf32>
  %k4 = dpc.reshape %k5 : tensor<2x2x2x3x8xf32> -> tensor<2x4x3x8xf32>
  %1 = dpc.matmul %q, %k4 tb : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %2 = dpc.binary add %1, %mask : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = dpc.softmax %2 : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xf32>
  %4 = dpc.matmul %3, %k4 : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %4 : tensor<2x4x3x8xf32>
}

// -----

// A trained bias, and probabilities that are an output, prevent the fusion.
// CHECK-LABEL: func @not_attention
// CHECK-NOT: dpc.attention
// CHECK: return
func.func @not_attention(%q: tensor<2x4x3x8xf32>, %b: tensor<4x3x3xf32> {dpc.role = "parameter"}) -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x3xf32>) {
  %bias = dpc.broadcast %b dims = [1, 2, 3] : tensor<4x3x3xf32> -> tensor<2x4x3x3xf32>
  %1 = dpc.matmul %q, %q tb : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x3xf32>
  %2 = dpc.binary add %1, %bias : (tensor<2x4x3x3xf32>, tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %3 = dpc.softmax %2 : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xf32>
  %4 = dpc.matmul %3, %q : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  %5 = dpc.softmax %1 : tensor<2x4x3x3xf32> -> tensor<2x4x3x3xf32>
  %6 = dpc.matmul %5, %q : (tensor<2x4x3x3xf32>, tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32>
  return %4, %6, %5 : tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x3xf32>
}

// -----

// The mean has a user before the scale, so the norm does not move.
// CHECK-LABEL: func @mean_is_read_first
// CHECK: %[[Y:.*]], %[[MEAN:.*]], %{{.*}} = dpc.norm layer %{{[^ ]*}} eps
// CHECK: dpc.unary exp %[[MEAN]]
// CHECK: dpc.binary mul %[[Y]]
func.func @mean_is_read_first(%x: tensor<8x4xf32>, %w: tensor<4xf32>) -> (tensor<8xf32>, tensor<8x4xf32>) {
  %y, %m, %r = dpc.norm layer %x eps = 1.0e-5 : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>)
  %z = dpc.unary exp %m : tensor<8xf32> -> tensor<8xf32>
  %b = dpc.broadcast %w dims = [1] : tensor<4xf32> -> tensor<8x4xf32>
  %s = dpc.binary mul %y, %b : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %z, %s : tensor<8xf32>, tensor<8x4xf32>
}

// -----

// The mask is causal except for a masked rectangle, which touches neither the border
// nor the diagonal.
// CHECK-LABEL: func @causal_with_a_hole
// CHECK-NOT: causal
// CHECK: dpc.attention {{.*}} mask %{{[^ ]*}} scale = {{[^ ]*}} :
// CHECK: return
func.func @causal_with_a_hole(%q: tensor<1x1x16x4xf32>, %k: tensor<1x1x16x4xf32>, %v: tensor<1x1x16x4xf32>) -> tensor<1x1x16x4xf32> {
  %s = dpc.matmul %q, %k tb : (tensor<1x1x16x4xf32>, tensor<1x1x16x4xf32>) -> tensor<1x1x16x16xf32>
  %t = dpc.iota dim = 2 : tensor<1x1x16x16xi64>
  %j = dpc.iota dim = 3 : tensor<1x1x16x16xi64>
  %c10 = dpc.constant dense<10> : tensor<1x1x16x16xi64> -> tensor<1x1x16x16xi64>
  %c12 = dpc.constant dense<12> : tensor<1x1x16x16xi64> -> tensor<1x1x16x16xi64>
  %c3 = dpc.constant dense<3> : tensor<1x1x16x16xi64> -> tensor<1x1x16x16xi64>
  %c5 = dpc.constant dense<5> : tensor<1x1x16x16xi64> -> tensor<1x1x16x16xi64>
  %z = dpc.constant dense<0.0> : tensor<1x1x16x16xf32> -> tensor<1x1x16x16xf32>
  %m = dpc.constant dense<-1.0e9> : tensor<1x1x16x16xf32> -> tensor<1x1x16x16xf32>
  %le = dpc.compare le %j, %t : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %a1 = dpc.compare ge %t, %c10 : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %a2 = dpc.compare le %t, %c12 : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %a3 = dpc.compare ge %j, %c3 : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %a4 = dpc.compare le %j, %c5 : (tensor<1x1x16x16xi64>, tensor<1x1x16x16xi64>) -> tensor<1x1x16x16xi1>
  %h4 = dpc.select %a4, %m, %z : (tensor<1x1x16x16xi1>, tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %h3 = dpc.select %a3, %h4, %z : (tensor<1x1x16x16xi1>, tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %h2 = dpc.select %a2, %h3, %z : (tensor<1x1x16x16xi1>, tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %h1 = dpc.select %a1, %h2, %z : (tensor<1x1x16x16xi1>, tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %mask = dpc.select %le, %h1, %m : (tensor<1x1x16x16xi1>, tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %s2 = dpc.binary add %s, %mask : (tensor<1x1x16x16xf32>, tensor<1x1x16x16xf32>) -> tensor<1x1x16x16xf32>
  %p = dpc.softmax %s2 : tensor<1x1x16x16xf32> -> tensor<1x1x16x16xf32>
  %o = dpc.matmul %p, %v : (tensor<1x1x16x16xf32>, tensor<1x1x16x4xf32>) -> tensor<1x1x16x4xf32>
  return %o : tensor<1x1x16x4xf32>
}

// -----

// Each mask is a half plane. Every form of the causal mask is found. A mask whose edge is
// next to the diagonal is not causal.
// CHECK-LABEL: func @causal_by_choice
// CHECK: dpc.attention {{.*}} causal
// CHECK-LABEL: func @beside_the_diagonal
// CHECK-NOT: causal
// CHECK: dpc.attention {{.*}} mask %{{[^ ]*}} scale = {{[^ ]*}} :
// CHECK: return
func.func @causal_by_choice(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x8x4xf32>, %v: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  %s = dpc.matmul %q, %k tb : (tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>) -> tensor<1x1x8x8xf32>
  %i = dpc.iota dim = 0 : tensor<8xi64>
  %row = dpc.reshape %i : tensor<8xi64> -> tensor<8x1xi64>
  %t = dpc.broadcast %row dims = [2, 3] : tensor<8x1xi64> -> tensor<1x1x8x8xi64>
  %j = dpc.broadcast %i dims = [3] : tensor<8xi64> -> tensor<1x1x8x8xi64>
  %gt = dpc.compare gt %j, %t : (tensor<1x1x8x8xi64>, tensor<1x1x8x8xi64>) -> tensor<1x1x8x8xi1>
  %z = dpc.constant dense<0.0> : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %m = dpc.constant dense<-1.0e9> : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %mask = dpc.select %gt, %m, %z : (tensor<1x1x8x8xi1>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %s2 = dpc.binary add %s, %mask : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %p = dpc.softmax %s2 : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %o = dpc.matmul %p, %v : (tensor<1x1x8x8xf32>, tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}
func.func @beside_the_diagonal(%q: tensor<1x1x8x4xf32>, %k: tensor<1x1x8x4xf32>, %v: tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32> {
  %s = dpc.matmul %q, %k tb : (tensor<1x1x8x4xf32>, tensor<1x1x8x4xf32>) -> tensor<1x1x8x8xf32>
  %t = dpc.iota dim = 2 : tensor<1x1x8x8xi64>
  %j = dpc.iota dim = 3 : tensor<1x1x8x8xi64>
  %ge = dpc.compare ge %j, %t : (tensor<1x1x8x8xi64>, tensor<1x1x8x8xi64>) -> tensor<1x1x8x8xi1>
  %z = dpc.constant dense<0.0> : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %m = dpc.constant dense<-1.0e9> : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %mask = dpc.select %ge, %m, %z : (tensor<1x1x8x8xi1>, tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %s2 = dpc.binary add %s, %mask : (tensor<1x1x8x8xf32>, tensor<1x1x8x8xf32>) -> tensor<1x1x8x8xf32>
  %p = dpc.softmax %s2 : tensor<1x1x8x8xf32> -> tensor<1x1x8x8xf32>
  %o = dpc.matmul %p, %v : (tensor<1x1x8x8xf32>, tensor<1x1x8x4xf32>) -> tensor<1x1x8x4xf32>
  return %o : tensor<1x1x8x4xf32>
}

// -----

// A bias of keys does not change the softmax. Attention reads k from before the
// addition, and the bias is still trained (weight decay).

// CHECK-LABEL: func.func @key_bias
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<8xf32> {dpc.role = "parameter", dpc.zero_gradient}
// CHECK: %[[KX:.*]] = dpc.matmul
// CHECK: %[[H:.*]] = dpc.reshape %[[KX]] : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
// CHECK: %[[K:.*]] = dpc.transpose %[[H]] perm = [0, 2, 1, 3]
// CHECK: dpc.attention %{{.*}}, %[[K]], %{{.*}}
func.func @key_bias(%x: tensor<2x3x8xf32>, %w: tensor<8x8xf32> {dpc.role = "parameter"}, %b: tensor<8xf32> {dpc.role = "parameter"}, %q: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %0 = dpc.matmul %x, %w : (tensor<2x3x8xf32>, tensor<8x8xf32>) -> tensor<2x3x8xf32>
  %1 = dpc.broadcast %b dims = [2] : tensor<8xf32> -> tensor<2x3x8xf32>
  %2 = dpc.binary add %1, %0 : (tensor<2x3x8xf32>, tensor<2x3x8xf32>) -> tensor<2x3x8xf32>
  %3 = dpc.reshape %2 : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %4 = dpc.transpose %3 perm = [0, 2, 1, 3] : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %o, %lse = dpc.attention %q, %4, %q scale = 0.5 : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> (tensor<2x2x3x4xf32>, tensor<2x2x3xf32>)
  return %o : tensor<2x2x3x4xf32>
}
