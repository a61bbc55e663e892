//===- DpcSpatialOps.td - Convolution, pooling, batch norm -----*- tablegen -*-===//
//
// Ops of the graph and sharded altitudes on images, volumes and signals: tensors
// [N, C, spatial..] with any number of spatial dimensions.
//
// `strides`, `dilations` and `pads` define a *window*. `strides` and `dilations`
// have one entry per spatial dimension. `pads` has the padding before each spatial
// dimension, followed by the padding after each. Along one dimension with k taps,
//
//   out = (in + before + after - dilation * (k - 1) - 1) / stride + 1
//
// and tap j of window o reads position o * stride - before + j * dilation.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_SPATIAL_OPS_TD
#define DPC_SPATIAL_OPS_TD

include "ir/DpcOpBase.td"

/// A convolution or one of its gradients: two operands called `a` and `b`.
class Dpc_ConvLike<string mnemonic, string a, string b> : Dpc_Op<mnemonic> {
  let arguments = !dag(ins,
      [Dpc_Tensor, Dpc_Tensor, DenseI64ArrayAttr, DenseI64ArrayAttr, DenseI64ArrayAttr],
      [a, b, "strides", "pads", "dilations"]);
  let assemblyFormat = "$" # a # " `,` $" # b # [{ `strides` `=` $strides `pads` `=` $pads
    `dilations` `=` $dilations attr-dict `:` functional-type(operands, results)}];
}

def Dpc_ConvOp : Dpc_ConvLike<"conv", "x", "w"> {
  let summary = "Convolution (cross-correlation), grouped and dilated.";
  let description = [{
    x is [N, C, in..], w is [K, C / groups, taps..], and the result is [N, K, out..].
    Elements outside the image are zero. The shapes determine the number of groups,
    so that the part of a rank that holds some groups is also a conv. Sums are in
    f32, or in f64 for f64. An addition after the op adds a bias.

    Example:

    ```mlir
    %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    * (C1) all tensors have the same float type and the same rank, at least 3; per
      spatial dimension, there are one positive stride, one positive dilation and
      two pads of at least 0;
    * (C2) the channels of x are a multiple of the second dimension of w; the
      quotient is the number of groups, and the first dimension of w is a multiple
      of it;
    * (C3) the result is [N, K, out..], and each `out` is at least 1.
  }];
}

def Dpc_ConvGradInputOp : Dpc_ConvLike<"conv_grad_input", "dy", "w"> {
  let summary = "The gradient of dpc.conv with respect to x; a transposed convolution.";
  let description = [{
    dx[n, c, i..] is the sum of dy[n, k, o..] * w[k, c, j..] over all filters k of
    the group of c, and over all windows o and taps j that read position i. The
    shape of the result is that of x.

    Example:

    ```mlir
    %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) are those of the `dpc.conv` from dx and w to dy.
  }];
  let results = (outs Dpc_Tensor:$dx);
}

def Dpc_ConvGradFilterOp : Dpc_ConvLike<"conv_grad_filter", "dy", "x"> {
  let summary = "The gradient of dpc.conv with respect to w.";
  let description = [{
    dw[k, c, j..] is the sum of dy[n, k, o..] * x[n, c, i..] over all samples n, and
    over all windows o whose tap j reads position i. It is partial if the batch is
    split.

    Example:

    ```mlir
    %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) are those of the `dpc.conv` from x and dw to dy.
  }];
  let results = (outs Dpc_Tensor:$dw);
}

def Dpc_MaxPoolOp : Dpc_Op<"max_pool", [Dpc_KernelRole<"alone">]> {
  let summary = "The largest element of each window, and its position.";
  let description = [{
    `index` is the row-major position of the first largest element in the spatial
    dimensions of x. NaN is larger than all numbers. Frontends write average pooling
    as a dpc.conv with one group per channel.

    Example:

    ```mlir
    %y, %i = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x16x16x16xf32> -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>)
    ```

    Constraints:
    * (C1) x has float elements and rank 3 or more; per spatial dimension, there are
      one positive number of taps, one positive stride, one positive dilation and
      two pads of at least 0;
    * (C2) y is [N, C, out..] of the element type of x, and index has the same shape
      and elements of i32;
    * (C3) every window has a tap inside x.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads,
                       DenseI64ArrayAttr:$dilations);
  let results = (outs Dpc_Tensor:$y, Dpc_Tensor:$index);
  let assemblyFormat = [{
    $x `kernel` `=` $kernel `strides` `=` $strides `pads` `=` $pads
    `dilations` `=` $dilations attr-dict `:` type($x) `->` `(` type($y) `,` type($index) `)`
  }];
}

def Dpc_MaxPoolGradOp : Dpc_Op<"max_pool_grad", [Dpc_KernelRole<"alone">]> {
  let summary = "The gradient of dpc.max_pool.";
  let description = [{
    dx[n, c, i..] is the sum of dy[n, c, o..] over all windows o whose index is i.

    Example:

    ```mlir
    %dx = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) are those of the `dpc.max_pool` from dx to dy.
  }];
  let arguments = (ins Dpc_Tensor:$dy, Dpc_Tensor:$index,
                       DenseI64ArrayAttr:$kernel, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Dpc_Tensor:$dx);
  let assemblyFormat = [{
    $dy `,` $index `kernel` `=` $kernel `strides` `=` $strides `pads` `=` $pads
    `dilations` `=` $dilations attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_BatchNormOp : Dpc_Op<"batch_norm"> {
  let summary = "Batch normalization with the statistics of the current batch.";
  let description = [{
    y = (x - mean) / sqrt(var + eps) * scale + bias. mean and the biased var are
    statistics of a channel over the whole batch, even if the batch is split.
    Frontends create the op, and `dpc-expand-batch-norm` replaces it by reductions,
    which may be split. Normalization with running statistics is elementwise, so
    frontends write it with primitive ops.

    Example:

    ```mlir
    %y, %mean, %var = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints:
    * (C1) x has float elements and rank 2 or more, and y has its shape and element
      type;
    * (C2) scale and bias are [C] of the element type of x;
    * (C3) mean and var are [C] of f32, or of f64 if x has f64.
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$scale, Dpc_Tensor:$bias,
                       F64Attr:$eps);
  let results = (outs Dpc_Tensor:$y, Dpc_Tensor:$mean, Dpc_Tensor:$var);
  let assemblyFormat = [{
    $x `,` $scale `,` $bias `eps` `=` $eps attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_BatchNormGradOp : Dpc_Op<"batch_norm_grad"> {
  let summary = "The gradients of dpc.batch_norm.";
  let description = [{
    Let n be the number of elements of a channel, r = 1 / sqrt(var + eps) and
    z = (x - mean) r. Then dbias = sum(dy), dscale = sum(dy z), and
    dx = scale r (dy - dbias / n - z dscale / n). mean and var are results of the
    `dpc.batch_norm`. `dpc-expand-batch-norm` replaces the op.

    Example:

    ```mlir
    %dx, %ds, %db = dpc.batch_norm_grad %x, %mean, %var, %dy, %s eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8x16x4x4xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints:
    * (C1) x has float elements and rank 2 or more, and dy and dx have its shape and
      element type;
    * (C2) scale, dscale and dbias are [C] of the element type of x;
    * (C3) mean and var are [C] of f32, or of f64 if x has f64.
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$mean, Dpc_Tensor:$var,
                       Dpc_Tensor:$dy, Dpc_Tensor:$scale, F64Attr:$eps);
  let results = (outs Dpc_Tensor:$dx, Dpc_Tensor:$dscale, Dpc_Tensor:$dbias);
  let assemblyFormat = [{
    $x `,` $mean `,` $var `,` $dy `,` $scale `eps` `=` $eps attr-dict
    `:` functional-type(operands, results)
  }];
}

#endif // DPC_SPATIAL_OPS_TD
