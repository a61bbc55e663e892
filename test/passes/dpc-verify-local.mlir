// RUN: dpc-opt %s --split-input-file --dpc-verify-local --verify-diagnostics

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) -> (tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.accumulate sum %a {dpc.phase = "backward"} : tensor<2xf32> -> tensor<2xf32>
  %1 = dpc.all_reduce sum %0 axes = ["dp"] {dpc.phase = "update"} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// expected-error @below {{'dpc.mesh' is not a #dpc.mesh}}
func.func @step() attributes {dpc.mesh = 3 : i64} {
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  // expected-error @below {{(C1) result of type}}
  %0 = dpc.iota dim = 0 {dpc.phase = "setup"} : !x
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  // expected-error @below {{(C2) axis "tp" is not in #dpc.mesh<dp=2>}}
  %0 = dpc.all_reduce sum %a axes = ["tp"] {dpc.phase = "forward"} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>} {
  // expected-error @below {{(C2) axes ["tp", "dp"] are not in the order of #dpc.mesh<dp=2, tp=2>}}
  %0 = dpc.all_reduce sum %a axes = ["tp", "dp"] {dpc.phase = "forward"} : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, mb=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2, mb=2>} {
  // expected-error @below {{(C2) axis 'mb' has micro-batches, not ranks: the value spans all samples of a rank; plan with one micro-batch a step}}
  %0 = dpc.all_gather %a axes = ["mb"] {dpc.phase = "forward"} : tensor<2xf32> -> tensor<2x2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  // expected-error @below {{(C2) stack has 3 pieces, but the axes have 2 ranks}}
  %0 = dpc.all_gather %a axes = ["dp"] {dpc.phase = "forward"} : tensor<2xf32> -> tensor<3x2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  // expected-error @below {{(C3) 'dpc.phase' is missing, expected setup, forward, backward, weight or update}}
  %0 = dpc.unary neg %a : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.unary neg %a {dpc.phase = "backward"} : tensor<2xf32> -> tensor<2xf32>
  // expected-error @below {{(C3) phase 'forward' comes after a later phase}}
  %1 = dpc.unary neg %a {dpc.phase = "forward"} : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.accumulate sum %a {dpc.phase = "backward"} : tensor<2xf32> -> tensor<2xf32>
  // expected-error @below {{(C4) reads an accumulated value before the last micro-batch has been added}}
  %1 = dpc.unary neg %0 {dpc.phase = "backward"} : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  // expected-error @below {{(C4) accumulates outside the micro-batch loop}}
  %0 = dpc.accumulate sum %a {dpc.phase = "update"} : tensor<2xf32> -> tensor<2xf32>
  return
}

// -----

// expected-error @below {{(C5) argument 0 has no 'dpc.global'}}
func.func @step(%a: tensor<2xf32>) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
// expected-error @below {{(C5) argument 0 has type 'tensor<4xf32>'; expected 'tensor<2xf32>', the local type of its 'dpc.global'}}
func.func @step(%a: tensor<4xf32> {dpc.global = !x}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  return
}

// -----

!x = tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
func.func @step(%a: tensor<2xf32> {dpc.global = !x, dpc.space = "host"}) attributes {dpc.mesh = #dpc.mesh<dp=2>} {
  %0 = dpc.fetch %a {dpc.phase = "forward"} : tensor<2xf32> -> tensor<2xf32>
  // expected-error @below {{(C6) reads argument 0, which is in host memory, without dpc.fetch}}
  %1 = dpc.unary exp %a {dpc.phase = "forward"} : tensor<2xf32> -> tensor<2xf32>
  return
}
