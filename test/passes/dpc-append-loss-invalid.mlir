// RUN: dpc-opt %s --dpc-append-loss --split-input-file --verify-diagnostics
// RUN: not dpc-opt %s --dpc-append-loss="loss=hinge" --split-input-file 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not dpc-opt %s --dpc-append-loss="output=z" --split-input-file 2>&1 | FileCheck %s --check-prefix=NAME

// KIND: unknown loss 'hinge': use cross_entropy or mse
// NAME: no float output is called 'z'; there are 'a', 'b'

// expected-error@+1 {{several outputs can carry the loss: 'a', 'b'; choose one with --loss=cross_entropy:NAME}}
func.func @forward(%x: tensor<4x8xf32>)
    -> (tensor<4x8xf32> {dpc.name = "a"}, tensor<4x8xf32> {dpc.name = "b"}) {
  return %x, %x : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// expected-error@+1 {{no output can carry a loss: none is a tensor of floats with at least one dimension}}
func.func @forward(%x: tensor<4xi64>) -> tensor<4xi64> {
  return %x : tensor<4xi64>
}

// -----

// expected-error@+1 {{output 'x' [4] has no dimension of classes; cross_entropy needs [.., classes]}}
func.func @forward(%x: tensor<4xf32>) -> (tensor<4xf32> {dpc.name = "x"}) {
  return %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{output 'x' [4, 1] has 1 class, so that cross_entropy is always 0; it needs at least 2 classes in the last dimension}}
func.func @forward(%x: tensor<4x1xf32>) -> (tensor<4x1xf32> {dpc.name = "x"}) {
  return %x : tensor<4x1xf32>
}

// -----

// The next value of the buffer 'b' is no output.

// expected-error@+1 {{no output can carry a loss: none is a tensor of floats with at least one dimension}}
func.func @forward(%b: tensor<4x8xf32> {dpc.name = "b", dpc.role = "buffer"})
    -> (tensor<4x8xf32> {dpc.name = "b", dpc.ties = 0 : i64}) {
  return %b : tensor<4x8xf32>
}

// -----

// expected-error@+1 {{--loss=cross_entropy adds an input 'labels', but the model has one of this name: rename it in the model, or train a loss that the model computes (--loss-output=NAME)}}
func.func @forward(%x: tensor<4x8xf32> {dpc.name = "labels", dpc.role = "input"}) -> (tensor<4x8xf32> {dpc.name = "x"}) {
  return %x : tensor<4x8xf32>
}

// -----

// expected-error@+1 {{no function @forward to append a loss to}}
module {
  func.func @main(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    return %x : tensor<4x8xf32>
  }
}
