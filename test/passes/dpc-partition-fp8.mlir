// RUN: dpc-opt %s --split-input-file --dpc-partition --dpc-verify-local | FileCheck %s

// The workspace of a matmul in fp8 is 64 bytes, 32 x 16 bytes for one converted operand
// and 48 x 16 bytes for the other. The rows of all samples form one dimension.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}, {}]>
#w = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>

// CHECK-LABEL: func.func @step
// CHECK: dpc.matmul {{.*}} {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward", dpc.workspace = 1344 : i64} : (tensor<2x16x16xbf16>, tensor<16x48xbf16>)
func.func @forward(%x: tensor<4x16x16xbf16, #x> {dpc.role = "input"}, %w: tensor<16x48xbf16, #w> {dpc.role = "input"}) -> tensor<4x16x48xbf16, #x> {
  %0 = dpc.matmul %x, %w {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<4x16x16xbf16, #x>, tensor<16x48xbf16, #w>) -> tensor<4x16x48xbf16, #x>
  return %0 : tensor<4x16x48xbf16, #x>
}

// -----

// A rank has 24 columns, which fp8 does not support.

#x = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {}]>
#w = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp}]>

// CHECK-LABEL: func.func @step
// CHECK: dpc.matmul {{.*}} {dpc.phase = "forward"} : (tensor<16x16xbf16>, tensor<16x24xbf16>)
func.func @forward(%x: tensor<16x16xbf16, #x> {dpc.role = "input"}, %w: tensor<16x48xbf16, #w> {dpc.role = "input"}) -> tensor<16x48xbf16, #w> {
  %0 = dpc.matmul %x, %w {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<16x16xbf16, #x>, tensor<16x48xbf16, #w>) -> tensor<16x48xbf16, #w>
  return %0 : tensor<16x48xbf16, #w>
}

// -----

// The largest element is also computed over rows that are not summed.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {}]>
#w = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}]>

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<16x16xbf16> {{.*}}, %[[W:.*]]: tensor<16x48xbf16>
// CHECK: %[[M:.*]] = dpc.mask %[[X]] value = 0.000000e+00 global = tensor<31x16xbf16, #s_dp_r>
// CHECK-NEXT: dpc.matmul %[[M]], %[[W]] {dpc.fp8
func.func @forward(%x: tensor<31x16xbf16, #x> {dpc.role = "input"}, %w: tensor<16x48xbf16, #w> {dpc.role = "input"}) -> tensor<31x48xbf16, #x> {
  %0 = dpc.matmul %x, %w {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<31x16xbf16, #x>, tensor<16x48xbf16, #w>) -> tensor<31x48xbf16, #x>
  return %0 : tensor<31x48xbf16, #x>
}

// -----

// With 24 columns on a rank, the matmul is not in fp8.

#x = #dpc.sharding<#dpc.mesh<dp=2, tp=2>, [{dp}, {}]>
#w = #dpc.sharding<#dpc.mesh<dp=2, tp=2>, [{}, {tp}]>
#y = #dpc.sharding<#dpc.mesh<dp=2, tp=2>, [{dp}, {tp}]>

// CHECK-LABEL: func.func @step
// CHECK-NOT: dpc.mask
// CHECK: dpc.matmul {{.*}} {dpc.phase = "forward"} : (tensor<16x16xbf16>, tensor<16x24xbf16>)
func.func @forward(%x: tensor<31x16xbf16, #x> {dpc.role = "input"}, %w: tensor<16x48xbf16, #w> {dpc.role = "input"}) -> tensor<31x48xbf16, #y> {
  %0 = dpc.matmul %x, %w {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<31x16xbf16, #x>, tensor<16x48xbf16, #w>) -> tensor<31x48xbf16, #y>
  return %0 : tensor<31x48xbf16, #y>
}

// -----

// A batch of matrices and a matmul of f32 are not in fp8.

#x = #dpc.sharding<#dpc.mesh<dp=2>, [{}, {}, {}]>

// CHECK-LABEL: func.func @step
// CHECK: dpc.matmul {{.*}} {dpc.phase = "forward"} : (tensor<2x16x16xbf16>, tensor<2x16x16xbf16>)
// CHECK: dpc.matmul {{.*}} {dpc.phase = "forward"} : (tensor<1x16x16xf32>, tensor<1x16x16xf32>)
func.func @forward(%x: tensor<2x16x16xbf16, #x> {dpc.role = "input"}, %y: tensor<1x16x16xf32, #x> {dpc.role = "input"}) -> (tensor<2x16x16xbf16, #x>, tensor<1x16x16xf32, #x>) {
  %0 = dpc.matmul %x, %x {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<2x16x16xbf16, #x>, tensor<2x16x16xbf16, #x>) -> tensor<2x16x16xbf16, #x>
  %1 = dpc.matmul %y, %y {dpc.fp8 = [f8E4M3FN, f8E4M3FN], dpc.phase = "forward"} : (tensor<1x16x16xf32, #x>, tensor<1x16x16xf32, #x>) -> tensor<1x16x16xf32, #x>
  return %0, %1 : tensor<2x16x16xbf16, #x>, tensor<1x16x16xf32, #x>
}
