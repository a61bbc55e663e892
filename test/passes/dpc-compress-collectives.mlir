// RUN: dpc-opt %s --dpc-compress-collectives | FileCheck %s

// An all_reduce of [600] and [40] has 3 + 1 rows of 256 elements, two per rank. Its sum
// is after the int8 values of the next compressed collective, and its results are
// before their first user. Unmarked collectives do not change.

// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = dpc.pad {{.*}} -> tensor<1x768xf32>
// CHECK: %[[AROWS:.*]] = dpc.reshape %[[A]] {{.*}} -> tensor<1x3x256xf32>
// CHECK: %[[ROWS:.*]] = dpc.concat {{.*}} dim = 1 {{.*}} -> tensor<1x4x256xf32>
// CHECK: %[[X:.*]] = dpc.reshape %[[ROWS]] {{.*}} -> tensor<2x2x256xf32>
// CHECK: dpc.reduce max {{.*}} -> tensor<2x2xf32>
// CHECK: dpc.unary floor
// CHECK: %[[CODES:.*]] = dpc.convert {{.*}} -> tensor<2x2x256xi8>
// CHECK: %[[SCALES:.*]] = dpc.binary mul {{.*}} -> tensor<2x2xf32>
// CHECK: dpc.all_to_all %[[CODES]] axes = ["dp"] {dpc.phase = "backward"} : tensor<2x2x256xi8>
// CHECK: dpc.all_to_all %[[SCALES]] axes = ["dp"] {{.*}} : tensor<2x2xf32>
// CHECK: dpc.unary neg
// CHECK-NOT: dpc.all_gather
// CHECK: dpc.all_to_all {{.*}} : tensor<2x4x256xi8>
// CHECK: dpc.all_to_all {{.*}} : tensor<2x4xf32>
// CHECK: dpc.reduce sum {{.*}} dims = [0] {{.*}} : tensor<2x2x256xf32> -> tensor<2x256xf32>
// CHECK: dpc.all_gather {{.*}} : tensor<2x256xi8> -> tensor<2x2x256xi8>
// CHECK: dpc.all_gather {{.*}} : tensor<2xf32> -> tensor<2x2xf32>
// CHECK: dpc.unary exp
// CHECK: dpc.reduce sum {{.*}} : tensor<2x4x256xf32> -> tensor<4x256xf32>
// CHECK: dpc.slice {{.*}} -> tensor<1x1000xf32>
// CHECK: dpc.reshape {{.*}} -> tensor<50x20xf32>
// CHECK: dpc.slice {{.*}} -> tensor<1x600xf32>
// CHECK: dpc.slice {{.*}} offsets = [0, 3, 0] {{.*}} -> tensor<1x1x256xf32>
// CHECK: dpc.slice {{.*}} -> tensor<1x40xf32>
// CHECK: dpc.all_reduce sum {{.*}} axes = ["dp"] {dpc.phase = "update"} : (tensor<4xf32>)
// CHECK: dpc.all_reduce sum {{.*}} axes = ["dp"] {dpc.phase = "update"} : (tensor<900xf32>)
func.func @step(%a: tensor<600xf32>, %b: tensor<5x8xf32>, %c: tensor<2x50x20xf32>, %few: tensor<4xf32>, %d: tensor<900xf32>) -> (tensor<600xf32>, tensor<5x8xf32>, tensor<50x20xf32>, tensor<4xf32>, tensor<900xf32>, tensor<4xf32>, tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0:2 = dpc.all_reduce sum %a, %b axes = ["dp"] {dpc.compress = "int8", dpc.phase = "backward"} : (tensor<600xf32>, tensor<5x8xf32>) -> (tensor<600xf32>, tensor<5x8xf32>)
  %1 = dpc.unary neg %few {dpc.phase = "backward"} : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.reduce_scatter sum %c axes = ["dp"] {dpc.compress = "int8", dpc.phase = "backward"} : tensor<2x50x20xf32> -> tensor<50x20xf32>
  %3 = dpc.unary exp %few {dpc.phase = "backward"} : tensor<4xf32> -> tensor<4xf32>
  %4 = dpc.unary neg %2 {dpc.phase = "backward"} : tensor<50x20xf32> -> tensor<50x20xf32>
  %5 = dpc.unary neg %0#0 {dpc.phase = "update"} : tensor<600xf32> -> tensor<600xf32>
  // Four numbers are not compressed, because their codes would need more bytes.
  %6 = dpc.all_reduce sum %few axes = ["dp"] {dpc.compress = "int8", dpc.phase = "update"} : (tensor<4xf32>) -> tensor<4xf32>
  %7 = dpc.all_reduce sum %d axes = ["dp"] {dpc.phase = "update"} : (tensor<900xf32>) -> tensor<900xf32>
  return %5, %0#1, %4, %6, %7, %1, %3 : tensor<600xf32>, tensor<5x8xf32>, tensor<50x20xf32>, tensor<4xf32>, tensor<900xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @gathered
// CHECK: %[[C:.*]] = dpc.convert {{.*}} -> tensor<3x256xi8>
// CHECK: dpc.all_gather %{{.*}} : tensor<3x256xi8> -> tensor<2x3x256xi8>
// CHECK: dpc.all_gather %{{.*}} : tensor<3xf32> -> tensor<2x3xf32>
// CHECK: dpc.unary exp
// CHECK: dpc.slice {{.*}} : tensor<2x768xf32> -> tensor<2x700xf32>
// CHECK: dpc.convert {{.*}} : tensor<2x7x100xf32> -> tensor<2x7x100xbf16>
func.func @gathered(%a: tensor<7x100xbf16>, %b: tensor<4xf32>) -> (tensor<2x7x100xbf16>, tensor<4xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_gather %a axes = ["dp"] {dpc.compress = "int8", dpc.phase = "forward"} : tensor<7x100xbf16> -> tensor<2x7x100xbf16>
  %1 = dpc.unary exp %b {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.unary neg %0 {dpc.phase = "forward"} : tensor<2x7x100xbf16> -> tensor<2x7x100xbf16>
  return %2, %1 : tensor<2x7x100xbf16>, tensor<4xf32>
}

// The largest 26 of each 256 elements are sent with their positions. The residual is a
// new state of the parameter, one per rank.

// CHECK-LABEL: func.func @largest
// CHECK-SAME: %[[OLD:[^:]*]]: tensor<1x2x256xf32> {dpc.global = tensor<2x2x256xf32, #{{.*}}>, dpc.name = "w.residual", dpc.of = "w", dpc.role = "state", dpc.slot = "residual"})
// CHECK-SAME: tensor<1x2x256xf32> {dpc.global = tensor<2x2x256xf32, #{{.*}}>, dpc.name = "w.residual", dpc.ties = 1 : i64}
// CHECK: %[[ROWS:.*]] = dpc.reshape %[[OLD]] {{.*}} -> tensor<2x256xf32>
// CHECK: %[[SUM:.*]] = dpc.binary add %{{.*}}, %[[ROWS]]
// CHECK: %{{.*}}, %[[AT:.*]] = dpc.topk %{{.*}} : tensor<2x256xf32> -> tensor<2x26xf32>, tensor<2x26xi64>
// CHECK: %[[KEPT:.*]] = dpc.select %{{.*}}, %{{.*}}, %[[SUM]]
// CHECK: dpc.all_gather %{{.*}} axes = ["dp"] {dpc.phase = "backward"} : tensor<2x26xf32> -> tensor<2x2x26xf32>
// CHECK: dpc.all_gather %{{.*}} axes = ["dp"] {dpc.phase = "backward"} : tensor<2x26xi8> -> tensor<2x2x26xi8>
// CHECK: %[[NEW:.*]] = dpc.reshape %[[KEPT]] {{.*}} -> tensor<1x2x256xf32>
// CHECK: dpc.reduce sum %{{.*}} dims = [0, 2] {{.*}} : tensor<2x2x26x256xf32> -> tensor<2x256xf32>
// CHECK: dpc.slice {{.*}} -> tensor<300xf32>
// CHECK: return %{{.*}}, %[[NEW]]
func.func @largest(%g: tensor<300xf32>) -> tensor<300xf32> attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.all_reduce sum %g axes = ["dp"] {dpc.compress = "topk:0.1", dpc.of = "w", dpc.phase = "backward"} : (tensor<300xf32>) -> tensor<300xf32>
  %1 = dpc.unary neg %0 {dpc.phase = "backward"} : tensor<300xf32> -> tensor<300xf32>
  return %1 : tensor<300xf32>
}
