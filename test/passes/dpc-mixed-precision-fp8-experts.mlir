// RUN: dpc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{fp8=true}))' | FileCheck %s

// The weights of experts are stacks, even if a matmul sums over all experts or reads
// one of them. Their matmuls and the router are in bf16.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x64xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<64x32x16xbf16>, tensor<64x16x16xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x1024xbf16>, tensor<1024x16xbf16>)
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
// CHECK-NOT: dpc.fp8
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %in: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "in"}, %r: tensor<16x64xf32> {dpc.role = "parameter", dpc.name = "r"}, %u: tensor<64x16x16xf32> {dpc.role = "parameter", dpc.name = "u"}, %d: tensor<64x16x16xf32> {dpc.role = "parameter", dpc.name = "d"}) -> (tensor<32x2xf32>, tensor<32x16xf32>) {
  %h = dpc.matmul %x, %in : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %g = dpc.matmul %h, %r : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
  %p = dpc.softmax %g : tensor<32x64xf32> -> tensor<32x64xf32>
  %values, %indices = dpc.topk %p : tensor<32x64xf32> -> tensor<32x2xf32>, tensor<32x2xi64>
  %t = dpc.broadcast %h dims = [1, 2] : tensor<32x16xf32> -> tensor<64x32x16xf32>
  %e = dpc.matmul %t, %u : (tensor<64x32x16xf32>, tensor<64x16x16xf32>) -> tensor<64x32x16xf32>
  %m = dpc.transpose %e perm = [1, 0, 2] : tensor<64x32x16xf32> -> tensor<32x64x16xf32>
  %a = dpc.reshape %m : tensor<32x64x16xf32> -> tensor<32x1024xf32>
  %b = dpc.reshape %d : tensor<64x16x16xf32> -> tensor<1024x16xf32>
  %y = dpc.matmul %a, %b : (tensor<32x1024xf32>, tensor<1024x16xf32>) -> tensor<32x16xf32>
  %o = dpc.slice %u offsets = [3, 0, 0] strides = [1, 1, 1] : tensor<64x16x16xf32> -> tensor<1x16x16xf32>
  %q = dpc.reshape %o : tensor<1x16x16xf32> -> tensor<16x16xf32>
  %z = dpc.matmul %h, %q : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %s = dpc.binary add %y, %z : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %f = dpc.unary tanh %s : tensor<32x16xf32> -> tensor<32x16xf32>
  return %values, %f : tensor<32x2xf32>, tensor<32x16xf32>
}

// -----

// Routers without top-k weight all experts. The weight of a 1x1 convolution is a
// matrix.

// CHECK-LABEL: func.func @forward
// CHECK: dpc.matmul {{%[0-9]+, %[0-9]+}} : (tensor<32x16xbf16>, tensor<16x64xbf16>)
// CHECK: dpc.matmul {{.*}} tb {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>)
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %r: tensor<16x64xf32> {dpc.role = "parameter", dpc.name = "r"}, %u: tensor<64x16x16xf32> {dpc.role = "parameter", dpc.name = "u"}, %c: tensor<16x16x1x1xf32> {dpc.role = "parameter", dpc.name = "c"}) -> (tensor<32xf32>, tensor<32x16xf32>, tensor<64x32x16xf32>) {
  %g = dpc.matmul %x, %r : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
  %p = dpc.softmax %g : tensor<32x64xf32> -> tensor<32x64xf32>
  %best = dpc.reduce max %p dims = [1] : tensor<32x64xf32> -> tensor<32xf32>
  %w = dpc.reshape %c : tensor<16x16x1x1xf32> -> tensor<16x16xf32>
  %y = dpc.matmul %x, %w tb : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %f = dpc.unary tanh %y : tensor<32x16xf32> -> tensor<32x16xf32>
  %t = dpc.broadcast %x dims = [1, 2] : tensor<32x16xf32> -> tensor<64x32x16xf32>
  %e = dpc.matmul %t, %u : (tensor<64x32x16xf32>, tensor<64x16x16xf32>) -> tensor<64x32x16xf32>
  return %best, %f, %e : tensor<32xf32>, tensor<32x16xf32>, tensor<64x32x16xf32>
}
