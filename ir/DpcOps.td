//===- DpcOps.td - Ops of the graph and sharded altitudes ------*- tablegen -*-===//
#ifndef DPC_OPS_TD
#define DPC_OPS_TD

include "ir/DpcOpBase.td"

def Dpc_ConstantOp : Dpc_Op<"constant", [ConstantLike, Dpc_KernelRole<"source">], computes = false> {
  let summary = "A tensor that is known at compile time.";
  let description = [{
    The value has no encoding, because attribute replacement does not reach inside
    dense elements. The result may have one.

    Example:

    ```mlir
    %0 = dpc.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) value and result have the same shape and element type;
    * (C2) the value has no encoding.
  }];
  let arguments = (ins ElementsAttr:$value);
  let assemblyFormat = "$value attr-dict `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    ::dpc::KernelRole getKernelRole();
  }];
}

def Dpc_IotaOp : Dpc_Op<"iota", [Dpc_KernelRole<"source">], computes = false> {
  let summary = "The index of every element along one dimension.";
  let description = [{
    Element (i0, .., in) is i_dim. At the local altitude, `global` is the sharded
    type. From it, each rank derives the first index of its shard.

    Example:

    ```mlir
    %0 = dpc.iota dim = 1 : tensor<4x8xi64>
    ```

    Constraints:
    * (C1) `dim` is a dimension of the result.
  }];
  let arguments = (ins I64Attr:$dim, OptionalAttr<TypeAttr>:$global);
  let assemblyFormat = "`dim` `=` $dim (`global` `=` $global^)? attr-dict `:` type($result)";
}

def Dpc_UnaryOp : Dpc_Op<"unary", [Dpc_KernelRole<"elementwise">]> {
  let summary = "An elementwise function of one operand.";
  let description = [{
    Kinds that end in `_grad` are derivatives f'(x). `gelu` is the form with erf,
    and `gelu_tanh` is the approximation with tanh.

    Example:

    ```mlir
    %1 = dpc.unary gelu %0 : tensor<4xf32> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operand and result have the same shape and element type.
  }];
  let arguments = (ins Dpc_UnaryKindAttr:$kind, Dpc_Tensor:$x);
  let assemblyFormat = "$kind $x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
  let extraClassDeclaration = [{
    bool isCheap();
  }];
}

def Dpc_BinaryOp : Dpc_Op<"binary", [Dpc_KernelRole<"elementwise">]> {
  let summary = "An elementwise function of two operands with equal types.";
  let description = [{
    Operands are not broadcast; `dpc.broadcast` does that. Integer `div` rounds
    toward zero.

    Example:

    ```mlir
    %2 = dpc.binary add %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operands and result have the same shape and element type.
  }];
  let arguments = (ins Dpc_BinaryKindAttr:$kind, Dpc_Tensor:$a, Dpc_Tensor:$b);
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
    * (C1) operands have the same shape and element type;
    * (C2) the result has the shape of the operands and elements of i1.
  }];
  let arguments = (ins Dpc_CompareKindAttr:$kind, Dpc_Tensor:$a, Dpc_Tensor:$b);
  let assemblyFormat = "$kind $a `,` $b attr-dict `:` functional-type(operands, results)";
}

def Dpc_SelectOp : Dpc_Op<"select", [Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Chooses each element from one of two tensors.";
  let description = [{
    Example:

    ```mlir
    %3 = dpc.select %c, %0, %1 : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    ```

    Constraints:
    * (C1) all shapes are equal, and the condition has elements of i1;
    * (C2) both choices and the result have the same element type.
  }];
  let arguments = (ins Dpc_Tensor:$condition, Dpc_Tensor:$onTrue, Dpc_Tensor:$onFalse);
  let assemblyFormat = [{
    $condition `,` $onTrue `,` $onFalse attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_ConvertOp : Dpc_Op<"convert", [Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Converts the element type.";
  let description = [{
    A conversion from float to integer rounds toward zero. A conversion to i1 is
    `x != 0`.

    Example:

    ```mlir
    %1 = dpc.convert %0 : tensor<4xi64> -> tensor<4xf32>
    ```

    Constraints:
    * (C1) operand and result have the same shape.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_BroadcastOp : Dpc_Op<"broadcast", [Dpc_KernelRole<"mover">], computes = false> {
  let summary = "Repeats a tensor along new dimensions and dimensions of size 1.";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]`, and is repeated if its
    size is 1. All other result dimensions are new.

    Example:

    ```mlir
    %1 = dpc.broadcast %0 dims = [2] : tensor<16xf32> -> tensor<2x8x16xf32>
    ```

    Constraints:
    * (C1) `dims` has one entry per operand dimension, strictly increasing;
    * (C2) operand dimension i is 1 or equals result dimension `dims[i]`;
    * (C3) operand and result have the same element type.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$x `dims` `=` $dims attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_ReshapeOp : Dpc_Op<"reshape", [Dpc_KernelRole<"mover">], computes = false> {
  let summary = "Gives the same elements, in row-major order, another shape.";
  let description = [{
    The sharding rule uses the common refinement of both shapes. So heads remain
    split through `[.., heads * head_dim] -> [.., heads, head_dim]`.

    Example:

    ```mlir
    %1 = dpc.reshape %0 : tensor<8x64xf32> -> tensor<8x4x16xf32>
    ```

    Constraints:
    * (C1) operand and result have the same number of elements and the same
      element type.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_TransposeOp : Dpc_Op<"transpose", [Dpc_KernelRole<"mover">], computes = false> {
  let summary = "Permutes dimensions.";
  let description = [{
    Result dimension i is operand dimension `perm[i]`.

    Example:

    ```mlir
    %1 = dpc.transpose %0 perm = [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
    ```

    Constraints:
    * (C1) `perm` is a permutation of the operand's dimensions, and the result has
      the permuted shape.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$perm);
  let assemblyFormat = "$x `perm` `=` $perm attr-dict `:` type($x) `->` type($result)";
  let hasFolder = 1;
}

def Dpc_SliceOp : Dpc_Op<"slice", [Dpc_KernelRole<"mover">], computes = false> {
  let summary = "A box of a tensor, with strides.";
  let description = [{
    Along each dimension, result element i is operand element
    `offset + i * stride`. A slice that takes one of n equal parts of a dimension,
    such as q, k or v, keeps shardings of the inner factor.

    Example:

    ```mlir
    %1 = dpc.slice %0 offsets = [0, 64] strides = [1, 1] : tensor<8x192xf32> -> tensor<8x64xf32>
    ```

    Constraints:
    * (C1) one offset and stride per dimension, offsets not negative, strides
      positive;
    * (C2) the last element that is read is inside the operand.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides);
  let assemblyFormat = [{
    $x `offsets` `=` $offsets `strides` `=` $strides attr-dict `:` type($x) `->` type($result)
  }];
  let hasFolder = 1;
}

def Dpc_PadOp : Dpc_Op<"pad", [Dpc_KernelRole<"elementwise">], computes = false> {
  let summary = "Places a tensor inside a larger one filled with zeros.";
  let description = [{
    Along each dimension, operand element i becomes result element
    `low + i * stride`. This is the adjoint of `dpc.slice`.

    Example:

    ```mlir
    %1 = dpc.pad %0 low = [0, 64] strides = [1, 1] : tensor<8x64xf32> -> tensor<8x192xf32>
    ```

    Constraints:
    * (C1) one `low` and stride per dimension, `low` not negative, strides
      positive;
    * (C2) the last element that is written is inside the result.
  }];
  let arguments = (ins Dpc_Tensor:$x, DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$strides);
  let assemblyFormat = [{
    $x `low` `=` $low `strides` `=` $strides attr-dict `:` type($x) `->` type($result)
  }];
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_ConcatOp : Dpc_Op<"concat", [Dpc_KernelRole<"elementwise">], computes = false> {
  let summary = "Joins tensors along one dimension.";
  let description = [{
    The sharding rule treats equal parts as an outer factor, so shardings inside a
    part remain.

    Example:

    ```mlir
    %2 = dpc.concat %0, %1 dim = 1 : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x128xf32>
    ```

    Constraints:
    * (C1) there is at least one operand, and the shapes are equal except along
      `dim`;
    * (C2) the sizes along `dim` sum to the size of the result.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$parts, I64Attr:$dim);
  let assemblyFormat = "$parts `dim` `=` $dim attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_ReduceOp : Dpc_Op<"reduce", [Dpc_KernelRole<"reduction">]> {
  let summary = "Combines all elements along some dimensions.";
  let description = [{
    The result does not have the reduced dimensions. A mean is a sum and a
    multiplication, so that shards of different sizes have the right weights.

    Example:

    ```mlir
    %1 = dpc.reduce sum %0 dims = [1] : tensor<8x64xf32> -> tensor<8xf32>
    ```

    Constraints:
    * (C1) `dims` are distinct dimensions of the operand, ascending;
    * (C2) the result has the remaining dimensions and the operand's element type.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Dpc_Tensor:$x, DenseI64ArrayAttr:$dims);
  let assemblyFormat = "$kind $x `dims` `=` $dims attr-dict `:` type($x) `->` type($result)";
}

def Dpc_MatmulOp : Dpc_Op<"matmul"> {
  let summary = "Matrix multiplication over the last two dimensions.";
  let description = [{
    `a` is [batch.., m, k] (`ta`: [batch.., k, m]); `b` is [batch.., k, n]
    (`tb`: [batch.., n, k]) with the same batch dimensions, or one matrix for all
    batches. Sums are in f32, or in f64 for f64.

    Example:

    ```mlir
    %2 = dpc.matmul %0, %1 tb : (tensor<8x32x64xf32>, tensor<192x64xf32>) -> tensor<8x32x192xf32>
    ```

    Constraints:
    * (C1) `a` has rank 2 or more, and `b` has rank 2 or the rank of `a`; `ta` with
      one matrix `b` for all batches requires an `a` of rank 2;
    * (C2) batch dimensions and contracted dimensions are equal;
    * (C3) the result is [batch.., m, n] of the same element type, or of f32 if
      that is bf16 or f16 (the sums are then not rounded).
  }];
  let arguments = (ins Dpc_Tensor:$a, Dpc_Tensor:$b, UnitAttr:$ta, UnitAttr:$tb);
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
    * (C1) operand and result have the same shape and element type; the rank is at
      least 1.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
}

def Dpc_SoftmaxGradOp : Dpc_Op<"softmax_grad", [Dpc_KernelRole<"row">]> {
  let summary = "The gradient of softmax, computed from its result.";
  let description = [{
    dx = y * (dy - sum(y * dy)), where the sum is along the last dimension.

    Example:

    ```mlir
    %2 = dpc.softmax_grad %y, %dy : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
    ```

    Constraints:
    * (C1) all shapes and element types are equal; the rank is at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$y, Dpc_Tensor:$dy);
  let results = (outs Dpc_Tensor:$dx);
  let assemblyFormat = "$y `,` $dy attr-dict `:` functional-type(operands, results)";
}

def Dpc_NormOp : Dpc_Op<"norm", [AttrSizedOperandSegments, Dpc_KernelRole<"row">]> {
  let summary = "Layer or RMS normalization over the last dimension.";
  let description = [{
    `layer`: y = (x - mean) * rstd * scale + bias with rstd = 1/sqrt(var + eps) and
    the biased variance. `rms`: y = x * rstd * scale with rstd = 1/sqrt(mean(x^2)
    + eps); its `mean` is zero and unused. The gradient reads `mean` and `rstd`.

    Example:

    ```mlir
    %y, %mean, %rstd = dpc.norm layer %x scale %w bias %b eps = 1.0e-5 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>)
    ```

    Constraints:
    * (C1) y has the shape and element type of x; scale and bias are floats of
      shape [last dimension of x];
    * (C2) mean and rstd have the shape of x without the last dimension and
      elements of f32, or of f64 if x has f64;
    * (C3) `rms` has no bias.
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
  let summary = "The gradients of dpc.norm.";
  let description = [{
    dscale and dbias are sums over all rows, so they are partial if rows are split.
    For `rms`, dbias is also the sum of dy, and usually unused.

    Example:

    ```mlir
    %dx, %dw, %db = dpc.norm_grad layer %x, %mean, %rstd, %dy scale %w : (tensor<8x64xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x64xf32>, tensor<64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) dx and dy have the shape and element type of x; scale, dscale and dbias
      are floats of shape [last dimension of x];
    * (C2) mean and rstd have the types that they have in `dpc.norm`.
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
  let summary = "Converts a value from one sharding to another.";
  let description = [{
    Both shardings have the same mesh. `dpc-shard` creates reshards, and
    `dpc-partition` replaces them by collectives.

    Example:

    ```mlir
    %1 = dpc.reshard %0 : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{tp}, {} ]>> -> tensor<8x4xf32, #dpc.sharding<#dpc.mesh<tp=2>, [{}, {} ]>>
    ```

    Constraints:
    * (C1) operand and result have the same shape and element type, and shardings
      of the same mesh;
    * (C2) the result is partial only over axes over which the operand is partial,
      and routed over all axes over which the operand is routed.
  }];
  let arguments = (ins Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // DPC_OPS_TD
