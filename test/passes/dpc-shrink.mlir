// RUN: dpc-opt %s --split-input-file "--dpc-shrink=layers=2 size=8 batch=2" | FileCheck %s

// Three equal layers become two, and the parameter of the third is removed. Heads (16)
// times head_dim (64) are the width of the projections, not of the residual stream. The
// sequence is one class from ids to loss, and the vocabulary remains odd.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: tensor<2x8xi64>
// CHECK-SAME: tensor<9x8xf32> {dpc.name = "table", dpc.role = "parameter"}
// CHECK-SAME: tensor<8x64xf32> {dpc.name = "w0"
// CHECK-SAME: tensor<8x64xf32> {dpc.name = "w1"
// CHECK-NOT: "w2"
// CHECK-SAME: -> (tensor<2x8x8xf32>
// CHECK-COUNT-2: dpc.reduce sum %{{.*}} dims = [3] : tensor<2x8x8x8xf32> -> tensor<2x8x8xf32>
// CHECK-NOT: dpc.reduce
func.func @forward(
    %ids: tensor<32x128xi64> {dpc.name = "ids", dpc.role = "input", dpc.batch_dim = 0 : i64},
    %table: tensor<501x1000xbf16> {dpc.name = "table", dpc.role = "parameter", dpc.source = {file = "absent.bin", offset = 0 : i64}},
    %w0: tensor<1000x1024xbf16> {dpc.name = "w0", dpc.role = "parameter"},
    %w1: tensor<1000x1024xbf16> {dpc.name = "w1", dpc.role = "parameter"},
    %w2: tensor<1000x1024xbf16> {dpc.name = "w2", dpc.role = "parameter"},
    %v: tensor<16x1000xbf16> {dpc.name = "v", dpc.role = "parameter"})
    -> (tensor<32x128x1000xbf16> {dpc.name = "y"}) {
  %x0 = dpc.embedding %table, %ids : (tensor<501x1000xbf16>, tensor<32x128xi64>) -> tensor<32x128x1000xbf16>
  %p0 = dpc.matmul %x0, %w0 : (tensor<32x128x1000xbf16>, tensor<1000x1024xbf16>) -> tensor<32x128x1024xbf16>
  %h0 = dpc.reshape %p0 : tensor<32x128x1024xbf16> -> tensor<32x128x16x64xbf16>
  %s0 = dpc.reduce sum %h0 dims = [3] : tensor<32x128x16x64xbf16> -> tensor<32x128x16xbf16>
  %y0 = dpc.matmul %s0, %v : (tensor<32x128x16xbf16>, tensor<16x1000xbf16>) -> tensor<32x128x1000xbf16>
  %x1 = dpc.binary add %x0, %y0 : (tensor<32x128x1000xbf16>, tensor<32x128x1000xbf16>) -> tensor<32x128x1000xbf16>
  %p1 = dpc.matmul %x1, %w1 : (tensor<32x128x1000xbf16>, tensor<1000x1024xbf16>) -> tensor<32x128x1024xbf16>
  %h1 = dpc.reshape %p1 : tensor<32x128x1024xbf16> -> tensor<32x128x16x64xbf16>
  %s1 = dpc.reduce sum %h1 dims = [3] : tensor<32x128x16x64xbf16> -> tensor<32x128x16xbf16>
  %y1 = dpc.matmul %s1, %v : (tensor<32x128x16xbf16>, tensor<16x1000xbf16>) -> tensor<32x128x1000xbf16>
  %x2 = dpc.binary add %x1, %y1 : (tensor<32x128x1000xbf16>, tensor<32x128x1000xbf16>) -> tensor<32x128x1000xbf16>
  %p2 = dpc.matmul %x2, %w2 : (tensor<32x128x1000xbf16>, tensor<1000x1024xbf16>) -> tensor<32x128x1024xbf16>
  %h2 = dpc.reshape %p2 : tensor<32x128x1024xbf16> -> tensor<32x128x16x64xbf16>
  %s2 = dpc.reduce sum %h2 dims = [3] : tensor<32x128x16x64xbf16> -> tensor<32x128x16xbf16>
  %y2 = dpc.matmul %s2, %v : (tensor<32x128x16xbf16>, tensor<16x1000xbf16>) -> tensor<32x128x1000xbf16>
  %x3 = dpc.binary add %x2, %y2 : (tensor<32x128x1000xbf16>, tensor<32x128x1000xbf16>) -> tensor<32x128x1000xbf16>
  return %x3 : tensor<32x128x1000xbf16>
}

// -----

// Slices of a fused projection have the offsets of the same parts in the new size.
// Constants are cut to their first rows and columns.

// CHECK-LABEL: func.func @forward(
// CHECK-SAME: %{{.*}}: tensor<2x24xf32>
// CHECK: dpc.constant dense<{{\[}}[0.000000e+00, 1.000000e+00], [0.000000e+00, 2.000000e+00]]> : tensor<2x2xf32>
// CHECK: dpc.slice %{{.*}} offsets = [0, 8] strides = [1, 1] : tensor<2x24xf32> -> tensor<2x8xf32>
// CHECK: dpc.pad %{{.*}} low = [0, 16] strides = [1, 1] : tensor<2x8xf32> -> tensor<2x24xf32>
func.func @forward(%x: tensor<3x192xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<3x192xf32>, tensor<3x2xf32>) {
  %c = dpc.constant dense<[[0.0, 1.0], [0.0, 2.0], [0.0, 3.0]]> : tensor<3x2xf32> -> tensor<3x2xf32>
  %k = dpc.slice %x offsets = [0, 64] strides = [1, 1] : tensor<3x192xf32> -> tensor<3x64xf32>
  %p = dpc.pad %k low = [0, 128] strides = [1, 1] : tensor<3x64xf32> -> tensor<3x192xf32>
  %m = dpc.reduce sum %x dims = [1] : tensor<3x192xf32> -> tensor<3xf32>
  %b = dpc.broadcast %m dims = [0] : tensor<3xf32> -> tensor<3x2xf32>
  %d = dpc.binary add %b, %c : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %p, %d : tensor<3x192xf32>, tensor<3x2xf32>
}

// -----

// Windows relate the sizes of an image, so only channels and samples shrink.

// CHECK-LABEL: func.func @forward(
// CHECK: dpc.conv {{.*}} : (tensor<2x8x32x32xf32>, tensor<8x8x3x3xf32>) -> tensor<2x8x16x16xf32>
func.func @forward(%x: tensor<4x64x32x32xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64},
                   %w: tensor<128x64x3x3xf32> {dpc.name = "w", dpc.role = "parameter"}) -> tensor<4x128x16x16xf32> {
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<4x64x32x32xf32>, tensor<128x64x3x3xf32>) -> tensor<4x128x16x16xf32>
  return %0 : tensor<4x128x16x16xf32>
}
