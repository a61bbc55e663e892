// RUN: dpc-opt %s --split-input-file --dpc-partition --verify-diagnostics

// expected-error @below {{no function @train_step or @forward to partition}}
module {}

// -----

// expected-error @below {{has no tensor with #dpc.sharding: assign shardings first}}
func.func @forward(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

#r = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
// expected-error @below {{argument 1 of type 'tensor<8xf32>' has no sharding over #dpc.mesh<dp=2>}}
func.func @forward(%x: tensor<8xf32, #r>, %y: tensor<8xf32>) -> tensor<8xf32, #r> {
  return %x : tensor<8xf32, #r>
}

// -----

#r = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
func.func @forward(%x: tensor<8xf32, #r>) -> tensor<8xf32, #r> {
  return %x : tensor<8xf32, #r>
}
// expected-error @below {{@step exists already}}
func.func @step() {
  return
}

// -----

#b = #dpc.sharding<#dpc.mesh<dp=2, mb=2>, [{dp, mb}]>
#r = #dpc.sharding<#dpc.mesh<dp=2, mb=2>, [{dp}]>
func.func @forward(%x: tensor<8xf32, #b>) -> tensor<8xf32, #r> {
  // expected-error @below {{a split over micro-batches ('mb') can only end in a sum over them (not supported)}}
  %0 = dpc.reshard %x : tensor<8xf32, #b> -> tensor<8xf32, #r>
  return %0 : tensor<8xf32, #r>
}

// -----

#r = #dpc.sharding<#dpc.mesh<mb=2>, []>
#b = #dpc.sharding<#dpc.mesh<mb=2>, [{mb}]>
func.func @forward(%x: tensor<8xf32, #b>) -> tensor<f32, #r> {
  // expected-error @below {{is split over micro-batches (not supported)}}
  %0 = dpc.global_norm %x : (tensor<8xf32, #b>) -> tensor<f32, #r>
  return %0 : tensor<f32, #r>
}

// -----

// The forward pass reads a sum over all micro-batches, whose gradient is again such a
// sum. The pass that computes it would contain ops of the backward pass.

#r = #dpc.sharding<#dpc.mesh<pp=2, mb=2>, []>
#b = #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [{mb}]>
#p = #dpc.sharding<#dpc.mesh<pp=2, mb=2>, [], partial = {mb : sum}>
func.func @train_step(%x: tensor<8xf32, #b> {dpc.role = "input"}) -> tensor<8xf32, #b> {
  %0 = dpc.reduce sum %x dims = [0] {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<8xf32, #b> -> tensor<f32, #p>
  %1 = dpc.reshard %0 {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<f32, #p> -> tensor<f32, #r>
  %2 = dpc.broadcast %1 dims = [] {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<f32, #r> -> tensor<8xf32, #b>
  // expected-remark @below {{such sums are computed first, by 2 more passes over the micro-batches}}
  %3 = dpc.binary mul %x, %2 {dpc.phase = "forward", dpc.stage = 0 : i64} : (tensor<8xf32, #b>, tensor<8xf32, #b>) -> tensor<8xf32, #b>
  %4 = dpc.unary exp %3 {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<8xf32, #b> -> tensor<8xf32, #b>
  // expected-error @below {{'dpc.reduce' is part of a gradient that must be summed over all micro-batches before any micro-batch can use it}}
  %5 = dpc.reduce sum %4 dims = [0] {dpc.phase = "backward", dpc.stage = 0 : i64} : tensor<8xf32, #b> -> tensor<f32, #p>
  %6 = dpc.reshard %5 {dpc.phase = "backward", dpc.stage = 0 : i64} : tensor<f32, #p> -> tensor<f32, #r>
  %7 = dpc.broadcast %6 dims = [] {dpc.phase = "backward", dpc.stage = 0 : i64} : tensor<f32, #r> -> tensor<8xf32, #b>
  %8 = dpc.binary add %x, %7 {dpc.phase = "backward", dpc.stage = 0 : i64} : (tensor<8xf32, #b>, tensor<8xf32, #b>) -> tensor<8xf32, #b>
  return %8 : tensor<8xf32, #b>
}

// -----

#r = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
func.func @forward(%x: tensor<8xf32, #r>) -> tensor<8xf32, #r> {
  // expected-error @below {{result of type 'tensor<8xf32>' has no sharding; run dpc-shard first}}
  %0 = dpc.iota dim = 0 : tensor<8xf32>
  return %x : tensor<8xf32, #r>
}
