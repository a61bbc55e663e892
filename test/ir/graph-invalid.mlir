// The verifiers reject graph ops that violate a documented constraint, with its number.
//
// RUN: dpc-opt %s --split-input-file --verify-diagnostics

func.func @constant_of_another_shape() {
  // expected-error @below {{'dpc.constant' op (C1) value has shape 4, expected 5}}
  %0 = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<5xf32>
  return
}

// -----

func.func @constant_of_another_type() {
  // expected-error @below {{'dpc.constant' op (C1) value has element type 'f32', expected 'f64'}}
  %0 = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

func.func @constant_with_an_encoded_value() {
  // expected-error @below {{'dpc.constant' op (C2) value has an encoding}}
  %0 = dpc.constant dense<1.0> : tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}]>> -> tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}]>>
  return
}

// -----

func.func @iota_along_no_dimension() {
  // expected-error @below {{'dpc.iota' op (C1) dim 2 is no dimension of a result of rank 2}}
  %0 = dpc.iota dim = 2 : tensor<4x8xi64>
  return
}

// -----

func.func @unary_of_another_shape(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.unary' op (C1) result has shape 8, expected 4}}
  %0 = dpc.unary exp %x : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @unary_of_another_type(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.unary' op (C1) result has element type 'f64', expected 'f32'}}
  %0 = dpc.unary exp %x : tensor<4xf32> -> tensor<4xf64>
  return
}

// -----

func.func @unary_of_an_unknown_size(%x: tensor<?xf32>) {
  // expected-error @below {{'dpc.unary' op operand #0 must be statically shaped tensor}}
  %0 = dpc.unary exp %x : tensor<?xf32> -> tensor<?xf32>
  return
}

// -----

func.func @binary_does_not_broadcast(%a: tensor<4x8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{'dpc.binary' op (C1) second operand has shape 8, expected 4x8}}
  %0 = dpc.binary add %a, %b : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @binary_of_another_result(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.binary' op (C1) result has element type 'i1', expected 'f32'}}
  %0 = dpc.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  return
}

// -----

func.func @compare_of_two_types(%a: tensor<4xf32>, %b: tensor<4xi64>) {
  // expected-error @below {{'dpc.compare' op (C1) second operand has element type 'i64', expected 'f32'}}
  %0 = dpc.compare lt %a, %b : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xi1>
  return
}

// -----

func.func @compare_gives_truth_values(%a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.compare' op (C2) result has element type 'f32', expected 'i1'}}
  %0 = dpc.compare lt %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @select_by_a_float(%c: tensor<4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.select' op (C1) condition has element type 'f32', expected 'i1'}}
  %0 = dpc.select %c, %a, %b : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @select_of_another_shape(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<f32>) {
  // expected-error @below {{'dpc.select' op (C1) second choice has shape scalar, expected 4}}
  %0 = dpc.select %c, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @select_of_two_types(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf64>) {
  // expected-error @below {{'dpc.select' op (C2) second choice has element type 'f64', expected 'f32'}}
  %0 = dpc.select %c, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  return
}

// -----

func.func @convert_keeps_the_shape(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.convert' op (C1) result has shape 2x2, expected 4}}
  %0 = dpc.convert %x : tensor<4xf32> -> tensor<2x2xf64>
  return
}

// -----

func.func @broadcast_lacks_an_entry(%x: tensor<2x4xf32>) {
  // expected-error @below {{'dpc.broadcast' op (C1) dims has 1 entries for rank 2}}
  %0 = dpc.broadcast %x dims = [1] : tensor<2x4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_permutes(%x: tensor<2x4xf32>) {
  // expected-error @below {{'dpc.broadcast' op (C1) dims is not strictly increasing: 0 after 1}}
  %0 = dpc.broadcast %x dims = [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  return
}

// -----

func.func @broadcast_to_no_dimension(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.broadcast' op (C1) dims entry 2 is no dimension of a result of rank 2}}
  %0 = dpc.broadcast %x dims = [2] : tensor<4xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @broadcast_stretches(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.broadcast' op (C2) operand dimension 0 has size 4, expected 1 or 8}}
  %0 = dpc.broadcast %x dims = [1] : tensor<4xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @broadcast_converts(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.broadcast' op (C3) result has element type 'f64', expected 'f32'}}
  %0 = dpc.broadcast %x dims = [1] : tensor<4xf32> -> tensor<2x4xf64>
  return
}

// -----

func.func @reshape_loses_elements(%x: tensor<8x64xf32>) {
  // expected-error @below {{'dpc.reshape' op (C1) numbers of elements differ: 512 and 480}}
  %0 = dpc.reshape %x : tensor<8x64xf32> -> tensor<8x4x15xf32>
  return
}

// -----

func.func @reshape_converts(%x: tensor<8x64xf32>) {
  // expected-error @below {{'dpc.reshape' op (C1) result has element type 'i32', expected 'f32'}}
  %0 = dpc.reshape %x : tensor<8x64xf32> -> tensor<512xi32>
  return
}

// -----

func.func @transpose_repeats_a_dimension(%x: tensor<2x2xf32>) {
  // expected-error @below {{'dpc.transpose' op (C1) perm [1, 1] is no permutation of the dimensions of an operand of rank 2}}
  %0 = dpc.transpose %x perm = [1, 1] : tensor<2x2xf32> -> tensor<2x2xf32>
  return
}

// -----

func.func @transpose_to_a_wrong_shape(%x: tensor<2x3xf32>) {
  // expected-error @below {{'dpc.transpose' op (C1) result has shape 2x3, expected 3x2}}
  %0 = dpc.transpose %x perm = [1, 0] : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @slice_lacks_a_stride(%x: tensor<8x8xf32>) {
  // expected-error @below {{'dpc.slice' op (C1) offset and strides have 2 and 1 entries for rank 2}}
  %0 = dpc.slice %x offsets = [0, 0] strides = [1] : tensor<8x8xf32> -> tensor<4x8xf32>
  return
}

// -----

func.func @slice_before_the_start(%x: tensor<8xf32>) {
  // expected-error @below {{'dpc.slice' op (C1) offset of dimension 0 is negative: -1}}
  %0 = dpc.slice %x offsets = [-1] strides = [1] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_that_stands_still(%x: tensor<8xf32>) {
  // expected-error @below {{'dpc.slice' op (C1) stride of dimension 0 is not positive: 0}}
  %0 = dpc.slice %x offsets = [0] strides = [0] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

func.func @slice_past_the_end(%x: tensor<8xf32>) {
  // expected-error @below {{'dpc.slice' op (C2) dimension 0 reaches element 9 of 8}}
  %0 = dpc.slice %x offsets = [1] strides = [2] : tensor<8xf32> -> tensor<5xf32>
  return
}

// -----

func.func @pad_before_the_start(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.pad' op (C1) low of dimension 0 is negative: -2}}
  %0 = dpc.pad %x low = [-2] strides = [1] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @pad_past_the_end(%x: tensor<4xf32>) {
  // expected-error @below {{'dpc.pad' op (C2) dimension 0 reaches element 8 of 8}}
  %0 = dpc.pad %x low = [2] strides = [2] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @concat_of_nothing() {
  // expected-error @below {{'dpc.concat' op (C1) no operands}}
  %0 = "dpc.concat"() <{dim = 0 : i64}> : () -> tensor<4xf32>
  return
}

// -----

func.func @concat_of_unlike_shapes(%a: tensor<8x4xf32>, %b: tensor<7x4xf32>) {
  // expected-error @below {{'dpc.concat' op (C1) operand 1 has shape 7x4, expected 8x4}}
  %0 = dpc.concat %a, %b dim = 1 : (tensor<8x4xf32>, tensor<7x4xf32>) -> tensor<8x8xf32>
  return
}

// -----

func.func @concat_along_no_dimension(%a: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.concat' op (C1) dim -1 is no dimension of a result of rank 2}}
  %0 = dpc.concat %a dim = -1 : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @concat_to_another_size(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.concat' op (C2) sizes along dimension 1 sum to 8, the result has 9}}
  %0 = dpc.concat %a, %b dim = 1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x9xf32>
  return
}

// -----

func.func @reduce_along_no_dimension(%x: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.reduce' op (C1) dims entry 2 is no dimension of an operand of rank 2}}
  %0 = dpc.reduce sum %x dims = [2] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reduce_twice_along_one(%x: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.reduce' op (C1) dims is not ascending: 1 after 1}}
  %0 = dpc.reduce max %x dims = [1, 1] : tensor<8x4xf32> -> tensor<8xf32>
  return
}

// -----

func.func @reduce_keeps_no_dimension(%x: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.reduce' op (C2) result has shape 8x1, expected 8}}
  %0 = dpc.reduce sum %x dims = [1] : tensor<8x4xf32> -> tensor<8x1xf32>
  return
}

// -----

func.func @matmul_of_a_vector(%a: tensor<8xf32>, %b: tensor<8x4xf32>) {
  // expected-error @below {{'dpc.matmul' op (C1) first operand has rank 1, expected at least 2}}
  %0 = dpc.matmul %a, %b : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @matmul_of_unlike_ranks(%a: tensor<2x8x4xf32>, %b: tensor<2x2x4x8xf32>) {
  // expected-error @below {{'dpc.matmul' op (C1) second operand has rank 4, expected 2 or 3}}
  %0 = dpc.matmul %a, %b : (tensor<2x8x4xf32>, tensor<2x2x4x8xf32>) -> tensor<2x8x8xf32>
  return
}

// -----

func.func @matmul_of_transposed_batches(%a: tensor<2x4x8xf32>, %b: tensor<4x8xf32>) {
  // expected-error @below {{'dpc.matmul' op (C1) ta with a plain matrix needs a first operand of rank 2, not 3}}
  %0 = dpc.matmul %a, %b ta : (tensor<2x4x8xf32>, tensor<4x8xf32>) -> tensor<2x8x8xf32>
  return
}

// -----

func.func @matmul_of_unlike_batches(%a: tensor<2x8x4xf32>, %b: tensor<3x4x8xf32>) {
  // expected-error @below {{'dpc.matmul' op (C2) batch dimensions differ: 2 and 3}}
  %0 = dpc.matmul %a, %b : (tensor<2x8x4xf32>, tensor<3x4x8xf32>) -> tensor<2x8x8xf32>
  return
}

// -----

func.func @matmul_of_unlike_contractions(%a: tensor<8x64xf32>, %b: tensor<32x16xf32>) {
  // expected-error @below {{'dpc.matmul' op (C2) contracted dimensions differ: 64 and 32}}
  %0 = dpc.matmul %a, %b : (tensor<8x64xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @matmul_to_another_shape(%a: tensor<8x4xf32>, %b: tensor<4x16xf32>) {
  // expected-error @below {{'dpc.matmul' op (C3) result has shape 16x8, expected 8x16}}
  %0 = dpc.matmul %a, %b : (tensor<8x4xf32>, tensor<4x16xf32>) -> tensor<16x8xf32>
  return
}

// -----

func.func @matmul_of_two_types(%a: tensor<8x4xf32>, %b: tensor<4x16xf64>) {
  // expected-error @below {{'dpc.matmul' op (C3) second operand has element type 'f64', expected 'f32'}}
  %0 = dpc.matmul %a, %b : (tensor<8x4xf32>, tensor<4x16xf64>) -> tensor<8x16xf32>
  return
}

// -----

func.func @reshard_changes_no_shape(%x: tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) {
  // expected-error @below {{'dpc.reshard' op (C1) result has shape 32, expected 8x4}}
  %0 = dpc.reshard %x : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>> -> tensor<32xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{}]>>
  return
}

// -----

func.func @reshard_needs_a_sharding(%x: tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) {
  // expected-error @below {{'dpc.reshard' op (C1) result has no sharding}}
  %0 = dpc.reshard %x : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>> -> tensor<8x4xf32>
  return
}

// -----

func.func @reshard_to_another_mesh(%x: tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) {
  // expected-error @below {{'dpc.reshard' op (C1) meshes differ: #dpc.mesh<dp=2, tp=4> and #dpc.mesh<tp=4>}}
  %0 = dpc.reshard %x : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>> -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=4>, [{}, {}]>>
  return
}

// -----

func.func @reshard_of_routed_rows(%x: tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>>) {
  // expected-error @below {{'dpc.reshard' op (C2) operand is routed over "ep", the result is not}}
  %0 = dpc.reshard %x : tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}], partial = {ep : routed}>> -> tensor<8x16xf32, #dpc.sharding<#dpc.mesh<ep=4>, [{}, {}]>>
  return
}

// -----

func.func @reshard_makes_no_partial_sum(%x: tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>>) {
  // expected-error @below {{'dpc.reshard' op (C2) result is partial over "tp" (sum), the operand is not}}
  %0 = dpc.reshard %x : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}, {}]>> -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{}, {}], partial = {tp : sum}>>
  return
}
