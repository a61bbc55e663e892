// RUN: dpc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{fp8=true}))' | FileCheck %s
// RUN: dpc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{fp8=true}),dpc-differentiate)' | FileCheck %s --check-prefix=GRAD
// RUN: not dpc-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(dpc-mixed-precision{type=f16 fp8=true}))' 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: compute type is 'f16', expected bf16 for fp8

// Matmuls of a parameter, after data movement and conversion, are marked. A matmul of
// two activations and the matmul of the logits are not. Gradients have the type with
// more range.

// CHECK-LABEL: func.func @forward
// CHECK: %[[H:.*]] = dpc.matmul {{.*}} tb {dpc.fp8 = [f8E4M3FN, f8E4M3FN]} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xbf16>
// CHECK: %[[S:.*]] = dpc.matmul %[[H]], %[[H]] tb : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x32xbf16>
// CHECK: %[[A:.*]] = dpc.matmul %[[S]], %[[H]] : (tensor<32x32xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16>
// CHECK: dpc.matmul %[[A]], {{.*}} : (tensor<32x16xbf16>, tensor<16x16xbf16>) -> tensor<32x16xf32>

// GRAD-LABEL: func.func @train_step
// GRAD: dpc.matmul {{.*}} tb {dpc.fp8 = [f8E4M3FN, f8E4M3FN], {{.*}}dpc.phase = "forward"}
// GRAD-COUNT-3: dpc.matmul {{%[0-9]+, %[0-9]+( tb)?}} {dpc.group{{.*}}dpc.phase = "forward"}
// GRAD-COUNT-6: dpc.matmul {{%[0-9]+, %[0-9]+( ta| tb)*}} {dpc.group{{.*}}dpc.phase = "backward"}
// GRAD: dpc.matmul {{.*}} ta {dpc.fp8 = [f8E5M2, f8E4M3FN], {{.*}}dpc.phase = "backward"} : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<16x16xbf16>
func.func @forward(%x: tensor<32x16xf32> {dpc.role = "input"}, %w: tensor<256xf32> {dpc.role = "parameter", dpc.name = "w"}, %v: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "v"}, %labels: tensor<32xi64> {dpc.role = "input"}) -> (tensor<f32> {dpc.loss}) {
  %m = dpc.reshape %w : tensor<256xf32> -> tensor<16x16xf32>
  %h = dpc.matmul %x, %m tb : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %s = dpc.matmul %h, %h tb : (tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<32x32xf32>
  %a = dpc.matmul %s, %h : (tensor<32x32xf32>, tensor<32x16xf32>) -> tensor<32x16xf32>
  %y = dpc.matmul %a, %v : (tensor<32x16xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
  %loss, %lse = dpc.cross_entropy %y, %labels ignore_index = -100 : (tensor<32x16xf32>, tensor<32xi64>) -> (tensor<32xf32>, tensor<32xf32>)
  %sum = dpc.reduce sum %loss dims = [0] : tensor<32xf32> -> tensor<f32>
  return %sum : tensor<f32>
}
