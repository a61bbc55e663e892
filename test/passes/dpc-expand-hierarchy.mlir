// RUN: dpc-opt %s --dpc-expand-hierarchy | FileCheck %s

// 12 + 3 numbers fill two parts of 8: a reduce_scatter inside each machine, an
// all_reduce between machines, and an all_gather inside.

// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = dpc.concat {{.*}} dim = 0 {{.*}} : (tensor<12xf32>, tensor<3xf32>) -> tensor<15xf32>
// CHECK: %[[P:.*]] = dpc.pad %[[X]] {{.*}} -> tensor<16xf32>
// CHECK: %[[S:.*]] = dpc.reshape %[[P]] {{.*}} -> tensor<2x8xf32>
// CHECK: %[[R:.*]] = dpc.reduce_scatter max %[[S]] axes = ["dpi"] {dpc.phase = "backward"} : tensor<2x8xf32> -> tensor<8xf32>
// CHECK: %[[A:.*]] = dpc.all_reduce max %[[R]] axes = ["dp"] {dpc.phase = "backward"} : (tensor<8xf32>) -> tensor<8xf32>
// CHECK: %[[G:.*]] = dpc.all_gather %[[A]] axes = ["dpi"] {dpc.phase = "backward"} : tensor<8xf32> -> tensor<2x8xf32>
// CHECK: %[[F:.*]] = dpc.reshape %[[G]] {{.*}} -> tensor<16xf32>
// CHECK: %[[F0:.*]] = dpc.slice %[[F]] offsets = [0] {{.*}} -> tensor<12xf32>
// CHECK: dpc.reshape %[[F0]] {{.*}} -> tensor<4x3xf32>
// CHECK: dpc.slice %[[F]] offsets = [12] {{.*}} -> tensor<3xf32>
// CHECK: dpc.all_reduce sum {{.*}} axes = ["dp", "dpi"]
func.func @step(%a: tensor<4x3xf32>, %b: tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) attributes {dpc.mesh = #dpc.mesh<dp=3, dpi=2>} {
  %0:2 = dpc.all_reduce max %a, %b axes = ["dp", "dpi"] {dpc.inner = ["dpi"], dpc.phase = "backward"} : (tensor<4x3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
  %1 = dpc.all_reduce sum %b axes = ["dp", "dpi"] {dpc.phase = "backward"} : (tensor<3xf32>) -> tensor<3xf32>
  return %0#0, %0#1, %1 : tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>
}
