// Every op survives a round trip in its custom and in its generic form. The first case
// of each op is the example of its documentation.
//
// RUN: dpc-opt %s --verify-roundtrip | FileCheck %s
// RUN: dpc-opt %s --mlir-print-op-generic | dpc-opt --verify-roundtrip - | FileCheck %s

// CHECK-LABEL: func.func @constant(
func.func @constant() -> tensor<4xf32> {
  // CHECK: dpc.constant dense<1.000000e+00> : tensor<4xf32> -> tensor<4xf32>
  %0 = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @iota(
func.func @iota() -> tensor<4x8xi64> {
  // CHECK: dpc.iota dim = 1 : tensor<4x8xi64>
  %0 = dpc.iota dim = 1 : tensor<4x8xi64>
  return %0 : tensor<4x8xi64>
}

// CHECK-LABEL: func.func @unary(
func.func @unary(%0: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: dpc.unary gelu %arg0 : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.unary gelu %0 : tensor<4xf32> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @binary(
func.func @binary(%0: tensor<4xf32>, %1: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: dpc.binary add %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = dpc.binary add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @compare(
func.func @compare(%0: tensor<4xi64>, %1: tensor<4xi64>) -> tensor<4xi1> {
  // CHECK: dpc.compare ge %arg0, %arg1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  %2 = dpc.compare ge %0, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
  return %2 : tensor<4xi1>
}

// CHECK-LABEL: func.func @select(
func.func @select(%c: tensor<4xi1>, %0: tensor<4xf32>, %1: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: dpc.select %arg0, %arg1, %arg2 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = dpc.select %c, %0, %1 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %3 : tensor<4xf32>
}

// CHECK-LABEL: func.func @convert(
func.func @convert(%0: tensor<4xi64>) -> tensor<4xf32> {
  // CHECK: dpc.convert %arg0 : tensor<4xi64> -> tensor<4xf32>
  %1 = dpc.convert %0 : tensor<4xi64> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// CHECK-LABEL: func.func @broadcast(
func.func @broadcast(%0: tensor<16xf32>) -> tensor<2x8x16xf32> {
  // CHECK: dpc.broadcast %arg0 dims = [2] : tensor<16xf32> -> tensor<2x8x16xf32>
  %1 = dpc.broadcast %0 dims = [2] : tensor<16xf32> -> tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @reshape(
func.func @reshape(%0: tensor<8x64xf32>) -> tensor<8x4x16xf32> {
  // CHECK: dpc.reshape %arg0 : tensor<8x64xf32> -> tensor<8x4x16xf32>
  %1 = dpc.reshape %0 : tensor<8x64xf32> -> tensor<8x4x16xf32>
  return %1 : tensor<8x4x16xf32>
}

// CHECK-LABEL: func.func @transpose(
func.func @transpose(%0: tensor<2x3x4xf32>) -> tensor<2x4x3xf32> {
  // CHECK: dpc.transpose %arg0 perm = [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %1 = dpc.transpose %0 perm = [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  return %1 : tensor<2x4x3xf32>
}

// CHECK-LABEL: func.func @slice(
func.func @slice(%0: tensor<8x192xf32>) -> tensor<8x64xf32> {
  // CHECK: dpc.slice %arg0 offsets = [0, 64] strides = [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
  %1 = dpc.slice %0 offsets = [0, 64] strides = [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
  return %1 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @pad(
func.func @pad(%0: tensor<8x64xf32>) -> tensor<8x192xf32> {
  // CHECK: dpc.pad %arg0 low = [0, 64] strides = [1, 1] : tensor<8x64xf32> -> tensor<8x192xf32>
  %1 = dpc.pad %0 low = [0, 64] strides = [1, 1] : tensor<8x64xf32> -> tensor<8x192xf32>
  return %1 : tensor<8x192xf32>
}

// CHECK-LABEL: func.func @concat(
func.func @concat(%0: tensor<8x64xf32>, %1: tensor<8x64xf32>) -> tensor<8x128xf32> {
  // CHECK: dpc.concat %arg0, %arg1 dim = 1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x128xf32>
  %2 = dpc.concat %0, %1 dim = 1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x128xf32>
  return %2 : tensor<8x128xf32>
}

// CHECK-LABEL: func.func @reduce(
func.func @reduce(%0: tensor<8x64xf32>) -> tensor<8xf32> {
  // CHECK: dpc.reduce sum %arg0 dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
  %1 = dpc.reduce sum %0 dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%0: tensor<8x32x64xf32>, %1: tensor<192x64xf32>) -> tensor<8x32x192xf32> {
  // CHECK: dpc.matmul %arg0, %arg1 tb : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
  %2 = dpc.matmul %0, %1 tb : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
  return %2 : tensor<8x32x192xf32>
}

// CHECK-LABEL: func.func @softmax(
func.func @softmax(%0: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dpc.softmax %arg0 : tensor<8x64xf32> -> tensor<8x64xf32>
  %1 = dpc.softmax %0 : tensor<8x64xf32> -> tensor<8x64xf32>
  return %1 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @softmax_grad(
func.func @softmax_grad(%y: tensor<8x64xf32>, %dy: tensor<8x64xf32>) -> tensor<8x64xf32> {
  // CHECK: dpc.softmax_grad %arg0, %arg1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %2 = dpc.softmax_grad %y, %dy : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %2 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @topk(
func.func @topk(%x: tensor<8x16xf32>) -> (tensor<8x2xf32>, tensor<8x2xi64>) {
  // CHECK: dpc.topk %arg0 : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
  %v, %i = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
  // CHECK: dpc.topk %arg0 smallest : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
  %w, %j = dpc.topk %x smallest : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
  return %v, %j : tensor<8x2xf32>, tensor<8x2xi64>
}

// CHECK-LABEL: func.func @cumsum(
func.func @cumsum(%0: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // CHECK: dpc.cumsum %arg0 exclusive : tensor<4x16xf32> -> tensor<4x16xf32>
  %1 = dpc.cumsum %0 exclusive : tensor<4x16xf32> -> tensor<4x16xf32>
  // CHECK: dpc.cumsum %{{.+}} reverse : tensor<4x16xf32> -> tensor<4x16xf32>
  %2 = dpc.cumsum %1 reverse : tensor<4x16xf32> -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// CHECK-LABEL: func.func @norm(
func.func @norm(%x: tensor<8x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>) {
  // CHECK: dpc.norm layer %arg0 scale %arg1 bias %arg2 eps = 1.000000e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  %y, %mean, %rstd = dpc.norm layer %x scale %w bias %b eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
  return %y, %mean, %rstd : tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @norm_grad(
func.func @norm_grad(%x: tensor<8x64xf32>, %mean: tensor<8xf32>, %rstd: tensor<8xf32>, %dy: tensor<8x64xf32>, %w: tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) {
  // CHECK: dpc.norm_grad layer %arg0, %arg1, %arg2, %arg3 scale %arg4 : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
  %dx, %dw, %db = dpc.norm_grad layer %x, %mean, %rstd, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
  return %dx, %dw, %db : tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @attention(
func.func @attention(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>) {
  // CHECK: dpc.attention %arg0, %arg1, %arg2 scale = 2.500000e-01 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  %o, %lse = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
  return %o, %lse : tensor<8x4x32x16xf32>, tensor<8x4x32xf32>
}

// CHECK-LABEL: func.func @attention_grad(
func.func @attention_grad(%q: tensor<8x4x32x16xf32>, %k: tensor<8x2x32x16xf32>, %v: tensor<8x2x32x16xf32>, %o: tensor<8x4x32x16xf32>, %lse: tensor<8x4x32xf32>, %do: tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) {
  // CHECK: dpc.attention_grad %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 scale = 2.500000e-01 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>)
  %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>)
  return %dq, %dk, %dv : tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>
}

// CHECK-LABEL: func.func @rope(
func.func @rope(%x: tensor<8x4x32x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> tensor<8x4x32x16xf32> {
  // CHECK: dpc.rope %arg0, %arg1, %arg2 : (tensor<8x4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<8x4x32x16xf32>
  %1 = dpc.rope %x, %cos, %sin : (tensor<8x4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<8x4x32x16xf32>
  return %1 : tensor<8x4x32x16xf32>
}

// CHECK-LABEL: func.func @embedding(
func.func @embedding(%table: tensor<512x64xf32>, %ids: tensor<8x32xi64>) -> tensor<8x32x64xf32> {
  // CHECK: dpc.embedding %arg0, %arg1 : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  %1 = dpc.embedding %table, %ids : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
  return %1 : tensor<8x32x64xf32>
}

// CHECK-LABEL: func.func @expert_matmul(
func.func @expert_matmul(%x: tensor<32x64xf32>, %ids: tensor<32x2xi64>, %w: tensor<8x128x64xf32>) -> tensor<32x2x128xf32> {
  // CHECK: dpc.expert_matmul %arg0, %arg1, %arg2 tb : (tensor<32x64xf32>, tensor<32x2xi64>, tensor<8x128x64xf32>) -> tensor<32x2x128xf32>
  %1 = dpc.expert_matmul %x, %ids, %w tb : (tensor<32x64xf32>, tensor<32x2xi64>, tensor<8x128x64xf32>) -> tensor<32x2x128xf32>
  return %1 : tensor<32x2x128xf32>
}

// CHECK-LABEL: func.func @expert_matmul_with_wide_sums(
func.func @expert_matmul_with_wide_sums(%x: tensor<32x64xbf16>, %ids: tensor<32xi32>, %w: tensor<8x64x128xbf16>) -> tensor<32x128xf32> {
  // CHECK: dpc.expert_matmul %arg0, %arg1, %arg2 : (tensor<32x64xbf16>, tensor<32xi32>, tensor<8x64x128xbf16>) -> tensor<32x128xf32>
  %1 = dpc.expert_matmul %x, %ids, %w : (tensor<32x64xbf16>, tensor<32xi32>, tensor<8x64x128xbf16>) -> tensor<32x128xf32>
  return %1 : tensor<32x128xf32>
}

// CHECK-LABEL: func.func @expert_matmul_grad(
func.func @expert_matmul_grad(%dy: tensor<32x2x128xf32>, %ids: tensor<32x2xi64>, %x: tensor<32x64xf32>) -> tensor<8x128x64xf32> {
  // CHECK: dpc.expert_matmul_grad %arg0, %arg1, %arg2 : (tensor<32x2x128xf32>, tensor<32x2xi64>, tensor<32x64xf32>) -> tensor<8x128x64xf32>
  %1 = dpc.expert_matmul_grad %dy, %ids, %x : (tensor<32x2x128xf32>, tensor<32x2xi64>, tensor<32x64xf32>) -> tensor<8x128x64xf32>
  return %1 : tensor<8x128x64xf32>
}

// CHECK-LABEL: func.func @embedding_grad(
func.func @embedding_grad(%ids: tensor<8x32xi64>, %dy: tensor<8x32x64xf32>) -> tensor<512x64xf32> {
  // CHECK: dpc.embedding_grad %arg0, %arg1 : (tensor<8x32xi64>, tensor<8x32x64xf32>) -> tensor<512x64xf32>
  %1 = dpc.embedding_grad %ids, %dy : (tensor<8x32xi64>, tensor<8x32x64xf32>) -> tensor<512x64xf32>
  return %1 : tensor<512x64xf32>
}

// CHECK-LABEL: func.func @cross_entropy(
func.func @cross_entropy(%logits: tensor<256x512xf32>, %labels: tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>) {
  // CHECK: dpc.cross_entropy %arg0, %arg1 ignore_index = -100 : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  %loss, %lse = dpc.cross_entropy %logits, %labels ignore_index = -100 : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  return %loss, %lse : tensor<256xf32>, tensor<256xf32>
}

// CHECK-LABEL: func.func @cross_entropy_sums(
func.func @cross_entropy_sums(%logits: tensor<256x512xf32>, %rowmax: tensor<256xf32>, %labels: tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>) {
  // CHECK: dpc.cross_entropy_sums %arg0, %arg1, %arg2 : (tensor<256x512xf32>, tensor<256xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  %sumexp, %picked = dpc.cross_entropy_sums %logits, %rowmax, %labels : (tensor<256x512xf32>, tensor<256xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
  return %sumexp, %picked : tensor<256xf32>, tensor<256xf32>
}

// CHECK-LABEL: func.func @cross_entropy_grad(
func.func @cross_entropy_grad(%logits: tensor<256x512xf32>, %labels: tensor<256xi64>, %lse: tensor<256xf32>, %dloss: tensor<256xf32>) -> tensor<256x512xf32> {
  // CHECK: dpc.cross_entropy_grad %arg0, %arg1, %arg2, %arg3 : (tensor<256x512xf32>, tensor<256xi64>, tensor<256xf32>, tensor<256xf32>) -> tensor<256x512xf32>
  %1 = dpc.cross_entropy_grad %logits, %labels, %lse, %dloss : (tensor<256x512xf32>, tensor<256xi64>, tensor<256xf32>, tensor<256xf32>) -> tensor<256x512xf32>
  return %1 : tensor<256x512xf32>
}

// CHECK-LABEL: func.func @conv(
func.func @conv(%x: tensor<8x3x32x32xf32>, %w: tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32> {
  // CHECK: dpc.conv %arg0, %arg1 strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
  return %0 : tensor<8x16x16x16xf32>
}

// CHECK-LABEL: func.func @conv_grad_input(
func.func @conv_grad_input(%dy: tensor<8x16x16x16xf32>, %w: tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32> {
  // CHECK: dpc.conv_grad_input %arg0, %arg1 strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>
  %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>
  return %0 : tensor<8x3x32x32xf32>
}

// CHECK-LABEL: func.func @conv_grad_filter(
func.func @conv_grad_filter(%dy: tensor<8x16x16x16xf32>, %x: tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32> {
  // CHECK: dpc.conv_grad_filter %arg0, %arg1 strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32>
  %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32>
  return %0 : tensor<16x3x3x3xf32>
}

// CHECK-LABEL: func.func @max_pool(
func.func @max_pool(%x: tensor<8x16x16x16xf32>) -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>) {
  // CHECK: dpc.max_pool %arg0 kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x16x16x16xf32> -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>)
  %y, %i = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x16x16x16xf32> -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>)
  return %y, %i : tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>
}

// CHECK-LABEL: func.func @max_pool_grad(
func.func @max_pool_grad(%dy: tensor<8x16x8x8xf32>, %i: tensor<8x16x8x8xi32>) -> tensor<8x16x16x16xf32> {
  // CHECK: dpc.max_pool_grad %arg0, %arg1 kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>) -> tensor<8x16x16x16xf32>
  %dx = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>) -> tensor<8x16x16x16xf32>
  return %dx : tensor<8x16x16x16xf32>
}

// CHECK-LABEL: func.func @batch_norm(
func.func @batch_norm(%x: tensor<8x16x4x4xf32>, %s: tensor<16xf32>, %b: tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) {
  // CHECK: dpc.batch_norm %arg0, %arg1, %arg2 eps = 1.000000e-05 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
  %y, %mean, %var = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
  return %y, %mean, %var : tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @batch_norm_grad(
func.func @batch_norm_grad(%x: tensor<8x16x4x4xf32>, %mean: tensor<16xf32>, %var: tensor<16xf32>, %dy: tensor<8x16x4x4xf32>, %s: tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) {
  // CHECK: dpc.batch_norm_grad %arg0, %arg1, %arg2, %arg3, %arg4 eps = 1.000000e-05 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8x16x4x4xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
  %dx, %ds, %db = dpc.batch_norm_grad %x, %mean, %var, %dy, %s eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8x16x4x4xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
  return %dx, %ds, %db : tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @global_norm(
func.func @global_norm(%g0: tensor<64xf32>, %g1: tensor<8x8xf32>) -> tensor<f32> {
  // CHECK: dpc.global_norm %arg0, %arg1 : (tensor<64xf32>, tensor<8x8xf32>) -> tensor<f32>
  %n = dpc.global_norm %g0, %g1 : (tensor<64xf32>, tensor<8x8xf32>) -> tensor<f32>
  return %n : tensor<f32>
}

// CHECK-LABEL: func.func @adamw(
func.func @adamw(%p: tensor<64xf32>, %m: tensor<64xf32>, %v: tensor<64xf32>, %g: tensor<64xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %step: tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>) {
  // CHECK: dpc.adamw %arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6 beta1 = 9.000000e-01 beta2 = 0.94999999999999996 eps = 1.000000e-08 weight_decay = 1.000000e-01 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  %p1, %m1, %v1 = dpc.adamw %p, %m, %v, %g, %scale, %lr, %step beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
  return %p1, %m1, %v1 : tensor<64xf32>, tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @optimizers_that_may_skip(
func.func @optimizers_that_may_skip(%p: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %g: tensor<4xf16>, %s: tensor<f32>, %good: tensor<i1>) {
  // CHECK: dpc.adamw %arg0, %arg1, %arg2, %arg3, %arg4, %arg4, %arg4 if %arg5 beta1
  %0:3 = dpc.adamw %p, %m, %v, %g, %s, %s, %s if %good beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  // CHECK: dpc.sgd %arg0, %arg1, %arg3, %arg4, %arg4, %arg4 if %arg5 momentum
  %1:2 = dpc.sgd %p, %m, %g, %s, %s, %s if %good momentum = 9.0e-1 weight_decay = 0.0 : (tensor<4xf32>, tensor<4xf32>, tensor<4xf16>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// CHECK-LABEL: func.func @sgd(
func.func @sgd(%p: tensor<64xf32>, %b: tensor<64xf32>, %g: tensor<64xf32>, %scale: tensor<f32>, %lr: tensor<f32>, %step: tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
  // CHECK: dpc.sgd %arg0, %arg1, %arg2, %arg3, %arg4, %arg5 momentum = 9.000000e-01 weight_decay = 0.000000e+00 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
  %p1, %b1 = dpc.sgd %p, %b, %g, %scale, %lr, %step momentum = 9.0e-1 weight_decay = 0.0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
  return %p1, %b1 : tensor<64xf32>, tensor<64xf32>
}

// CHECK-LABEL: func.func @reshard(
func.func @reshard(%0: tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {} ]>>) -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {} ]>> {
  // CHECK: dpc.reshard %arg0 : tensor<8x4xf32, #s_tp_r> -> tensor<8x4xf32, #s_r_r>
  %1 = dpc.reshard %0 : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {} ]>> -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {} ]>>
  return %1 : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {} ]>>
}

// CHECK-LABEL: func.func @all_reduce(
func.func @all_reduce(%0: tensor<64xf32>) -> tensor<64xf32> {
  // CHECK: dpc.all_reduce sum %arg0 axes = ["dp"] : (tensor<64xf32>) -> tensor<64xf32>
  %1 = dpc.all_reduce sum %0 axes = ["dp"] : (tensor<64xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// CHECK-LABEL: func.func @all_gather(
func.func @all_gather(%0: tensor<8x16xf32>) -> tensor<4x8x16xf32> {
  // CHECK: dpc.all_gather %arg0 axes = ["tp"] : tensor<8x16xf32> -> tensor<4x8x16xf32>
  %1 = dpc.all_gather %0 axes = ["tp"] : tensor<8x16xf32> -> tensor<4x8x16xf32>
  return %1 : tensor<4x8x16xf32>
}

// CHECK-LABEL: func.func @reduce_scatter(
func.func @reduce_scatter(%0: tensor<4x8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.reduce_scatter sum %arg0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  %1 = dpc.reduce_scatter sum %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @all_to_all(
func.func @all_to_all(%0: tensor<4x8x16xf32>) -> tensor<4x8x16xf32> {
  // CHECK: dpc.all_to_all %arg0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
  %1 = dpc.all_to_all %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
  return %1 : tensor<4x8x16xf32>
}

// CHECK-LABEL: func.func @ring_shift(
func.func @ring_shift(%0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.ring_shift %arg0 axes = ["cp"] : tensor<8x16xf32> -> tensor<8x16xf32>
  %1 = dpc.ring_shift %0 axes = ["cp"] : tensor<8x16xf32> -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @send_and_recv(
func.func @send_and_recv(%0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.send %arg0 to = 1 tag = 7 : tensor<8x16xf32>
  dpc.send %0 to = 1 tag = 7 : tensor<8x16xf32>
  // CHECK: dpc.recv from = 0 tag = 7 : tensor<8x16xf32>
  %1 = dpc.recv from = 0 tag = 7 : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @stage_value(
func.func @stage_value(%0: tensor<f32>, %1: tensor<f32>) -> tensor<f32> {
  // CHECK: dpc.stage_value %arg0, %arg1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %2 = dpc.stage_value %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// CHECK-LABEL: func.func @rank_slice(
func.func @rank_slice(%0: tensor<4x8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.rank_slice %arg0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  %1 = dpc.rank_slice %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @mask(
func.func @mask(%0: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: dpc.mask %arg0 value = 0.000000e+00 global = tensor<7x8xf32, #s_dp_r> : tensor<2x8xf32> -> tensor<2x8xf32>
  %1 = dpc.mask %0 value = 0.0 global = tensor<7x8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}, {} ]>> : tensor<2x8xf32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @accumulate(
func.func @accumulate(%0: tensor<64xf32>) -> tensor<64xf32> {
  // CHECK: dpc.accumulate sum %arg0 : tensor<64xf32> -> tensor<64xf32>
  %1 = dpc.accumulate sum %0 : tensor<64xf32> -> tensor<64xf32>
  return %1 : tensor<64xf32>
}

// CHECK-LABEL: func.func @sum_squares(
func.func @sum_squares(%0: tensor<64xf32>, %2: tensor<8xf32>) -> tensor<f32> {
  // CHECK: dpc.sum_squares %arg0, %arg1 : (tensor<64xf32>, tensor<8xf32>) -> tensor<f32>
  %1 = dpc.sum_squares %0, %2 : (tensor<64xf32>, tensor<8xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// CHECK-LABEL: func.func @attention_probs(
func.func @attention_probs(%s: tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>) {
  // CHECK: dpc.attention_probs %arg0 scale = 2.500000e-01 causal : (tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>)
  %p, %lse = dpc.attention_probs %s scale = 0.25 causal : (tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>)
  return %p, %lse : tensor<8x4x32x32xf32>, tensor<8x4x32xf32>
}

// CHECK-LABEL: func.func @attention_scores_grad(
func.func @attention_scores_grad(%s: tensor<8x4x32x32xf32>, %lse: tensor<8x4x32xf32>, %dp: tensor<8x4x32x32xf32>, %delta: tensor<8x4x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>) {
  // CHECK: dpc.attention_scores_grad %arg0, %arg1, %arg2, %arg3 scale = 2.500000e-01 causal : (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>, tensor<8x4x32x32xf32>, tensor<8x4x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>)
  %p, %ds = dpc.attention_scores_grad %s, %lse, %dp, %delta scale = 0.25 causal : (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>, tensor<8x4x32x32xf32>, tensor<8x4x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>)
  return %p, %ds : tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>
}

// CHECK-LABEL: func.func @kernel(
func.func @kernel(%0: tensor<4xf32>, %1: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: dpc.kernel %arg0, %arg1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: dpc.binary add %arg2, %arg3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: dpc.unary relu %{{.+}} : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: dpc.yield %{{.+}} : tensor<4xf32>
  %2 = dpc.kernel %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %s = dpc.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %r = dpc.unary relu %s : tensor<4xf32> -> tensor<4xf32>
    dpc.yield %r : tensor<4xf32>
  }
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @iota_knows_its_place(
func.func @iota_knows_its_place(%0: tensor<2xf32>) -> tensor<2xi64> {
  // CHECK: dpc.iota dim = 0 global = tensor<7xi64, #s_dp> : tensor<2xi64>
  %1 = dpc.iota dim = 0 global = tensor<7xi64, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}]>> : tensor<2xi64>
  return %1 : tensor<2xi64>
}

// CHECK-LABEL: func.func @matmul_of_transposed_operands(
func.func @matmul_of_transposed_operands(%a: tensor<3x16x8xf32>, %b: tensor<3x4x16xf32>) -> tensor<3x8x4xf32> {
  // CHECK: dpc.matmul %arg0, %arg1 ta tb : (tensor<3x16x8xf32>, tensor<3x4x16xf32>) -> tensor<3x8x4xf32>
  %0 = dpc.matmul %a, %b ta tb : (tensor<3x16x8xf32>, tensor<3x4x16xf32>) -> tensor<3x8x4xf32>
  return %0 : tensor<3x8x4xf32>
}

// CHECK-LABEL: func.func @matmul_split_on_its_contraction(
func.func @matmul_split_on_its_contraction(%a: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {tp}]>>, %b: tensor<16x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {}], partial = {tp : sum}>> {
  // CHECK: dpc.matmul %arg0, %arg1 : (tensor<8x16xf32, #s_dp_tp>, tensor<16x4xf32, #s_tp_r1>) -> tensor<8x4xf32, #s_dp_r_sum_tp>
  %0 = dpc.matmul %a, %b : (tensor<8x16xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {tp}]>>, tensor<16x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {}], partial = {tp : sum}>>
  return %0 : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {}], partial = {tp : sum}>>
}

// CHECK-LABEL: func.func @norm_without_scale(
func.func @norm_without_scale(%x: tensor<8x64xf64>) -> tensor<8x64xf64> {
  // CHECK: dpc.norm rms %arg0 eps = 9.9999999999999995E-7 : (tensor<8x64xf64>) -> (tensor<8x64xf64>, tensor<8xf64>, tensor<8xf64>)
  %y, %mean, %rstd = dpc.norm rms %x eps = 1.0e-6 : (tensor<8x64xf64>) -> (tensor<8x64xf64>, tensor<8xf64>, tensor<8xf64>)
  return %y : tensor<8x64xf64>
}

// CHECK-LABEL: func.func @statistics_of_bf16_are_f32(
func.func @statistics_of_bf16_are_f32(%x: tensor<8x64xbf16>, %w: tensor<64xbf16>) -> tensor<8xf32> {
  // CHECK: dpc.norm rms %arg0 scale %arg1 eps = 9.9999999999999995E-7 : (tensor<8x64xbf16>, tensor<64xbf16>) -> (tensor<8x64xbf16>, tensor<8xf32>, tensor<8xf32>)
  %y, %mean, %rstd = dpc.norm rms %x scale %w eps = 1.0e-6 : (tensor<8x64xbf16>, tensor<64xbf16>) -> (tensor<8x64xbf16>, tensor<8xf32>, tensor<8xf32>)
  return %rstd : tensor<8xf32>
}

// CHECK-LABEL: func.func @attention_with_mask(
func.func @attention_with_mask(%q: tensor<2x4x8x16xf32>, %k: tensor<2x4x9x16xf32>, %v: tensor<2x4x9x32xf32>, %m: tensor<1x1x8x9xf32>) -> tensor<2x4x8x32xf32> {
  // CHECK: dpc.attention %arg0, %arg1, %arg2 mask %arg3 scale = 2.500000e-01 : (tensor<2x4x8x16xf32>, tensor<2x4x9x16xf32>, tensor<2x4x9x32xf32>, tensor<1x1x8x9xf32>) -> (tensor<2x4x8x32xf32>, tensor<2x4x8xf32>)
  %o, %lse = dpc.attention %q, %k, %v mask %m scale = 0.25 : (tensor<2x4x8x16xf32>, tensor<2x4x9x16xf32>, tensor<2x4x9x32xf32>, tensor<1x1x8x9xf32>) -> (tensor<2x4x8x32xf32>, tensor<2x4x8xf32>)
  return %o : tensor<2x4x8x32xf32>
}

// CHECK-LABEL: func.func @rope_backwards(
func.func @rope_backwards(%x: tensor<4x32x16xf32>, %cos: tensor<32x16xf32>, %sin: tensor<32x16xf32>) -> tensor<4x32x16xf32> {
  // CHECK: dpc.rope %arg0, %arg1, %arg2 inverse : (tensor<4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<4x32x16xf32>
  %0 = dpc.rope %x, %cos, %sin inverse : (tensor<4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<4x32x16xf32>
  return %0 : tensor<4x32x16xf32>
}

// CHECK-LABEL: func.func @rows_routed_to_experts(
func.func @rows_routed_to_experts(%x: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}]>>, %ids: tensor<8xi64, #dpc.sharding<#dpc.mesh<ep=4>, [{}]>>, %w: tensor<4x16x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>>) -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>> {
  // CHECK: dpc.expert_matmul {{.*}} -> tensor<8x16xf32, #s_r_r_routed_ep>
  %0 = dpc.expert_matmul %x, %ids, %w {dpc.routed} : (tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}]>>, tensor<8xi64, #dpc.sharding<#dpc.mesh<ep=4>, [{}]>>, tensor<4x16x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>>) -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>
  // CHECK: dpc.unary silu {{.*}} -> tensor<8x16xf32, #s_r_r_routed_ep>
  %1 = dpc.unary silu %0 : tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>> -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>
  // CHECK: dpc.expert_matmul {{.*}} -> tensor<8x16xf32, #s_r_r_sum_ep>
  %2 = dpc.expert_matmul %1, %ids, %w : (tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>, tensor<8xi64, #dpc.sharding<#dpc.mesh<ep=4>, [{}]>>, tensor<4x16x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{ep}, {}, {}]>>) -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>>
  return %2 : tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>>
}

// CHECK-LABEL: func.func @embedding_of_a_shard_of_rows(
func.func @embedding_of_a_shard_of_rows(%table: tensor<128x64xf32>, %ids: tensor<8xi64>) -> tensor<8x64xf32> {
  // CHECK: dpc.embedding %arg0, %arg1 global = tensor<510x64xf32, #s_tp_r2> : (tensor<128x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
  %0 = dpc.embedding %table, %ids global = tensor<510x64xf32, #dpc.sharding<#dpc.mesh<tp=4>, [{tp}, {}]>> : (tensor<128x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
  return %0 : tensor<8x64xf32>
}

// CHECK-LABEL: func.func @products_of_a_shard_of_experts(
func.func @products_of_a_shard_of_experts(%x: tensor<8x64xf32>, %ids: tensor<8xi64>, %w: tensor<2x64x32xf32>) -> tensor<2x64x32xf32> {
  // CHECK: dpc.expert_matmul %arg0, %arg1, %arg2 global = tensor<8x64x32xf32, #s_tp_r_r> : (tensor<8x64xf32>, tensor<8xi64>, tensor<2x64x32xf32>) -> tensor<8x32xf32>
  %0 = dpc.expert_matmul %x, %ids, %w global = tensor<8x64x32xf32, #dpc.sharding<#dpc.mesh<tp=4>, [{tp}, {}, {}]>> : (tensor<8x64xf32>, tensor<8xi64>, tensor<2x64x32xf32>) -> tensor<8x32xf32>
  // CHECK: dpc.expert_matmul_grad %arg0, %arg1, %0 global = tensor<8x64x32xf32, #s_tp_r_r> : (tensor<8x64xf32>, tensor<8xi64>, tensor<8x32xf32>) -> tensor<2x64x32xf32>
  %1 = dpc.expert_matmul_grad %x, %ids, %0 global = tensor<8x64x32xf32, #dpc.sharding<#dpc.mesh<tp=4>, [{tp}, {}, {}]>> : (tensor<8x64xf32>, tensor<8xi64>, tensor<8x32xf32>) -> tensor<2x64x32xf32>
  return %1 : tensor<2x64x32xf32>
}

// CHECK-LABEL: func.func @bucket_of_two(
func.func @bucket_of_two(%a: tensor<64xf32>, %b: tensor<8x8xf32>) -> (tensor<64xf32>, tensor<8x8xf32>) {
  // CHECK: dpc.all_reduce max %arg0, %arg1 axes = ["dp", "cp"] : (tensor<64xf32>, tensor<8x8xf32>) -> (tensor<64xf32>, tensor<8x8xf32>)
  %0:2 = dpc.all_reduce max %a, %b axes = ["dp", "cp"] : (tensor<64xf32>, tensor<8x8xf32>) -> (tensor<64xf32>, tensor<8x8xf32>)
  return %0#0, %0#1 : tensor<64xf32>, tensor<8x8xf32>
}

// CHECK-LABEL: func.func @kernel_around_a_row_op(
func.func @kernel_around_a_row_op(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: dpc.kernel %arg0 : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: dpc.softmax %arg1 : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: dpc.unary exp %{{.+}} : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: dpc.yield %{{.+}}, %{{.+}} : tensor<4x8xf32>, tensor<4x8xf32>
  %0:2 = dpc.kernel %x : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  ^bb0(%a: tensor<4x8xf32>):
    %s = dpc.softmax %a : tensor<4x8xf32> -> tensor<4x8xf32>
    %r = dpc.unary exp %s : tensor<4x8xf32> -> tensor<4x8xf32>
    dpc.yield %s, %r : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// CHECK-LABEL: func.func @fetch_and_store(
func.func @fetch_and_store(%0: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.fetch %arg0 : tensor<8x16xf32> -> tensor<8x16xf32>
  %1 = dpc.fetch %0 : tensor<8x16xf32> -> tensor<8x16xf32>
  // CHECK: dpc.store %0 into %arg0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %2 = dpc.store %1 into %0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @expert_tiles(
func.func @expert_tiles(%ids: tensor<32xi64>, %x: tensor<16x16xf32>, %w: tensor<4x16x16xf32>) -> (tensor<16x16xf32>, tensor<4x16x16xf32>) {
  // CHECK: dpc.expert_tiles %arg0, %arg1, %arg2 in = [2, 0] out = [2, 0] global = tensor<8x16x16xf32, #{{.*}}> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> (tensor<16x16xf32>, tensor<4x16x16xf32>) {
  %y, %dw = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2, 0] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> (tensor<16x16xf32>, tensor<4x16x16xf32>) {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
    %p = dpc.expert_matmul %r, %i, %m : (tensor<4x16xf32>, tensor<4xi64>, tensor<4x16x16xf32>) -> tensor<4x16xf32>
    %g = dpc.expert_matmul_grad %r, %i, %p : (tensor<4x16xf32>, tensor<4xi64>, tensor<4x16xf32>) -> tensor<4x16x16xf32>
    // CHECK: dpc.yield %{{.*}}, %{{.*}} : tensor<4x16xf32>, tensor<4x16x16xf32>
    dpc.yield %p, %g : tensor<4x16xf32>, tensor<4x16x16xf32>
  }
  return %y, %dw : tensor<16x16xf32>, tensor<4x16x16xf32>
}

// CHECK-LABEL: func.func @expert_tiles_of_exchanged_rows(
func.func @expert_tiles_of_exchanged_rows(%ids: tensor<16xi64>, %x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  // CHECK: dpc.expert_tiles %arg0, %arg1 in = [2] out = [2] global = tensor<8x16x16xf32, #{{.*}}> exchange = ["ep"] : (tensor<16xi64>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  %y = dpc.expert_tiles %ids, %x in = [2] out = [2] global = tensor<8x16x16xf32, #dpc.sharding<#dpc.mesh<ep=2>, [{ep}, {}, {}]>> exchange = ["ep"] : (tensor<16xi64>, tensor<8x16xf32>) -> tensor<8x16xf32> {
  ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>):
    dpc.yield %r : tensor<4x16xf32>
  }
  return %y : tensor<8x16xf32>
}
