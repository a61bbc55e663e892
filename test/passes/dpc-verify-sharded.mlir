// RUN: dpc-opt %s --split-input-file --verify-diagnostics --dpc-verify-sharded

#s = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
func.func @good(%x: tensor<8xf32, #s>) -> tensor<8xf32, #s> {
  %y = dpc.unary relu %x : tensor<8xf32, #s> -> tensor<8xf32, #s>
  return %y : tensor<8xf32, #s>
}

// A function without encodings is at another altitude.
func.func @graph(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

#s = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
// expected-error@+1 {{(C1) value has no sharding: 'tensor<4xf32>'}}
func.func @half(%x: tensor<8xf32, #s>, %y: tensor<4xf32>) -> tensor<8xf32, #s> {
  return %x : tensor<8xf32, #s>
}

// -----

#a = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
#b = #dpc.sharding<#dpc.mesh<dp=4>, [{dp}]>
// expected-error@+1 {{(C1) value is over another mesh than #dpc.mesh<dp=2>}}
func.func @meshes(%x: tensor<8xf32, #a>, %y: tensor<8xf32, #b>) -> tensor<8xf32, #a> {
  return %x : tensor<8xf32, #a>
}

// -----

#s = #dpc.sharding<#dpc.mesh<dp=2>, [{dp}]>
func.func @upstream(%x: tensor<8xf32, #s>) -> tensor<8xf32, #s> {
  // expected-error@+1 {{(C3) 'builtin.unrealized_conversion_cast' is not allowed at the sharded altitude}}
  %y = builtin.unrealized_conversion_cast %x : tensor<8xf32, #s> to tensor<8xf32, #s>
  return %y : tensor<8xf32, #s>
}
