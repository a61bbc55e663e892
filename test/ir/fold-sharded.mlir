// Folds at the sharded altitude preserve encodings and do not change partial values.
//
// RUN: dpc-opt %s --canonicalize | FileCheck %s

#tp = #dpc.sharding<#dpc.mesh<tp=2>, [{tp}]>
#rep = #dpc.sharding<#dpc.mesh<tp=2>, [{}]>
#sum = #dpc.sharding<#dpc.mesh<tp=2>, [{}], partial = {tp : sum}>
#rows = #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {}]>
#cols = #dpc.sharding<#dpc.mesh<tp=2>, [{}, {tp}]>

// CHECK-LABEL: func.func @reshard_to_itself(
// CHECK-SAME: %[[X:.+]]: tensor<
func.func @reshard_to_itself(%x: tensor<8xf32, #tp>) -> tensor<8xf32, #tp> {
  // CHECK-NEXT: return %[[X]]
  %0 = dpc.reshard %x : tensor<8xf32, #tp> -> tensor<8xf32, #tp>
  return %0 : tensor<8xf32, #tp>
}

// CHECK-LABEL: func.func @reshard_elsewhere_stays(
func.func @reshard_elsewhere_stays(%x: tensor<8xf32, #tp>) -> tensor<8xf32, #rep> {
  // CHECK-NEXT: dpc.reshard
  %0 = dpc.reshard %x : tensor<8xf32, #tp> -> tensor<8xf32, #rep>
  return %0 : tensor<8xf32, #rep>
}

// CHECK-LABEL: func.func @constant_elsewhere(
func.func @constant_elsewhere() -> tensor<8xf32, #tp> {
  // CHECK-NEXT: %[[C:.+]] = dpc.constant dense<3.000000e+00> : tensor<8xf32> -> tensor<8xf32, #[[S:.+]]>
  // CHECK-NEXT: return %[[C]] : tensor<8xf32, #[[S]]>
  %a = dpc.constant dense<1.0> : tensor<8xf32> -> tensor<8xf32, #rep>
  %b = dpc.constant dense<2.0> : tensor<8xf32> -> tensor<8xf32, #rep>
  %0 = dpc.binary add %a, %b : (tensor<8xf32, #rep>, tensor<8xf32, #rep>) -> tensor<8xf32, #rep>
  %1 = dpc.reshard %0 : tensor<8xf32, #rep> -> tensor<8xf32, #tp>
  return %1 : tensor<8xf32, #tp>
}

// CHECK-LABEL: func.func @neutral_operand_of_a_shard(
// CHECK-SAME: %[[X:.+]]: tensor<
func.func @neutral_operand_of_a_shard(%x: tensor<8xf32, #tp>) -> tensor<8xf32, #tp> {
  // CHECK-NEXT: return %[[X]]
  %one = dpc.constant dense<1.0> : tensor<8xf32> -> tensor<8xf32, #tp>
  %0 = dpc.binary mul %x, %one : (tensor<8xf32, #tp>, tensor<8xf32, #tp>) -> tensor<8xf32, #tp>
  return %0 : tensor<8xf32, #tp>
}

// CHECK-LABEL: func.func @partial_sum_of_a_constant_stays(
func.func @partial_sum_of_a_constant_stays() -> tensor<8xf32, #rep> {
  // CHECK: dpc.reduce sum
  // CHECK: dpc.reshard
  %a = dpc.constant dense<1.0> : tensor<4x8xf32> -> tensor<4x8xf32, #rows>
  %0 = dpc.reduce sum %a dims = [0] : tensor<4x8xf32, #rows> -> tensor<8xf32, #sum>
  %1 = dpc.unary neg %0 : tensor<8xf32, #sum> -> tensor<8xf32, #sum>
  %2 = dpc.reshard %1 : tensor<8xf32, #sum> -> tensor<8xf32, #rep>
  return %2 : tensor<8xf32, #rep>
}

// Two transposes merge only if the remaining one still follows its sharding rule.
// CHECK-LABEL: func.func @transposes_cancel(
// CHECK-SAME: %[[X:.+]]: tensor<
func.func @transposes_cancel(%x: tensor<4x8xf32, #rows>) -> tensor<4x8xf32, #rows> {
  // CHECK-NEXT: return %[[X]]
  %0 = dpc.transpose %x perm = [1, 0] : tensor<4x8xf32, #rows> -> tensor<8x4xf32, #cols>
  %1 = dpc.transpose %0 perm = [1, 0] : tensor<8x4xf32, #cols> -> tensor<4x8xf32, #rows>
  return %1 : tensor<4x8xf32, #rows>
}
