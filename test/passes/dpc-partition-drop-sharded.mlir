// RUN: dpc-opt %s --dpc-partition=drop-sharded | FileCheck %s

// CHECK-NOT: @forward
// CHECK: func.func @step
#r = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
func.func @forward(%x: tensor<8xf32, #r>) -> tensor<8xf32, #r> {
  return %x : tensor<8xf32, #r>
}
