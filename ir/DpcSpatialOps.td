//===- DpcSpatialOps.td - Convolution, pooling, batch norm -----*- tablegen -*-===//
//
// Ops of the graph and sharded altitudes over images, volumes and signals:
// tensors [N, C, spatial..] of any number of spatial dimensions.
//
// A *window* is given by `strides`, `dilations` (one per spatial dimension) and
// `pads`: what is added before each spatial dimension, then what is added
// behind each. Along one dimension, with `k` taps,
//
//   out = (in + before + behind - dilation * (k - 1) - 1) / stride + 1
//
// and tap j of window o reads position o * stride - before + j * dilation.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_SPATIAL_OPS_TD
#define DPC_SPATIAL_OPS_TD

include "ir/DpcOpBase.td"

def Dpc_ConvOp : Dpc_Op<"conv"> {
  let summary = "Convolution (cross-correlation), grouped and dilated.";
  let description = [{
    x [N, C, in..], w [K, C / groups, taps..], result [N, K, out..]; channels
    outside the image are zero. The number of groups follows from the shapes,
    so that a rank's share of the groups is again a conv. Accumulates in f32
    (f64 for f64). A bias is an addition behind it.

    Example:

    ```mlir
    %0 = dpc.conv %x, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x3x32x32xf32>, tensor<16x3x3x3xf32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    * (C1) all of one float type and one rank, at least 3, with one positive
      stride and dilation and two pads, not negative, per spatial dimension;
    * (C2) x's channels are a multiple of w's second dimension, w's first of
      the number of groups that this gives;
    * (C3) the result is [N, K, out..], each `out` at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x `,` $w `strides` `=` $strides `pads` `=` $pads `dilations` `=` $dilations
    attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_ConvGradInputOp : Dpc_Op<"conv_grad_input"> {
  let summary = "Gradient of dpc.conv in x; a transposed convolution.";
  let description = [{
    dx[n, c, i..] = sum of dy[n, k, o..] * w[k, c, j..] over all k of c's group
    and all taps j of windows o that read position i. The shape of x is the
    result's.

    Example:

    ```mlir
    %0 = dpc.conv_grad_input %dy, %w strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<16x3x3x3xf32>) -> tensor<8x3x32x32xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) as of the dpc.conv from the result's type to dy's.
  }];
  let arguments = (ins Dpc_Tensor:$dy, Dpc_Tensor:$w, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Dpc_Tensor:$dx);
  let assemblyFormat = [{
    $dy `,` $w `strides` `=` $strides `pads` `=` $pads `dilations` `=` $dilations
    attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_ConvGradFilterOp : Dpc_Op<"conv_grad_filter"> {
  let summary = "Gradient of dpc.conv in w.";
  let description = [{
    dw[k, c, j..] = sum of dy[n, k, o..] * x[n, c, i..] over n and all windows o
    whose tap j reads position i; partial where the batch is split.

    Example:

    ```mlir
    %0 = dpc.conv_grad_filter %dy, %x strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x16x16xf32>, tensor<8x3x32x32xf32>) -> tensor<16x3x3x3xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) as of the dpc.conv of x and the result's type to dy's.
  }];
  let arguments = (ins Dpc_Tensor:$dy, Dpc_Tensor:$x, DenseI64ArrayAttr:$strides,
                       DenseI64ArrayAttr:$pads, DenseI64ArrayAttr:$dilations);
  let results = (outs Dpc_Tensor:$dw);
  let assemblyFormat = [{
    $dy `,` $x `strides` `=` $strides `pads` `=` $pads `dilations` `=` $dilations
    attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_MaxPoolOp : Dpc_Op<"max_pool", [Dpc_KernelRole<"alone">]> {
  let summary = "The largest element of each window, and where it is.";
  let description = [{
    `index` is the row-major position of the first largest element within the
    input's spatial dimensions; NaN is larger than everything. An average over
    windows is a dpc.conv with one group per channel.

    Example:

    ```mlir
    %y, %i = dpc.max_pool %x kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : tensor<8x16x16x16xf32> -> (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>)
    ```

    Constraints:
    * (C1) x is of floats and rank 3 or more, with one positive tap count,
      stride and dilation and two pads, not negative, per spatial dimension;
    * (C2) y is [N, C, out..] of x's element type, index the same of i32;
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
  let summary = "Gradient of dpc.max_pool.";
  let description = [{
    dx[n, c, i..] = sum of dy[n, c, o..] over the windows o whose index is i.

    Example:

    ```mlir
    %dx = dpc.max_pool_grad %dy, %i kernel = [3, 3] strides = [2, 2] pads = [1, 1, 1, 1] dilations = [1, 1] : (tensor<8x16x8x8xf32>, tensor<8x16x8x8xi32>) -> tensor<8x16x16x16xf32>
    ```

    Constraints:
    * (C1), (C2), (C3) as of the dpc.max_pool from the result's type to dy's.
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
  let summary = "Batch normalization by the statistics of its own batch.";
  let description = [{
    y = (x - mean) / sqrt(var + eps) * scale + bias, where mean and var (biased)
    are taken per channel over the whole batch, whatever it is split over. Made
    by frontends; `dpc-expand-batch-norm` replaces it by reductions, which
    shardings then split. (With running statistics it is elementwise and needs
    no op of its own.)

    Example:

    ```mlir
    %y, %mean, %var = dpc.batch_norm %x, %s, %b eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints:
    * (C1) x is of floats and rank 2 or more, y has its type;
    * (C2) scale and bias are [C] of x's element type;
    * (C3) mean and var are [C], f32 (f64 for f64).
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
  let summary = "Gradients of dpc.batch_norm.";
  let description = [{
    With n elements per channel, r = 1 / sqrt(var + eps) and z = (x - mean) r:
    dbias = sum(dy), dscale = sum(dy z), dx = scale r (dy - dbias / n -
    z dscale / n). mean and var are results of the dpc.batch_norm. Removed by
    `dpc-expand-batch-norm`.

    Example:

    ```mlir
    %dx, %ds, %db = dpc.batch_norm_grad %x, %mean, %var, %dy, %s eps = 1.0e-5 : (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>, tensor<8x16x4x4xf32>, tensor<16xf32>) -> (tensor<8x16x4x4xf32>, tensor<16xf32>, tensor<16xf32>)
    ```

    Constraints:
    * (C1) x is of floats and rank 2 or more, dy and dx have its type;
    * (C2) scale, dscale and dbias are [C] of x's element type;
    * (C3) mean and var are [C], f32 (f64 for f64).
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
