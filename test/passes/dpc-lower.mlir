// RUN: dpc-opt %s --dpc-lower="strategy=dp=2,tp=2" | FileCheck %s
// RUN: dpc-opt %s --dpc-shard="strategy=dp=2,tp=2" --dpc-verify-sharded --dpc-partition="drop-sharded" --dpc-expand-attention --canonicalize="region-simplify=disabled" --cse --dpc-recompute --dpc-bucket-collectives --dpc-place-ranks="strategy=dp=2,tp=2" --dpc-compress-collectives --dpc-expand-hierarchy --dpc-form-kernels --dpc-offload --dpc-verify-local | FileCheck %s
// RUN: dpc-opt %s --dpc-lower="strategy=dp=2,recompute=full" --mlir-print-ir-after-all 2>&1 | FileCheck %s --check-prefix=PASSES
// RUN: not dpc-opt %s --dpc-lower="strategy=dp=two" 2>&1 | FileCheck %s --check-prefix=BAD

// The pipeline runs the same passes as its phases in sequence.
// CHECK: func.func @step(
// CHECK-SAME: dpc.mesh = #dpc.mesh<dp=2, tp=2>
// CHECK: dpc.matmul %{{.*}} : (tensor<4x4xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NOT: dpc.reshard

// PASSES: IR Dump After {{.*}}dpc-shard
// PASSES: IR Dump After {{.*}}dpc-verify-sharded
// PASSES: IR Dump After {{.*}}dpc-partition
// PASSES: IR Dump After {{.*}}dpc-recompute
// PASSES: IR Dump After {{.*}}dpc-place-ranks
// PASSES: IR Dump After {{.*}}dpc-form-kernels
// PASSES: IR Dump After {{.*}}dpc-verify-local

// BAD: error: --strategy: dp=two: bad value; expected a whole number >= 1
func.func @forward(%x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64},
                   %w: tensor<4x6xf32> {dpc.name = "w", dpc.role = "parameter"})
    -> (tensor<8x6xf32> {dpc.name = "y"}) {
  %y = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
