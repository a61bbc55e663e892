// The verifiers reject convolutions, pools and batch norms that violate a constraint.
//
// RUN: dpc-opt %s --split-input-file --verify-diagnostics

func.func @conv_of_integers(%x: tensor<8x4x9x9xi32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) x has element type 'i32', expected a float}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xi32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_of_a_matrix(%x: tensor<8x4xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) x has rank 2, expected at least 3}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_by_a_filter_of_another_rank(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) w has rank 3, expected 4}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_by_another_type(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf64>) {
  // expected-error @below {{'dpc.conv' op (C1) w has element type 'f64', expected 'f32'}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf64>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_without_a_stride(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) strides has 1 entries, expected 2}}
  %0 = dpc.conv %x, %w strides = [2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_that_stands_still(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) strides holds 0, expected at least 1}}
  %0 = dpc.conv %x, %w strides = [2, 0] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_without_dilation(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) dilations holds 0, expected at least 1}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [0, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_with_two_pads(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C1) pads has 2 entries, expected 4}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_of_odd_channels(%x: tensor<8x5x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C2) x has 5 channels, no multiple of w's 2}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x5x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_of_odd_filters(%x: tensor<8x4x9x9xf32>, %w: tensor<5x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C2) w has 5 filters, no multiple of 2 groups}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<5x2x3x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_of_too_small_an_image(%x: tensor<8x4x3x9xf32>, %w: tensor<6x2x7x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C3) 7 taps do not fit into 3 elements and their padding}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x3x9xf32>, tensor<6x2x7x3xf32>) -> tensor<8x6x5x5xf32>
  return
}

// -----

func.func @conv_of_another_result(%x: tensor<8x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv' op (C3) result has shape 8x6x4x5, expected 8x6x5x5}}
  %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<8x6x4x5xf32>
  return
}

// -----

func.func @conv_grad_input_of_another_type(%dy: tensor<8x6x5x5xf64>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv_grad_input' op (C1) dy has element type 'f64', expected 'f32'}}
  %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf64>, tensor<6x2x3x3xf32>) -> tensor<8x4x9x9xf32>
  return
}

// -----

func.func @conv_grad_input_of_odd_channels(%dy: tensor<8x6x5x5xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv_grad_input' op (C2) dx has 5 channels, no multiple of w's 2}}
  %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf32>, tensor<6x2x3x3xf32>) -> tensor<8x5x9x9xf32>
  return
}

// -----

func.func @conv_grad_input_of_another_image(%dy: tensor<8x6x5x5xf32>, %w: tensor<6x2x3x3xf32>) {
  // expected-error @below {{'dpc.conv_grad_input' op (C3) dy has shape 8x6x5x5, expected 8x6x6x5}}
  %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf32>, tensor<6x2x3x3xf32>) -> tensor<8x4x11x9xf32>
  return
}

// -----

func.func @conv_grad_filter_of_another_rank(%dy: tensor<8x6x5x5xf32>, %x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.conv_grad_filter' op (C1) dw has rank 3, expected 4}}
  %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf32>, tensor<8x4x9x9xf32>) -> tensor<6x2x3xf32>
  return
}

// -----

func.func @conv_grad_filter_of_odd_filters(%dy: tensor<8x6x5x5xf32>, %x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.conv_grad_filter' op (C2) dw has 5 filters, no multiple of 2 groups}}
  %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf32>, tensor<8x4x9x9xf32>) -> tensor<5x2x3x3xf32>
  return
}

// -----

func.func @conv_grad_filter_of_other_taps(%dy: tensor<8x6x5x5xf32>, %x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.conv_grad_filter' op (C3) dy has shape 8x6x5x5, expected 8x6x4x5}}
  %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x6x5x5xf32>, tensor<8x4x9x9xf32>) -> tensor<6x2x5x3xf32>
  return
}

// -----

func.func @max_pool_of_integers(%x: tensor<8x4x9x9xi32>) {
  // expected-error @below {{'dpc.max_pool' op (C1) x has element type 'i32', expected a float}}
  %0:2 = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xi32> -> (tensor<8x4x5x5xf32>, tensor<8x4x5x5xi32>)
  return
}

// -----

func.func @max_pool_of_no_taps(%x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.max_pool' op (C1) kernel holds 0, expected at least 1}}
  %0:2 = dpc.max_pool %x kernel = [0, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xf32> -> (tensor<8x4x5x5xf32>, tensor<8x4x5x5xi32>)
  return
}

// -----

func.func @max_pool_of_negative_pads(%x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.max_pool' op (C1) pads holds -1, expected at least 0}}
  %0:2 = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, -1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xf32> -> (tensor<8x4x5x5xf32>, tensor<8x4x5x5xi32>)
  return
}

// -----

func.func @max_pool_of_another_result(%x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.max_pool' op (C2) y has shape 8x4x4x5, expected 8x4x5x5}}
  %0:2 = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xf32> -> (tensor<8x4x4x5xf32>, tensor<8x4x5x5xi32>)
  return
}

// -----

func.func @max_pool_counts_in_i32(%x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.max_pool' op (C2) index has element type 'i64', expected 'i32'}}
  %0:2 = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xf32> -> (tensor<8x4x5x5xf32>, tensor<8x4x5x5xi64>)
  return
}

// -----

func.func @max_pool_of_padding(%x: tensor<8x4x9x9xf32>) {
  // expected-error @below {{'dpc.max_pool' op (C3) a window of spatial dimension 0 lies in the padding only}}
  %0:2 = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [3, 1, 1, 1] dilations = [1, 1] : tensor<8x4x9x9xf32> -> (tensor<8x4x6x5xf32>, tensor<8x4x6x5xi32>)
  return
}

// -----

func.func @max_pool_grad_without_strides(%dy: tensor<8x4x5x5xf32>, %i: tensor<8x4x5x5xi32>) {
  // expected-error @below {{'dpc.max_pool_grad' op (C1) strides has 0 entries, expected 2}}
  %0 = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x5x5xf32>, tensor<8x4x5x5xi32>) -> tensor<8x4x9x9xf32>
  return
}

// -----

func.func @max_pool_grad_of_another_shape(%dy: tensor<8x4x4x5xf32>, %i: tensor<8x4x5x5xi32>) {
  // expected-error @below {{'dpc.max_pool_grad' op (C2) dy has shape 8x4x4x5, expected 8x4x5x5}}
  %0 = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x4x5xf32>, tensor<8x4x5x5xi32>) -> tensor<8x4x9x9xf32>
  return
}

// -----

func.func @max_pool_grad_of_padding(%dy: tensor<8x4x6x5xf32>, %i: tensor<8x4x6x5xi32>) {
  // expected-error @below {{'dpc.max_pool_grad' op (C3) a window of spatial dimension 0 lies in the padding only}}
  %0 = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [2, 2] pads = [3, 1, 1, 1] dilations = [1, 1] : (tensor<8x4x6x5xf32>, tensor<8x4x6x5xi32>) -> tensor<8x4x9x9xf32>
  return
}

// -----

func.func @batch_norm_of_a_vector(%x: tensor<8xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.batch_norm' op (C1) x has rank 1, expected at least 2}}
  %0:3 = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_keeps_the_shape(%x: tensor<8x4x9x9xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.batch_norm' op (C1) y has shape 8x4x9x8, expected 8x4x9x9}}
  %0:3 = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x9x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_scales_channels(%x: tensor<8x4x9x9xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{'dpc.batch_norm' op (C2) scale has shape 8, expected 4}}
  %0:3 = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_has_a_mean_per_channel(%x: tensor<8x4x9x9xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) {
  // expected-error @below {{'dpc.batch_norm' op (C3) mean has shape 8, expected 4}}
  %0:3 = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<8x4x9x9xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @batch_norm_grad_keeps_the_shape(%x: tensor<8x4x9x9xf32>, %m: tensor<4xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{'dpc.batch_norm_grad' op (C1) dx has shape 8x4x9x8, expected 8x4x9x9}}
  %0:3 = dpc.batch_norm_grad %x, %m, %m, %x, %s eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4x9x9xf32>, tensor<4xf32>) -> (tensor<8x4x9x8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @batch_norm_grad_scales_channels(%x: tensor<8x4x9x9xf32>, %m: tensor<4xf32>, %s: tensor<8xf32>) {
  // expected-error @below {{'dpc.batch_norm_grad' op (C2) scale has shape 8, expected 4}}
  %0:3 = dpc.batch_norm_grad %x, %m, %m, %x, %s eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4x9x9xf32>, tensor<8xf32>) -> (tensor<8x4x9x9xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @batch_norm_grad_reads_a_mean_per_channel(%x: tensor<8x4x9x9xf32>, %m: tensor<8xf32>, %s: tensor<4xf32>) {
  // expected-error @below {{'dpc.batch_norm_grad' op (C3) mean has shape 8, expected 4}}
  %0:3 = dpc.batch_norm_grad %x, %m, %m, %x, %s eps = 1.0e-5 : (tensor<8x4x9x9xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x4x9x9xf32>, tensor<4xf32>) -> (tensor<8x4x9x9xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
