// RUN: not dpc-opt %s --dpc-shard="strategy=dp=2,ep=2" 2>&1 | FileCheck %s
// RUN: not dpc-opt %s --dpc-shard="strategy=dp=3,ep=2" 2>&1 | FileCheck %s --check-prefix=DIVIDES
// RUN: not dpc-opt %s --dpc-shard="strategy=dp=8,ep=4,hybrid_shard=2,zero=1" 2>&1 | FileCheck %s --check-prefix=HYBRID

// Weights that are stacked over heads are not experts, because no router chooses among
// them.
// CHECK: error: ep=2: the model has no experts to shard; expected weights of three dimensions
// DIVIDES: error: --strategy: ep=2 does not fit dp=3,tp=1; expected a divisor of dp, or tp times a divisor of dp
// HYBRID: error: --strategy: ep=4 does not fit hybrid_shard=2; expected a divisor
func.func @forward(
    %w: tensor<4x32x64xf32> {dpc.name = "w", dpc.role = "parameter"},
    %x: tensor<16x32xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<4x16x64xf32> {dpc.name = "y"}) {
  %xe = dpc.broadcast %x dims = [1, 2] : tensor<16x32xf32> -> tensor<4x16x32xf32>
  %h = dpc.matmul %xe, %w : (tensor<4x16x32xf32>, tensor<4x32x64xf32>) -> tensor<4x16x64xf32>
  %p = dpc.softmax %h : tensor<4x16x64xf32> -> tensor<4x16x64xf32>
  return %p : tensor<4x16x64xf32>
}
