// RUN: dpc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{fp8=true}))' | FileCheck %s

// The matmul of a result, after data movement and a bias, is not in fp8. A matmul that
// is added to other values is in fp8, even if the sum is a result.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK-NOT: dpc.fp8
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}, %v: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "v"}, %b: tensor<16xf32> {dpc.role = "parameter", dpc.name = "b"}) -> (tensor<512xf32>, tensor<32x16xf32>) {
  %h = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %r = dpc.binary add %x, %h : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %y = dpc.matmul %r, %v : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %c = dpc.broadcast %b dims = [1] : tensor<16xf32> -> tensor<32x16xf32>
  %s = dpc.binary add %y, %c : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %f = dpc.reshape %s : tensor<32x16xf32> -> tensor<512xf32>
  return %f, %r : tensor<512xf32>, tensor<32x16xf32>
}

// -----

// The matmul of a result is not in fp8 even if it has another user.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}) -> (tensor<32x16xf32>, tensor<32x16xf32>) {
  %y = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %t = dpc.unary tanh %y : tensor<32x16xf32> -> tensor<32x16xf32>
  return %y, %t : tensor<32x16xf32>, tensor<32x16xf32>
}

// -----

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}) -> (tensor<32x16xf32>, tensor<512xf32>) {
  %y = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %p = dpc.softmax %y : tensor<32x16xf32> -> tensor<32x16xf32>
  %f = dpc.reshape %y : tensor<32x16xf32> -> tensor<512xf32>
  return %p, %f : tensor<32x16xf32>, tensor<512xf32>
}

// -----

// A weight that multiplies the matmul is not a bias.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}, %g: tensor<16xf32> {dpc.role = "parameter", dpc.name = "g"}) -> tensor<32x16xf32> {
  %y = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %c = dpc.broadcast %g dims = [1] : tensor<16xf32> -> tensor<32x16xf32>
  %s = dpc.binary mul %y, %c : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  return %s : tensor<32x16xf32>
}

// -----

// The last layer before a mean squared error is not in fp8.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK-NOT: dpc.fp8
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %t: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}, %v: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "v"}) -> (tensor<f32> {dpc.loss}) {
  %h = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %r = dpc.unary tanh %h : tensor<32x16xf32> -> tensor<32x16xf32>
  %y = dpc.matmul %r, %v : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %d = dpc.binary sub %y, %t : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %s = dpc.binary mul %d, %d : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %sum = dpc.reduce sum %s dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
  return %sum : tensor<f32>
}

// -----

// If layers are added, none of them is the last.

// CHECK-LABEL: func.func @forward
// CHECK-COUNT-2: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN]}
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"}, %v: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "v"}) -> (tensor<f32> {dpc.loss}) {
  %h = dpc.matmul %x, %w : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %r = dpc.unary tanh %h : tensor<32x16xf32> -> tensor<32x16xf32>
  %y = dpc.matmul %r, %v : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %s = dpc.binary add %h, %y : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %sum = dpc.reduce sum %s dims = [0, 1] : tensor<32x16xf32> -> tensor<f32>
  return %sum : tensor<f32>
}
