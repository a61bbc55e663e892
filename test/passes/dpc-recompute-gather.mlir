// RUN: dpc-opt %s "--dpc-recompute=mode=selective gather=4" | FileCheck %s --check-prefix=FAST
// RUN: dpc-opt %s "--dpc-recompute=mode=selective gather=100" | FileCheck %s --check-prefix=SLOW
// RUN: dpc-opt %s --dpc-recompute=mode=selective | FileCheck %s --check-prefix=SLOW

// In sequence parallelism, ranks have shards of x and gather them for the matmul. The
// gradient of the weight also reads the whole x. With a fast link, the shard is kept
// and gathered a second time. With a slow link, the whole x is kept. A gather over
// data-parallel ranks is never repeated.

// FAST-LABEL: func.func @step
// FAST: %[[X:.*]] = dpc.all_gather %arg0 axes = ["tp"] {dpc.phase = "forward"}
// FAST: %[[Y:.*]] = dpc.all_gather %{{.*}} axes = ["dp"] {dpc.phase = "forward"}
// FAST-NOT: axes = ["dp"]
// FAST: %[[AGAIN:.*]] = dpc.all_gather %arg0 axes = ["tp"] {dpc.phase = "backward", dpc.recompute}
// FAST-NEXT: dpc.binary mul %[[AGAIN]], %[[Y]] {dpc.phase = "backward"}

// SLOW-LABEL: func.func @step
// SLOW: %[[X:.*]] = dpc.all_gather %arg0 axes = ["tp"] {dpc.phase = "forward"}
// SLOW-NOT: axes = ["tp"]
// SLOW: dpc.binary mul %[[X]], %{{.*}} {dpc.phase = "backward"}
func.func @step(%arg0: tensor<64x64xf32> {dpc.role = "input"}) -> tensor<4x64x64xf32>
    attributes {dpc.mesh = #dpc.mesh<dp=4, tp=4>} {
  %x = dpc.all_gather %arg0 axes = ["tp"] {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<4x64x64xf32>
  %s = dpc.unary relu %arg0 {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<64x64xf32>
  %y = dpc.all_gather %s axes = ["dp"] {dpc.phase = "forward"} : tensor<64x64xf32> -> tensor<4x64x64xf32>
  %g = dpc.binary mul %x, %y {dpc.phase = "backward"} : (tensor<4x64x64xf32>, tensor<4x64x64xf32>) -> tensor<4x64x64xf32>
  return %g : tensor<4x64x64xf32>
}
