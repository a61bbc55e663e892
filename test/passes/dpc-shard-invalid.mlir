// RUN: dpc-opt %s --split-input-file --verify-diagnostics --dpc-shard="strategy=dp=2 micro-batches=2"

// A normalization over the batch needs all samples at once.
func.func @forward(%x: tensor<8x16xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<16x8xf32> {dpc.name = "y"}) {
  %t = dpc.transpose %x perm = [1, 0] : tensor<8x16xf32> -> tensor<16x8xf32>
  // expected-error@+1 {{'dpc.softmax' cannot be split over #dpc.mesh<dp=2, mb=2>: it reads the whole batch, which micro-batches split; set micro_batch= to the whole batch of a rank}}
  %y = dpc.softmax %t : tensor<16x8xf32> -> tensor<16x8xf32>
  return %y : tensor<16x8xf32>
}

// -----

// expected-error@+1 {{no function @train_step or @forward to shard}}
module {
}

// -----

// expected-error@+1 {{state "m" (argument 1) belongs to "nope", but no parameter has this name}}
func.func @train_step(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"}, %m: tensor<4xf32> {dpc.name = "m", dpc.role = "state", dpc.of = "nope", dpc.slot = "momentum"}, %x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> tensor<4xf32> {
  %0 = dpc.reduce sum %x dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{state "m" (argument 1) belongs to "w", a parameter of another shape}}
func.func @train_step(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"}, %m: tensor<4x1xf32> {dpc.name = "m", dpc.role = "state", dpc.of = "w", dpc.slot = "momentum"}, %x: tensor<8x4xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64}) -> tensor<4xf32> {
  %0 = dpc.reduce sum %x dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
