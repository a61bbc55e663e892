// The verifiers reject invalid meshes, shardings and encodings.
//
// RUN: dpc-opt %s --split-input-file --verify-diagnostics

// Meshes.
// expected-error @below {{(C1) mesh axis 'dp' has size 0, must be at least 1}}
func.func private @mesh_axis_of_no_ranks(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=0>, [{}]>>)

// -----

// expected-error @below {{(C1) mesh axis 'dp' has size -2, must be at least 1}}
func.func private @mesh_axis_of_less_than_none(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=-2>, [{}]>>)

// -----

// expected-error @below {{(C2) mesh axis 'dp' occurs twice}}
func.func private @mesh_axis_twice(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2, dp=2>, [{}]>>)

// -----

// Shardings.
// expected-error @below {{(C1) axis 'tp' is not in #dpc.mesh<dp=2>}}
func.func private @axis_of_another_mesh(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{tp}]>>)

// -----

// expected-error @below {{(C1) axis 'tp' is not in #dpc.mesh<dp=2>}}
func.func private @partial_over_an_axis_of_another_mesh(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {tp : sum}>>)

// -----

// expected-error @below {{(C2) axis 'dp' is used twice}}
func.func private @axis_on_two_dimensions(tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {dp}]>>)

// -----

// expected-error @below {{(C2) axis 'dp' is used twice}}
func.func private @axis_split_and_partial(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}], partial = {dp : sum}>>)

// -----

// expected-error @below {{(C3) sharding has 1 dimensions, the tensor 2}}
func.func private @sharding_of_another_rank(tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>)

// -----

// expected-error @below {{(C4) factors of dimension 0 multiply to 6, its size is 8}}
func.func private @factors_of_another_size(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{3:dp, 2}]>>)

// -----

// expected-error @below {{(C5) sharding is not canonical, write #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>}}
func.func private @factors_that_merge(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{4:dp, 2}]>>)

// -----

// expected-error @below {{unknown reduction 'mean', expected sum, max, min, prod or routed}}
func.func private @partial_of_unknown_kind(tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {dp : mean}>>)

// -----

// The encodings of an op must follow its sharding rule.
func.func @sharded_and_unsharded(%a: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>) {
  // expected-error @below {{'dpc.unary' op has operands or results with and without sharding}}
  %0 = dpc.unary exp %a : tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>> -> tensor<8xf32>
  return
}

// -----

func.func @result_elsewhere(%a: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>) {
  // expected-error @below {{'dpc.unary' op result 0 must have sharding #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>, found #dpc.sharding<#dpc.mesh<dp=2>, [{}]>}}
  %0 = dpc.unary exp %a : tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>> -> tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}]>>
  return
}

// -----

func.func @exponential_of_a_partial_sum(%a: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {dp : sum}>>) {
  // expected-error @below {{'dpc.unary' op operand shardings do not fit: operand 0 is partial over axis 'dp', which the op does not pass on}}
  %0 = dpc.unary exp %a : tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {dp : sum}>> -> tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}], partial = {dp : sum}>>
  return
}

// -----

func.func @operands_split_unlike(%a: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>, %b: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}]>>) {
  // expected-error @below {{'dpc.binary' op operand shardings do not fit: dimension 0 of operand 1 is split differently from another operand}}
  %0 = dpc.binary add %a, %b : (tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>, tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}]>>) -> tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}]>>
  return
}

// -----

func.func @rows_of_a_softmax_split(%a: tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}, {dp}]>>) {
  // expected-error @below {{'dpc.softmax' op operand shardings do not fit: dimension 1 of operand 0 must be whole}}
  %0 = dpc.softmax %a : tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}, {dp}]>> -> tensor<8x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}, {dp}]>>
  return
}

// -----

func.func @operands_on_two_meshes(%a: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>, %b: tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}]>>) {
  // expected-error @below {{'dpc.binary' op mixes meshes: #dpc.mesh<dp=2> and #dpc.mesh<dp=4>}}
  %0 = dpc.binary add %a, %b : (tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>, tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}]>>) -> tensor<8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>>
  return
}

// -----

// expected-error @below {{(C4) dimension 0 has a factor of size -2, must be at least 1}}
func.func private @factors_below_zero(tensor<8xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{-2, -4:tp}]>>)

// -----

// expected-error @below {{(C4) dimension 0 has a factor of size 0, must be at least 1}}
func.func private @factors_of_nothing(tensor<0xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{0, 4:tp}]>>)

// -----

// expected-error @below {{(C4) factors of dimension 0 multiply to more than 2^63 - 1, its size is 0}}
func.func private @factors_that_overflow(tensor<0xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{4294967296, 4294967296:tp}]>>)

// -----

func.func @routed_rows_with_partial_sums(%a: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>, %b: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>>) {
  // expected-error @below {{'dpc.binary' op operand shardings do not fit: operand 1 is partial over axis 'ep', which the op does not pass on}}
  %0 = dpc.binary add %a, %b : (tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>, tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>>) -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : sum}>>
  return
}

// -----

func.func @routed_rows_are_not_split(%a: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>, %b: tensor<16x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {ep}]>>) {
  // expected-error @below {{'dpc.matmul' op operand shardings do not fit: operand 0 is routed over axis 'ep', which the op does not pass on}}
  %0 = dpc.matmul %a, %b : (tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>, tensor<16x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {ep}]>>) -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {ep}]>>
  return
}

// -----

func.func @routed_rows_are_not_summed(%a: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>) {
  // expected-error @below {{'dpc.reduce' op operand shardings do not fit: operand 0 is routed over axis 'ep', which the op does not pass on}}
  %0 = dpc.reduce sum %a dims = [0] : tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>> -> tensor<16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}], partial = {ep : routed}>>
  return
}
