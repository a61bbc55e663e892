// Meshes and shardings survive a round trip. Types print shardings as aliases, whose
// names describe the content.
//
// RUN: dpc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-DAG: #[[WHOLE:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{}, {}]>
// CHECK-DAG: #[[SCALAR:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, []>
// CHECK-DAG: #[[NESTED:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp, tp}, {}]>
// CHECK-DAG: #[[INNER:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{3, 64:tp}]>
// CHECK-DAG: #[[BOTH:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{3, 64:(dp, tp)}]>
// CHECK-DAG: #[[HEADS:.+]] = #dpc.sharding<#dpc.mesh<tp=3>, [{4:tp, 16}]>
// CHECK-DAG: #[[MIDDLE:.+]] = #dpc.sharding<#dpc.mesh<tp=3>, [{3, 4:tp, 16}]>
// CHECK-DAG: #[[PARTIAL:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4, mb=3>, [{tp}], partial = {dp : sum, mb : max}>
// CHECK-DAG: #[[PLAIN:.+]] = #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}]>

// CHECK: @mesh() attributes {empty = #dpc.mesh<>, m = #dpc.mesh<dp=2, tp=4>}
func.func private @mesh() attributes {m = #dpc.mesh<dp=2, tp=4>, empty = #dpc.mesh<>}

// CHECK: @replicated(tensor<8x4xf32, #[[WHOLE]]>)
func.func private @replicated(tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{}, {}]>>)

// CHECK: @scalar(tensor<f32, #[[SCALAR]]>)
func.func private @scalar(tensor<f32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, []>>)

// CHECK: @two_axes_on_a_dimension(tensor<8x4xf32, #[[NESTED]]>)
func.func private @two_axes_on_a_dimension(tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp, tp}, {}]>>)

// CHECK: @inner_factor(tensor<192xf32, #[[INNER]]>)
func.func private @inner_factor(tensor<192xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{3, 64:tp}]>>)

// CHECK: @two_axes_on_a_factor(tensor<192xf32, #[[BOTH]]>)
func.func private @two_axes_on_a_factor(tensor<192xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{3, 64:(dp, tp)}]>>)

// Four heads over three ranks give shards of 32, 32 and 0 elements; {tp} would give 22,
// 22 and 20.
// CHECK: @uneven_heads(tensor<64xf32, #[[HEADS]]>)
func.func private @uneven_heads(tensor<64xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{4:tp, 16}]>>)

// CHECK: @uneven_heads_of_qkv(tensor<192xf32, #[[MIDDLE]]>)
func.func private @uneven_heads_of_qkv(tensor<192xf32, #dpc.sharding<#dpc.mesh<tp=3>, [{3, 4:tp, 16}]>>)

// CHECK: @partial(tensor<4xf32, #[[PARTIAL]]>)
func.func private @partial(tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4, mb=3>, [{tp}], partial = {dp : sum, mb : max}>>)

// CHECK: @partial_over_nothing(tensor<4xf32, #[[PLAIN]]>)
func.func private @partial_over_nothing(tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{tp}], partial = {}>>)
