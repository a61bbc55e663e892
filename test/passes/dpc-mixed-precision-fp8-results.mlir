// RUN: dpc-opt %s --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{fp8=true}))' | FileCheck %s

// A product that a result comes from, moved and with a bias, is not of fp8; one
// that is added to values is, though the sum is a result.

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
