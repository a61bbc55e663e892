// RUN: not dpc-opt %s --dpc-shard="dp=2 ep=2" 2>&1 | FileCheck %s
// RUN: not dpc-opt %s --dpc-shard="dp=3 ep=2" 2>&1 | FileCheck %s --check-prefix=DIVIDES
// RUN: not dpc-opt %s --dpc-shard="dp=8 ep=4 hybrid-shard=2 zero=1" 2>&1 | FileCheck %s --check-prefix=HYBRID

// Weights stacked over heads, which nothing chooses between, are no experts.
// CHECK: error: ep=2: the model has no experts to spread; expected weights of three dimensions
// DIVIDES: error: ep=2; expected a divisor of dp = 3, or tp = 1 times one
// HYBRID: error: ep=4; expected a divisor of hybrid_shard = 2
func.func @forward(
    %w: tensor<4x32x64xf32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<16x32xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<4x16x64xf32> {dpc.name = "y"}) {
  %xe = dpc.broadcast %x dims = [1, 2] : tensor<16x32xf32> -> tensor<4x16x32xf32>
  %h = dpc.matmul %xe, %w : (tensor<4x16x32xf32>, tensor<4x32x64xf32>) -> tensor<4x16x64xf32>
  %p = dpc.softmax %h : tensor<4x16x64xf32> -> tensor<4x16x64xf32>
  return %p : tensor<4x16x64xf32>
}
