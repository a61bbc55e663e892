//===- DpcOps.td - Ops of the graph and sharded altitudes ------*- tablegen -*-===//
#ifndef DPC_OPS_TD
#define DPC_OPS_TD

include "ir/DpcOpBase.td"

def Dpc_ConstantOp : Dpc_Op<"constant", [ConstantLike, Dpc_KernelRole<"source">]> {
  let summary = "A tensor known at compile time.";
  let description = [{
    The value never carries an encoding (attribute replacement does not reach
    inside dense elements); the result may.

    Example:

    ```mlir
    %0 = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) value and result agree in shape and element type;
    * (C2) the value has no encoding.
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::dpc::KernelRole getKernelRole();
  }];
}

def Dpc_IotaOp : Dpc_Op<"iota", [Dpc_KernelRole<"source">]> {
  let summary = "Counts along one dimension.";
  let description = [{
    Element (i0, .., in) is i_dim. At the local altitude `global` holds the
    sharded type, from which each rank knows where its shard begins.

    Example:

    ```mlir
    %0 = dpc.iota dim = 1 : tensor<4x8xi64>
    ```

    Constraints:
    * (C1) `dim` is a dimension of the result.
  }];
  let arguments = (ins I64Attr:$dim, OptionalAttr<TypeAttr>:$global);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "`dim` `=` $dim (`global` `=` $global^)? attr-dict `:` type($result)";
}

def Dpc_UnaryOp : Dpc_Op<"unary", [Dpc_KernelRole<"elementwise">]> {
  let summary = "An elementwise function of one operand.";
  let description = [{
    Kinds ending in `_grad` are derivatives f'(x). `gelu` is the erf form,
    `gelu_tanh` the tanh approximation.

    Example:

    ```mlir
    %1 = dpc.unary gelu %0 : tensor<4xf32> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operand and result agree in shape and element type.
  }];
  let arguments = (ins Dpc_UnaryKindAttr:$kind, Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$kind $x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    bool isCheap();
  }];
}

def Dpc_BinaryOp : Dpc_Op<"binary", [Dpc_KernelRole<"elementwise">]> {
  let summary = "An elementwise function of two operands of one shape.";
  let description = [{
    Broadcasting is explicit (`dpc.broadcast`). Integer `div` truncates.

    Example:

    ```mlir
    %2 = dpc.binary add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operands and result agree in shape and element type.
  }];
  let arguments = (ins Dpc_BinaryKindAttr:$kind, Dpc_Tensor:$a, Dpc_Tensor:$b);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$kind $a `,` $b attr-dict `:` functional-type(operands, results)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    bool isCheap();
  }];
}

def Dpc_CompareOp : Dpc_Op<"compare", [Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Compares two tensors element by element.";
  let description = [{
    Example:

    ```mlir
    %2 = dpc.compare ge %0, %1 : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi1>
    ```

    Constraints:
    * (C1) operands agree in shape and element type;
    * (C2) the result has their shape and elements of i1.
  }];
  let arguments = (ins Dpc_CompareKindAttr:$kind, Dpc_Tensor:$a, Dpc_Tensor:$b);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$kind $a `,` $b attr-dict `:` functional-type(operands, results)";
}

def Dpc_SelectOp : Dpc_Op<"select", [Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Takes each element from one of two tensors.";
  let description = [{
    Example:

    ```mlir
    %3 = dpc.select %c, %0, %1 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```

    Constraints:
    * (C1) all shapes agree and the condition has elements of i1;
    * (C2) both choices and the result have one element type.
  }];
  let arguments = (ins Dpc_Tensor:$condition, Dpc_Tensor:$onTrue, Dpc_Tensor:$onFalse);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $condition `,` $onTrue `,` $onFalse attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_ConvertOp : Dpc_Op<"convert", [Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Converts the element type.";
  let description = [{
    Float to integer truncates toward zero; to i1 means `!= 0`.

    Example:

    ```mlir
    %1 = dpc.convert %0 : tensor<4xi64> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operand and result have one shape.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_BroadcastOp : Dpc_Op<"broadcast", [Dpc_KernelRole<"mover">]> {
  let summary = "Repeats a tensor along new or unit dimensions.";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`; a unit dimension is
    repeated, all other result dimensions are new.

    Example:

    ```mlir
    %1 = dpc.broadcast %0 dims = [2] : tensor<16xf32> -> tensor<2x8x16xf32>
    ```

    Constraints:
    * (C1) `dims` has one entry per operand dimension, strictly increasing;
    * (C2) operand dimension i is 1 or equals result dimension `dims[i]`;
    * (C3) element types agree.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x `dims` `=` $dims attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_ReshapeOp : Dpc_Op<"reshape", [Dpc_KernelRole<"mover">]> {
  let summary = "Reads the same elements, in row-major order, under another shape.";
  let description = [{
    The sharding rule is written over the common refinement of both shapes, so
    heads stay split through `[.., heads * head_dim] -> [.., heads, head_dim]`.

    Example:

    ```mlir
    %1 = dpc.reshape %0 : tensor<8x64xf32> -> tensor<8x4x16xf32>
    ```

    Constraints:
    * (C1) both shapes have the same number of elements and element type.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_TransposeOp : Dpc_Op<"transpose", [Dpc_KernelRole<"mover">]> {
  let summary = "Permutes dimensions.";
  let description = [{
    Result dimension i is operand dimension `perm[i]`.

    Example:

    ```mlir
    %1 = dpc.transpose %0 perm = [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
    ```

    Constraints:
    * (C1) `perm` is a permutation and the result has the permuted shape.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$perm);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x `perm` `=` $perm attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_SliceOp : Dpc_Op<"slice", [Dpc_KernelRole<"mover">]> {
  let summary = "A box of a tensor, with steps.";
  let description = [{
    Result element i along a dimension is operand element
    `offset + i * stride`. A slice that takes one of n equal parts of a
    dimension (as splitting q, k, v does) keeps shardings on the inner factor.

    Example:

    ```mlir
    %1 = dpc.slice %0 offsets = [0, 64] strides = [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
    ```

    Constraints:
    * (C1) one offset and stride per dimension, offsets not negative, strides
      positive;
    * (C2) the last element taken lies inside the operand.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x `offsets` `=` $offsets `strides` `=` $strides attr-dict `:` type($x) `->` type($result)
  }];
  let hasFolder = 1;
}

def Dpc_PadOp : Dpc_Op<"pad", [Dpc_KernelRole<"elementwise">]> {
  let summary = "Places a tensor inside a larger one filled with zeros.";
  let description = [{
    Operand element i lands at `low + i * stride`. The transpose of
    `dpc.slice`.

    Example:

    ```mlir
    %1 = dpc.pad %0 low = [0, 64] strides = [1, 1] : tensor<8x64xf32> -> tensor<8x192xf32>
    ```

    Constraints:
    * (C1) one `low` and stride per dimension, `low` not negative, strides
      positive;
    * (C2) the last element placed lies inside the result.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$strides);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x `low` `=` $low `strides` `=` $strides attr-dict `:` type($x) `->` type($result)
  }];
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_ConcatOp : Dpc_Op<"concat", [Dpc_KernelRole<"elementwise">]> {
  let summary = "Joins tensors along one dimension.";
  let description = [{
    Parts of equal size are seen as an outer factor, so shardings inside a part
    survive.

    Example:

    ```mlir
    %2 = dpc.concat %0, %1 dim = 1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x128xf32>
    ```

    Constraints:
    * (C1) at least one operand, equal shapes but for `dim`;
    * (C2) the sizes along `dim` sum to the result's.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$parts, I64Attr:$dim);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$parts `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_ReduceOp : Dpc_Op<"reduce", [Dpc_KernelRole<"reduction">]> {
  let summary = "Combines all elements along some dimensions.";
  let description = [{
    The reduced dimensions are dropped. A mean is a sum and a multiplication, so
    that shards of unlike size weigh what they hold.

    Example:

    ```mlir
    %1 = dpc.reduce sum %0 dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
    ```

    Constraints:
    * (C1) `dims` are distinct dimensions of the operand, ascending;
    * (C2) the result has the remaining dimensions and the element type.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Dpc_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$kind $x `dims` `=` $dims attr-dict `:` type($x) `->` type($result)";
}

def Dpc_MatmulOp : Dpc_Op<"matmul"> {
  let summary = "Matrix product of the last two dimensions.";
  let description = [{
    `a` is [batch.., m, k] (`ta`: [batch.., k, m]); `b` is [batch.., k, n]
    (`tb`: [batch.., n, k]) with the same batch dimensions, or a plain matrix
    applied to every batch. Accumulates in f32 (f64 for f64).

    Example:

    ```mlir
    %2 = dpc.matmul %0, %1 tb : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
    ```

    Constraints:
    * (C1) `a` has rank 2 or more, `b` rank 2 or that of `a`; `ta` with a plain
      matrix `b` needs `a` of rank 2;
    * (C2) batch and contracted dimensions agree;
    * (C3) the result is [batch.., m, n] of the same element type, or of f32
      where that is bf16 or f16 (the sums as they are, not rounded).
  }];
  let arguments = (ins Dpc_Tensor:$a, Dpc_Tensor:$b, UnitAttr:$ta, UnitAttr:$tb);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b (`ta` $ta^)? (`tb` $tb^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_SoftmaxOp : Dpc_Op<"softmax", [Dpc_KernelRole<"row">]> {
  let summary = "Softmax along the last dimension.";
  let description = [{
    Example:

    ```mlir
    %1 = dpc.softmax %0 : tensor<8x64xf32> -> tensor<8x64xf32>
    ```

    Constraints:
    * (C1) operand and result agree in shape and element type, rank at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Dpc_SoftmaxGradOp : Dpc_Op<"softmax_grad", [Dpc_KernelRole<"row">]> {
  let summary = "Gradient of softmax from its result.";
  let description = [{
    dx = y * (dy - sum(y * dy)), sums along the last dimension.

    Example:

    ```mlir
    %2 = dpc.softmax_grad %y, %dy : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```

    Constraints:
    * (C1) all types agree, rank at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$y, Dpc_Tensor:$dy);
  let results = (outs Dpc_Tensor:$dx);
  let assemblyFormat = "$y `,` $dy attr-dict `:` functional-type(operands, results)";
}

def Dpc_NormOp : Dpc_Op<"norm", [AttrSizedOperandSegments, Dpc_KernelRole<"row">]> {
  let summary = "Layer or RMS normalization over the last dimension.";
  let description = [{
    `layer`: y = (x - mean) * rstd * scale + bias with rstd = 1/sqrt(var + eps)
    (biased variance). `rms`: y = x * rstd * scale with rstd = 1/sqrt(mean(x^2)
    + eps); its `mean` result is zero and unused. `mean` and `rstd` (f32) are
    kept for the gradient.

    Example:

    ```mlir
    %y, %mean, %rstd = dpc.norm layer %x scale %w bias %b eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    * (C1) y has x's type; scale and bias have shape [last dimension of x];
    * (C2) mean and rstd have x's shape without the last dimension, f32 (f64
      for f64);
    * (C3) `rms` takes no bias.
  }];
  let arguments = (ins Dpc_NormKindAttr:$kind, Dpc_Tensor:$x,
                       Optional<Dpc_Tensor>:$scale, Optional<Dpc_Tensor>:$bias,
                       F64Attr:$eps);
  let results = (outs Dpc_Tensor:$y, Dpc_Tensor:$mean, Dpc_Tensor:$rstd);
  let assemblyFormat = [{
    $kind $x (`scale` $scale^)? (`bias` $bias^)? `eps` `=` $eps attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_NormGradOp : Dpc_Op<"norm_grad", [Dpc_KernelRole<"row">]> {
  let summary = "Gradients of dpc.norm.";
  let description = [{
    dscale and dbias are sums over all rows, hence partial where rows are
    split. For `rms`, dbias is the sum of dy all the same and usually unused.

    Example:

    ```mlir
    %dx, %dw, %db = dpc.norm_grad layer %x, %mean, %rstd, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) dx and dy have x's type; scale, dscale, dbias have shape [last
      dimension of x];
    * (C2) mean and rstd have x's shape without the last dimension.
  }];
  let arguments = (ins Dpc_NormKindAttr:$kind, Dpc_Tensor:$x, Dpc_Tensor:$mean,
                       Dpc_Tensor:$rstd, Dpc_Tensor:$dy, Optional<Dpc_Tensor>:$scale);
  let results = (outs Dpc_Tensor:$dx, Dpc_Tensor:$dscale, Dpc_Tensor:$dbias);
  let assemblyFormat = [{
    $kind $x `,` $mean `,` $rstd `,` $dy (`scale` $scale^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_ReshardOp : Op<Dpc_Dialect, "reshard", [Pure]> {
  let summary = "Changes where a value lives, not what it is.";
  let description = [{
    Between two shardings of one mesh. Made by `dpc-shard`; removed by
    `dpc-partition`, which plans the collectives.

    Example:

    ```mlir
    %1 = dpc.reshard %0 : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {} ]>> -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {} ]>>
    ```

    Constraints:
    * (C1) operand and result have one shape and element type, both are encoded
      over one mesh;
    * (C2) the result is not partial over an axis over which the operand is not.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // DPC_OPS_TD
