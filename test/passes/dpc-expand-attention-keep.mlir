// RUN: dpc-opt %s --split-input-file --dpc-expand-attention=keep=cudnn | FileCheck %s
// RUN: dpc-opt %s --split-input-file --dpc-expand-attention=keep=loops | FileCheck %s --check-prefix=LOOPS
// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention="keep=cudnn require=true" 2>&1 | FileCheck %s --check-prefix=REQUIRED
// RUN: not dpc-opt %s --split-input-file --dpc-expand-attention=keep=tiles 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: keep is 'tiles', expected cudnn, loops or any

// Query heads share key heads. The mask is causal, with as many keys as queries.

// CHECK-LABEL: func.func @step
// CHECK-NEXT: dpc.attention {{.*}}{dpc.fused, dpc.phase
// CHECK-NEXT: dpc.attention_grad {{.*}}dpc.workspace = 204800 : i64
// LOOPS-LABEL: func.func @step
// LOOPS-NEXT: dpc.attention
// LOOPS-NEXT: dpc.attention_grad
// LOOPS-NOT: dpc.workspace
func.func @step(%q: tensor<2x4x6x16xbf16>, %k: tensor<2x2x6x16xbf16>, %v: tensor<2x2x6x8xbf16>) -> (tensor<2x4x6x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x8xbf16>) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %k, %v scale = 0.5 causal {dpc.phase = "forward"} : (tensor<2x4x6x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x8xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<2x4x6xf32>)
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %o scale = 0.5 causal {dpc.phase = "backward"} : (tensor<2x4x6x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6xf32>, tensor<2x4x6x8xbf16>) -> (tensor<2x4x6x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x8xbf16>)
  return %dq, %dk, %dv : tensor<2x4x6x16xbf16>, tensor<2x2x6x16xbf16>, tensor<2x2x6x8xbf16>
}

// -----

// The loops support any head_dim and more keys than queries; cuDNN does not.

// CHECK-LABEL: func.func @step
// CHECK: dpc.attention_probs
// LOOPS-LABEL: func.func @step
// LOOPS-NEXT: dpc.attention
// REQUIRED: attention cannot be fused: it is causal with 3 queries and 6 keys, cuDNN takes equal numbers; --attention=expanded accepts every attention
func.func @step(%q: tensor<2x4x3x8xf16>, %k: tensor<2x4x6x8xf16>) -> tensor<2x4x3x8xf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %k, %k scale = 0.5 causal {dpc.phase = "forward"} : (tensor<2x4x3x8xf16>, tensor<2x4x6x8xf16>, tensor<2x4x6x8xf16>) -> (tensor<2x4x3x8xf16>, tensor<2x4x3xf32>)
  return %o : tensor<2x4x3x8xf16>
}

// -----

// CHECK-LABEL: func.func @step
// CHECK: dpc.attention_probs
// LOOPS-LABEL: func.func @step
// LOOPS-NEXT: dpc.attention
// REQUIRED: attention cannot be fused: queries and keys have head_dim 12, cuDNN takes multiples of 8 up to 128
func.func @step(%q: tensor<2x4x3x12xf16>, %k: tensor<2x4x6x12xf16>) -> tensor<2x4x3x12xf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %k, %k scale = 0.5 {dpc.phase = "forward"} : (tensor<2x4x3x12xf16>, tensor<2x4x6x12xf16>, tensor<2x4x6x12xf16>) -> (tensor<2x4x3x12xf16>, tensor<2x4x3xf32>)
  return %o : tensor<2x4x3x12xf16>
}

// -----

// CHECK-LABEL: func.func @step
// CHECK: dpc.attention_probs
// LOOPS-LABEL: func.func @step
// LOOPS-NEXT: dpc.attention
// REQUIRED: attention cannot be fused: its type is not a 16-bit type, --precision=bf16 and fp16 are accepted
func.func @step(%q: tensor<2x4x6x8xf32>) -> tensor<2x4x6x8xf32> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 {dpc.phase = "forward"} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32>)
  return %o : tensor<2x4x6x8xf32>
}

// -----

// CHECK-LABEL: func.func @step
// CHECK: dpc.attention_probs
// LOOPS-LABEL: func.func @step
// LOOPS: dpc.attention_probs
// REQUIRED: attention cannot be fused: it has an additive mask, causal or none is accepted
func.func @step(%q: tensor<2x4x6x8xbf16>, %m: tensor<2x1x1x6xbf16>) -> tensor<2x4x6x8xbf16> attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %q mask %m scale = 0.5 {dpc.phase = "forward"} : (tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x4x6x8xbf16>, tensor<2x1x1x6xbf16>) -> (tensor<2x4x6x8xbf16>, tensor<2x4x6xf32>)
  return %o : tensor<2x4x6x8xbf16>
}
