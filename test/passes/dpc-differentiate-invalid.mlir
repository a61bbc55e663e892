// RUN: dpc-opt %s --dpc-differentiate --split-input-file --verify-diagnostics
// RUN: not dpc-opt %s --dpc-differentiate="optimizer=lion" --split-input-file 2>&1 | FileCheck %s --check-prefix=KIND

// KIND: unknown optimizer 'lion': use adamw or sgd

// expected-error@+1 {{no result is marked as the loss: the model needs a scalar float output, or --loss to append a loss}}
func.func @forward(%w: tensor<4xf32> {dpc.role = "parameter"}) -> tensor<4xf32> {
  return %w : tensor<4xf32>
}

// -----

// expected-error@+1 {{the loss must be a float scalar, not 'tensor<4xf32>'}}
func.func @forward(%w: tensor<4xf32> {dpc.role = "parameter"}) -> (tensor<4xf32> {dpc.loss}) {
  return %w : tensor<4xf32>
}

// -----

// expected-warning@+2 {{parameter 'w' is not trained, but saved: the loss does not depend on it}}
// expected-error@+1 {{nothing to train: the loss depends on no parameter}}
func.func @forward(%w: tensor<f32> {dpc.name = "w", dpc.role = "parameter"}, %x: tensor<f32>) -> (tensor<f32> {dpc.loss}) {
  return %x : tensor<f32>
}

// -----

// expected-error@+1 {{nothing to train: all parameters are frozen, by --frozen or by requires_grad=False in the model}}
func.func @forward(%w: tensor<f32> {dpc.name = "w", dpc.role = "buffer", dpc.frozen}) -> (tensor<f32> {dpc.loss}) {
  return %w : tensor<f32>
}

// -----

// expected-error@+1 {{nothing to train: the model has no parameters}}
func.func @forward(%x: tensor<f32> {dpc.name = "x", dpc.role = "input"}) -> (tensor<f32> {dpc.loss}) {
  return %x : tensor<f32>
}

// -----

// expected-warning@+2 {{parameter 'w' is not trained, but saved: the loss does not depend on it}}
// expected-error@+1 {{nothing to train: detach or no_grad stops every gradient between the loss and any parameter that is not frozen}}
func.func @forward(%w: tensor<f32> {dpc.name = "w", dpc.role = "parameter"},
                   %f: tensor<f32> {dpc.name = "f", dpc.role = "buffer", dpc.frozen}) -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.convert %w {dpc.stop_gradient} : tensor<f32> -> tensor<f32>
  %1 = dpc.binary mul %0, %f : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-warning@+1 {{parameter 'unused' is not trained, but saved: the loss does not depend on it}}
func.func @forward(%w: tensor<f32> {dpc.name = "w", dpc.role = "parameter"},
                   %u: tensor<f32> {dpc.name = "unused", dpc.role = "parameter"}) -> (tensor<f32> {dpc.loss}) {
  return %w : tensor<f32>
}

// -----

// Through sign, floor and ceil, gradients are 0, so that only weight decay changes 's', 'f' and 'c'.

// expected-remark@+1 {{parameters 's', 'f', 'c' have the gradient 0, and change only by weight decay: the loss depends on them only through sign, round, floor, ceil or trunc}}
func.func @forward(%w: tensor<4xf32> {dpc.name = "w", dpc.role = "parameter"},
                   %s: tensor<4xf32> {dpc.name = "s", dpc.role = "parameter"},
                   %f: tensor<4xf32> {dpc.name = "f", dpc.role = "parameter"},
                   %c: tensor<4xf32> {dpc.name = "c", dpc.role = "parameter"}) -> (tensor<f32> {dpc.loss}) {
  %0 = dpc.unary sign %s : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.unary floor %f : tensor<4xf32> -> tensor<4xf32>
  %2 = dpc.unary ceil %c : tensor<4xf32> -> tensor<4xf32>
  %3 = dpc.binary mul %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = dpc.binary mul %3, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = dpc.binary mul %4, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = dpc.reduce sum %5 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %6 : tensor<f32>
}

// -----

func.func @forward(%w: tensor<4xf32> {dpc.role = "parameter"}) -> (tensor<f32> {dpc.loss}) {
  // expected-error@+1 {{unary gelu_grad has no gradient: it is a derivative itself}}
  %0 = dpc.unary gelu_grad %w : tensor<4xf32> -> tensor<4xf32>
  %1 = dpc.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-error@+1 {{argument 1 of @forward has role 'weight': expected parameter, buffer or input, or scalar if its name is 'step'}}
func.func @forward(%w: tensor<f32> {dpc.role = "parameter"}, %x: tensor<f32> {dpc.role = "weight"}) -> (tensor<f32> {dpc.loss}) {
  return %w : tensor<f32>
}

// -----

// expected-error@+1 {{no function @forward to differentiate}}
module {
}
