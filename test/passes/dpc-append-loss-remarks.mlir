// RUN: dpc-opt %s --dpc-append-loss --split-input-file --verify-diagnostics

// expected-remark@+1 {{the loss is --loss=cross_entropy:y, and not the model's output 'loss'}}
func.func @forward(%x: tensor<2x3xf32> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<2x3xf32> {dpc.name = "y"}, tensor<f32> {dpc.name = "loss", dpc.loss}) {
  %0 = dpc.reduce sum %x dims = [0, 1] : tensor<2x3xf32> -> tensor<f32>
  return %x, %0 : tensor<2x3xf32>, tensor<f32>
}

// -----

// expected-remark@+1 {{--loss=cross_entropy compares the output 'loss' with labels; if it is a loss, return its mean from the model instead}}
func.func @forward(%x: tensor<2x3xf32> {dpc.name = "x", dpc.role = "input"})
    -> (tensor<2x3xf32> {dpc.name = "loss"}) {
  return %x : tensor<2x3xf32>
}
