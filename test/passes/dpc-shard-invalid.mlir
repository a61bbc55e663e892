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

// The positions of a sample are 4 x 3 before the sum, and 3 x 4 after it.
func.func @forward(%x: tensor<8x4x3xf32> {dpc.name = "x", dpc.role = "input", dpc.batch_dim = 0 : i64})
    -> (tensor<8x3xf32> {dpc.name = "y"}) {
  %s = dpc.reduce max %x dims = [1] : tensor<8x4x3xf32> -> tensor<8x3xf32>
  %m = dpc.broadcast %s dims = [0, 2] : tensor<8x3xf32> -> tensor<8x4x3xf32>
  %a = dpc.reshape %m : tensor<8x4x3xf32> -> tensor<96xf32>
  %b = dpc.unary exp %a : tensor<96xf32> -> tensor<96xf32>
  // expected-error@+1 {{'dpc.reshape' cannot be split over #dpc.mesh<dp=2, mb=2>: reshapes cut its dimensions at places that do not fit together, so that it needs the whole batch, which micro-batches split; set micro_batch= to the whole batch of a rank}}
  %c = dpc.reshape %b : tensor<96xf32> -> tensor<8x3x4xf32>
  %y = dpc.reduce max %c dims = [2] : tensor<8x3x4xf32> -> tensor<8x3xf32>
  return %y : tensor<8x3xf32>
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
