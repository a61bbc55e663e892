// RUN: dpc-opt %s --split-input-file --dpc-form-kernels | FileCheck %s

module {
  // Bias, gelu and the residual addition are one kernel. The kernel of the norm
  // contains the sum and also returns it.
  // CHECK-LABEL: func.func @step
  // CHECK: %[[M:.*]] = dpc.matmul
  // CHECK: %[[B:.*]] = dpc.broadcast {{.*}} {dpc.phase = "forward", dpc.view}
  // CHECK: %[[K:.*]]:2 = dpc.kernel %[[M]], %[[B]], %{{.*}}, %{{.*}} {dpc.phase = "forward"}
  // CHECK:   dpc.binary add
  // CHECK:   dpc.unary gelu
  // CHECK:   dpc.binary add
  // CHECK:   dpc.norm layer
  // CHECK-NOT: dpc.kernel
  // CHECK: return %[[K]]#0, %[[K]]#1
  func.func @step(%x: tensor<8x16xf32> {dpc.role = "input", dpc.name = "x"},
                  %w: tensor<16x16xf32> {dpc.role = "parameter", dpc.name = "w"},
                  %b: tensor<16xf32> {dpc.role = "parameter", dpc.name = "b"})
      -> (tensor<8x16xf32> {dpc.name = "s"}, tensor<8x16xf32> {dpc.name = "y"})
      attributes {dpc.mesh = #dpc.mesh<dp=1>} {
    %m = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %bb = dpc.broadcast %b dims = [1] {dpc.phase = "forward"} : tensor<16xf32> -> tensor<8x16xf32>
    %a = dpc.binary add %m, %bb {dpc.phase = "forward"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %g = dpc.unary gelu %a {dpc.phase = "forward"} : tensor<8x16xf32> -> tensor<8x16xf32>
    %s = dpc.binary add %g, %x {dpc.phase = "forward"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %y, %mean, %rstd = dpc.norm layer %s scale %b eps = 1.0e-5 {dpc.phase = "forward"} : (tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>)
    return %s, %y : tensor<8x16xf32>, tensor<8x16xf32>
  }
}

// -----

module {
  // A value that a collective sends is not delayed by another user that needs more
  // values.
  // CHECK-LABEL: func.func @step
  // CHECK: dpc.kernel
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: dpc.unary exp
  // CHECK-NEXT: dpc.yield
  // CHECK: dpc.all_reduce
  // CHECK: dpc.matmul
  // CHECK: dpc.kernel
  func.func @step(%x: tensor<4x4xf32> {dpc.role = "input", dpc.name = "x"})
      -> (tensor<4x4xf32> {dpc.name = "a"}, tensor<4x4xf32> {dpc.name = "b"})
      attributes {dpc.mesh = #dpc.mesh<dp=2>} {
    %e = dpc.unary exp %x {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<4x4xf32>
    %r = dpc.all_reduce sum %e axes = ["dp"] {dpc.phase = "forward"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %m = dpc.matmul %x, %x {dpc.phase = "forward"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %s = dpc.binary add %e, %m {dpc.phase = "forward"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    return %r, %s : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

module {
  // q and k are read in place, and the output of attention is written transposed. A
  // transpose whose result a reshape cannot view is copied.
  // CHECK-LABEL: func.func @step
  // CHECK: dpc.slice {{.*}} {dpc.view}
  // CHECK: dpc.transpose {{.*}} {dpc.view}
  // CHECK: dpc.slice {{.*}} {dpc.view}
  // CHECK: dpc.transpose {{.*}} {dpc.view}
  // CHECK: dpc.matmul {{.*}} tb {dpc.out_perm = array<i64: 0, 2, 1, 3>}
  // CHECK: dpc.transpose {{.*}} {dpc.view}
  // CHECK: dpc.reshape
  // CHECK: dpc.kernel
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: dpc.transpose
  // CHECK-NEXT: dpc.yield
  // CHECK: dpc.reshape
  func.func @step(%x: tensor<2x4x24xf32> {dpc.role = "input", dpc.name = "x"})
      -> (tensor<2x4x16xf32> {dpc.name = "o"}, tensor<64xf32> {dpc.name = "p"})
      attributes {dpc.mesh = #dpc.mesh<dp=1>} {
    %q0 = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
    %q1 = dpc.reshape %q0 : tensor<2x4x8xf32> -> tensor<2x4x4x2xf32>
    %q = dpc.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %k0 = dpc.slice %x offsets = [0, 0, 8] strides = [1, 1, 1] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
    %k1 = dpc.reshape %k0 : tensor<2x4x8xf32> -> tensor<2x4x4x2xf32>
    %k = dpc.transpose %k1 perm = [0, 2, 1, 3] : tensor<2x4x4x2xf32> -> tensor<2x4x4x2xf32>
    %s = dpc.matmul %q, %k tb : (tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>) -> tensor<2x4x4x4xf32>
    %t = dpc.transpose %s perm = [0, 2, 1, 3] : tensor<2x4x4x4xf32> -> tensor<2x4x4x4xf32>
    %o = dpc.reshape %t : tensor<2x4x4x4xf32> -> tensor<2x4x16xf32>
    %u = dpc.slice %x offsets = [0, 0, 0] strides = [1, 1, 1] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
    %v = dpc.transpose %u perm = [1, 2, 0] : tensor<2x4x8xf32> -> tensor<4x8x2xf32>
    %p = dpc.reshape %v : tensor<4x8x2xf32> -> tensor<64xf32>
    return %o, %p : tensor<2x4x16xf32>, tensor<64xf32>
  }
}

// -----

module {
  // All reshapes between ops of one kernel are part of the kernel.
  // CHECK-LABEL: func.func @step
  // CHECK-NEXT: dpc.kernel
  // CHECK: dpc.yield
  // CHECK-NOT: dpc.reshape
  // CHECK: return
  func.func @step(%x: tensor<4xf32> {dpc.role = "input", dpc.name = "x"})
      -> (tensor<4xf32> {dpc.name = "y"})
      attributes {dpc.mesh = #dpc.mesh<dp=1>} {
    %a = dpc.unary exp %x {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
    %b = dpc.reshape %a {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4x1xf32>
    %c = dpc.unary sin %b {dpc.phase = "forward"} : tensor<4x1xf32> -> tensor<4x1xf32>
    %d = dpc.reshape %c {dpc.phase = "forward"} : tensor<4x1xf32> -> tensor<4xf32>
    %e = dpc.unary cos %d {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
    %f = dpc.reshape %e {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4x1xf32>
    %g = dpc.unary exp %f {dpc.phase = "forward"} : tensor<4x1xf32> -> tensor<4x1xf32>
    %h = dpc.reshape %g {dpc.phase = "forward"} : tensor<4x1xf32> -> tensor<4xf32>
    %i = dpc.unary sin %h {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
    return %i : tensor<4xf32>
  }
}

// -----

// One kernel computes the maximum and the sum of every row, unless an all_reduce of the
// maximum is between them.

// CHECK-LABEL: func @row_max_of_cross_entropy
// CHECK: dpc.kernel
// CHECK: %[[MAX:.*]] = dpc.reduce max %[[L:.*]] dims = [1]
// CHECK-NEXT: dpc.cross_entropy_sums %[[L]], %[[MAX]]
// CHECK-NOT: dpc.kernel
// CHECK: return
func.func @row_max_of_cross_entropy(%l: tensor<8x32xf32>, %labels: tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {dpc.mesh = #dpc.mesh<dp=1>} {
  %max = dpc.reduce max %l dims = [1] : tensor<8x32xf32> -> tensor<8xf32>
  %sum, %picked = dpc.cross_entropy_sums %l, %max, %labels : (tensor<8x32xf32>, tensor<8xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<8xf32>)
  return %max, %sum, %picked : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
