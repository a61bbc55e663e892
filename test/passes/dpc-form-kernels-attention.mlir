// RUN: dpc-opt %s --split-input-file --dpc-form-kernels | FileCheck %s

// Attention reads q, k and v from the result of one matmul, and writes its result in
// the layout that the next matmul reads. Nothing is copied.

// CHECK-LABEL: func.func @step
// CHECK-COUNT-3: dpc.slice {{.*}} {dpc.phase = "forward", dpc.view}
// CHECK-COUNT-3: dpc.transpose {{.*}} {dpc.phase = "forward", dpc.view}
// CHECK: dpc.attention {{.*}} {dpc.fused, dpc.out_perms = [array<i64: 0, 2, 1, 3>, array<i64>], dpc.phase = "forward"}
// CHECK-NEXT: dpc.transpose {{.*}} {dpc.phase = "forward", dpc.view}
// CHECK-NOT: dpc.kernel
// CHECK: dpc.attention_grad {{.*}} {dpc.fused, dpc.out_perms = [array<i64: 0, 2, 1, 3>, array<i64>, array<i64: 0, 2, 1, 3>], dpc.phase = "backward"}
// CHECK-NOT: dpc.kernel
// CHECK: return
func.func @step(%x: tensor<2x6x24xbf16> {dpc.role = "input", dpc.name = "x"}, %dy: tensor<2x6x8xbf16> {dpc.role = "input", dpc.name = "dy"})
    -> (tensor<2x6x8xbf16> {dpc.name = "dq"}, tensor<2x1x6x8xbf16> {dpc.name = "dk"}, tensor<2x6x8xbf16> {dpc.name = "dv"}, tensor<2x6x8xbf16> {dpc.name = "y"})
    attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %q0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] {dpc.phase = "forward"} : tensor<2x6x24xbf16> -> tensor<2x6x8xbf16>
  %k0 = dpc.slice %x offsets = [0, 0, 8] strides = [1, 1, 1] {dpc.phase = "forward"} : tensor<2x6x24xbf16> -> tensor<2x6x8xbf16>
  %v0 = dpc.slice %x offsets = [0, 0, 16] strides = [1, 1, 1] {dpc.phase = "forward"} : tensor<2x6x24xbf16> -> tensor<2x6x8xbf16>
  %q1 = dpc.reshape %q0 {dpc.phase = "forward"} : tensor<2x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %k1 = dpc.reshape %k0 {dpc.phase = "forward"} : tensor<2x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %v1 = dpc.reshape %v0 {dpc.phase = "forward"} : tensor<2x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %q = dpc.transpose %q1 perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x6x1x8xbf16> -> tensor<2x1x6x8xbf16>
  %k = dpc.transpose %k1 perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x6x1x8xbf16> -> tensor<2x1x6x8xbf16>
  %v = dpc.transpose %v1 perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x6x1x8xbf16> -> tensor<2x1x6x8xbf16>
  %o, %lse = dpc.attention %q, %k, %v scale = 0.5 causal {dpc.fused, dpc.phase = "forward"} : (tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>) -> (tensor<2x1x6x8xbf16>, tensor<2x1x6xf32>)
  %o1 = dpc.transpose %o perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x1x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %y = dpc.reshape %o1 {dpc.phase = "forward"} : tensor<2x6x1x8xbf16> -> tensor<2x6x8xbf16>
  %do1 = dpc.reshape %dy {dpc.phase = "backward"} : tensor<2x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %do = dpc.transpose %do1 perm = [0, 2, 1, 3] {dpc.phase = "backward"} : tensor<2x6x1x8xbf16> -> tensor<2x1x6x8xbf16>
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do scale = 0.5 causal {dpc.fused, dpc.phase = "backward"} : (tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x1x6xf32>, tensor<2x1x6x8xbf16>) -> (tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x1x6x8xbf16>)
  %dq1 = dpc.transpose %dq perm = [0, 2, 1, 3] {dpc.phase = "backward"} : tensor<2x1x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %dv1 = dpc.transpose %dv perm = [0, 2, 1, 3] {dpc.phase = "backward"} : tensor<2x1x6x8xbf16> -> tensor<2x6x1x8xbf16>
  %dq2 = dpc.reshape %dq1 {dpc.phase = "backward"} : tensor<2x6x1x8xbf16> -> tensor<2x6x8xbf16>
  %dv2 = dpc.reshape %dv1 {dpc.phase = "backward"} : tensor<2x6x1x8xbf16> -> tensor<2x6x8xbf16>
  return %dq2, %dk, %dv2, %y : tensor<2x6x8xbf16>, tensor<2x1x6x8xbf16>, tensor<2x6x8xbf16>, tensor<2x6x8xbf16>
}

// -----

// If head_dim is not a multiple of 8, heads may begin at any column. Otherwise, they must
// begin at a multiple of 8, so heads that begin at column 4 are copied.

// CHECK-LABEL: func.func @step
// CHECK: %[[Q:.*]] = dpc.kernel
// CHECK: dpc.slice
// CHECK: dpc.attention %[[Q]]
func.func @step(%x: tensor<1x2x6x16xbf16> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<1x2x6x8xbf16> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %q = dpc.slice %x offsets = [0, 0, 0, 4] strides = [1, 1, 1, 1] {dpc.phase = "forward"} : tensor<1x2x6x16xbf16> -> tensor<1x2x6x8xbf16>
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 causal {dpc.fused, dpc.phase = "forward"} : (tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>, tensor<1x2x6x8xbf16>) -> (tensor<1x2x6x8xbf16>, tensor<1x2x6xf32>)
  return %o : tensor<1x2x6x8xbf16>
}

// -----

// In the gradient, out and dout must have the same layout. For its transpose, out would
// be written as [B, T, H, E]. If dout has a separate buffer, out has the layout of dout.

// CHECK-LABEL: func.func @step
// CHECK: dpc.attention {{.*}} {dpc.fused, dpc.out_perms = [array<i64>, array<i64>], dpc.phase = "forward"}
// CHECK: dpc.attention_grad
func.func @step(%q: tensor<2x3x6x8xbf16> {dpc.role = "input", dpc.name = "q"}, %do: tensor<2x3x6x8xbf16> {dpc.role = "input", dpc.name = "do"})
    -> (tensor<2x3x6x8xbf16> {dpc.name = "dq"}, tensor<2x6x24xbf16> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 causal {dpc.fused, dpc.phase = "forward"} : (tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>) -> (tensor<2x3x6x8xbf16>, tensor<2x3x6xf32>)
  %o1 = dpc.transpose %o perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x3x6x8xbf16> -> tensor<2x6x3x8xbf16>
  %y = dpc.reshape %o1 {dpc.phase = "forward"} : tensor<2x6x3x8xbf16> -> tensor<2x6x24xbf16>
  %dq, %dk, %dv = dpc.attention_grad %q, %q, %q, %o, %lse, %do scale = 0.5 causal {dpc.fused, dpc.phase = "backward"} : (tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6xf32>, tensor<2x3x6x8xbf16>) -> (tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>)
  return %dq, %y : tensor<2x3x6x8xbf16>, tensor<2x6x24xbf16>
}

// -----

// Attention that is one op only in estimates has dense operands, because other
// frameworks also copy them.

// CHECK-LABEL: func.func @step
// CHECK: dpc.kernel
// CHECK: dpc.attention
// CHECK-NOT: dpc.out_perms
func.func @step(%x: tensor<2x6x3x8xbf16> {dpc.role = "input", dpc.name = "x"})
    -> (tensor<2x6x3x8xbf16> {dpc.name = "y"}) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %q = dpc.transpose %x perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x6x3x8xbf16> -> tensor<2x3x6x8xbf16>
  %o, %lse = dpc.attention %q, %q, %q scale = 0.5 causal {dpc.phase = "forward"} : (tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>, tensor<2x3x6x8xbf16>) -> (tensor<2x3x6x8xbf16>, tensor<2x3x6xf32>)
  %y = dpc.transpose %o perm = [0, 2, 1, 3] {dpc.phase = "forward"} : tensor<2x3x6x8xbf16> -> tensor<2x6x3x8xbf16>
  return %y : tensor<2x6x3x8xbf16>
}
