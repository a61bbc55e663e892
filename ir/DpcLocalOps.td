//===- DpcLocalOps.td - Ops of the local altitude --------------*- tablegen -*-===//
#ifndef DPC_LOCAL_OPS_TD
#define DPC_LOCAL_OPS_TD

include "ir/DpcOpBase.td"

// Collectives work on whole contiguous buffers: gathered pieces stand side by
// side in a new leading dimension. Ordinary transposes and reshapes around them
// put pieces where they belong, so that a communicator never sees a layout.

class Dpc_Collective<string mnemonic, list<Trait> traits = []>
    : Dpc_LocalOp<mnemonic, !listconcat(traits, [Dpc_CommunicationOpInterface,
          Dpc_CollectiveOpInterface])>;

def Dpc_AllReduceOp : Dpc_Collective<"all_reduce"> {
  let summary = "Combines equal-shaped buffers over the ranks of some axes.";
  let description = [{
    Variadic: one call carries a bucket of tensors. Made by `dpc-partition`,
    merged by `dpc-bucket-collectives`.

    Example:

    ```mlir
    %1 = dpc.all_reduce sum %0 axes = ["dp"] : (tensor<64xf32>) -> tensor<64xf32>
    ```

    Constraints:
    * (C1) result i has the type of operand i; all element types agree;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let assemblyFormat = [{
    $kind $inputs `axes` `=` $axes attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::all_reduce; }
    std::optional<::dpc::ReduceKind> getReduceKind() { return getKind(); }
  }];
}

def Dpc_AllGatherOp : Dpc_Collective<"all_gather"> {
  let summary = "Stacks the ranks' tensors in a new leading dimension.";
  let description = [{
    Variadic: one call carries a bucket of tensors, of any types. Made by
    `dpc-partition`, merged by `dpc-bucket-collectives`.

    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.all_gather %0 axes = ["tp"] : tensor<8x16xf32> -> tensor<4x8x16xf32>
    ```

    Constraints:
    * (C1) result i is [k, shape of operand i..] of its element type, as many
      results as operands, at least one;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let assemblyFormat = "$inputs `axes` `=` $axes attr-dict `:` type($inputs) `->` type($outputs)";
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::all_gather; }
    ::mlir::ValueRange getPayload() { return getOutputs(); }
    ::mlir::ValueRange getStacks() { return getOutputs(); }
  }];
}

def Dpc_ReduceScatterOp : Dpc_Collective<"reduce_scatter"> {
  let summary = "Combines stacks over ranks and keeps the own piece.";
  let description = [{
    Variadic as `all_gather` is.

    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.reduce_scatter sum %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) operand i is [k, shape of result i..] of its element type, as many
      results as operands, at least one; all element types agree;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let assemblyFormat = "$kind $inputs `axes` `=` $axes attr-dict `:` type($inputs) `->` type($outputs)";
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::reduce_scatter; }
    std::optional<::dpc::ReduceKind> getReduceKind() { return getKind(); }
    ::mlir::ValueRange getStacks() { return getInputs(); }
  }];
}

def Dpc_AllToAllOp : Dpc_Collective<"all_to_all"> {
  let summary = "Piece i of the stack goes to rank i.";
  let description = [{
    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.all_to_all %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    ```

    Constraints:
    * (C1) operand and result have one type of rank at least 1;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::all_to_all; }
    ::mlir::ValueRange getStacks() { return getOperation()->getOperands(); }
  }];
}

def Dpc_RingShiftOp : Dpc_Collective<"ring_shift"> {
  let summary = "Hands a tensor to the next rank along an axis.";
  let description = [{
    Rank i sends its operand to rank i + 1, the last to the first, and gets that
    of rank i - 1. Made by `dpc-expand-attention` where attention runs as a ring.

    Example:

    ```mlir
    %1 = dpc.ring_shift %0 axes = ["cp"] : tensor<8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) operand and result have one type;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::ring_shift; }
  }];
}

def Dpc_RankSliceOp : Dpc_LocalOp<"rank_slice", [Pure, Dpc_KernelRole<"alone">]> {
  let summary = "The piece of a stack that is this rank's own; no communication.";
  let description = [{
    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.rank_slice %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the operand is [k, result shape..] of the result's element type;
    * (C2) at least one axis, no repeated axis.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
}

def Dpc_MaskOp : Dpc_LocalOp<"mask", [Pure, Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Overwrites the padding of an uneven shard.";
  let description = [{
    Elements that lie beyond the global tensor become `value` (the neutral
    element of what follows). Padding may hold anything, NaN included, so this
    selects, it does not multiply. For integers -inf and +inf stand for the
    least and the greatest number of the element type.

    Example:

    ```mlir
    %1 = dpc.mask %0 value = 0.0 global = tensor<7x8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}, {} ]>> : tensor<2x8xf32> -> tensor<2x8xf32>
    ```

    Constraints:
    * (C1) operand and result have one type: the local type of `global`.
  }];
  let arguments = (ins Dpc_Tensor:$x, F64Attr:$value, TypeAttr:$global);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x `value` `=` $value `global` `=` $global attr-dict `:` type($x) `->` type($result)
  }];
}

def Dpc_AccumulateOp : Dpc_LocalOp<"accumulate", [Pure]> {
  let summary = "The sum of a value over all micro-batches of a step.";
  let description = [{
    Zero at the start of a step, adds its operand in every micro-batch; the
    result may be read in the update phase only. Made by `dpc-partition` where a
    value stops being partial over `mb`.

    Example:

    ```mlir
    %1 = dpc.accumulate sum %0 : tensor<64xf32> -> tensor<64xf32>
    ```

    Constraints:
    * (C1) operand and result have one type.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Dpc_Tensor:$x);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$kind $x attr-dict `:` type($x) `->` type($result)";
}

def Dpc_SumSquaresOp : Dpc_LocalOp<"sum_squares", [Pure, Dpc_KernelRole<"alone">]> {
  let summary = "Sum of squares of all elements of all operands.";
  let description = [{
    Accumulated in f64 across blocks of f32 sums. Made from `dpc.global_norm`.

    Example:

    ```mlir
    %1 = dpc.sum_squares %0, %2 : (tensor<64xf32>, tensor<8xf32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) float operands, at least one; the result is a float scalar.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Dpc_AttentionProbsOp : Dpc_LocalOp<"attention_probs", [Pure, Dpc_KernelRole<"alone">]> {
  let summary = "Row softmax of attention scores, with scale and masks.";
  let description = [{
    scores [B, H, T, S]. probs = softmax(scale * scores + mask) with causal
    s <= t + S - T; lse = log-sum-exp per row. Made from `dpc.attention` by
    `dpc-expand-attention`.

    Example:

    ```mlir
    %p, %lse = dpc.attention_probs %s scale = 0.25 causal : (tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>)
    ```

    Constraints:
    * (C1) probs has the scores' type; lse is [B, H, T];
    * (C2) each mask dimension is 1 or the scores', the last equal.
  }];
  let arguments = (ins Dpc_Tensor:$scores, Optional<Dpc_Tensor>:$mask, F64Attr:$scale,
                       UnitAttr:$causal);
  let results = (outs Dpc_Tensor:$probs, Dpc_Tensor:$lse);
  let assemblyFormat = [{
    $scores (`mask` $mask^)? `scale` `=` $scale (`causal` $causal^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_AttentionScoresGradOp : Dpc_LocalOp<"attention_scores_grad", [Pure, Dpc_KernelRole<"elementwise">]> {
  let summary = "Probabilities again and the gradient of the scaled scores.";
  let description = [{
    probs = exp(scale * scores + mask - lse) (causal as above), dscores =
    scale * probs * (dprobs - delta), delta = rowsum(dout * out) [B, H, T].

    Example:

    ```mlir
    %p, %ds = dpc.attention_scores_grad %s, %lse, %dp, %delta scale = 0.25 causal : (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>, tensor<8x4x32x32xf32>, tensor<8x4x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>)
    ```

    Constraints:
    * (C1) probs, dscores, dprobs have the scores' type; lse, delta [B, H, T].
  }];
  let arguments = (ins Dpc_Tensor:$scores, Dpc_Tensor:$lse, Dpc_Tensor:$dprobs, Dpc_Tensor:$delta,
                       Optional<Dpc_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Dpc_Tensor:$probs, Dpc_Tensor:$dscores);
  let assemblyFormat = [{
    $scores `,` $lse `,` $dprobs `,` $delta (`mask` $mask^)? `scale` `=` $scale
    (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_SendOp : Dpc_LocalOp<"send", [Dpc_CommunicationOpInterface]> {
  let summary = "Hands a value to another stage.";
  let description = [{
    The receiver is the rank whose coordinate along `pp` is `to` and that agrees
    in all others. It meets the `dpc.recv` with the same tag there, once per run
    of its phase. Sends are buffered: they wait for nobody. Made by
    `dpc-split-stages`.

    Example:

    ```mlir
    dpc.send %0 to = 1 tag = 7 : tensor<8x16xf32>
    ```

    Constraints:
    * (C1) `to` and `tag` are not negative.
  }];
  let arguments = (ins Dpc_Tensor:$value, I64Attr:$to, I64Attr:$tag);
  let assemblyFormat = "$value `to` `=` $to `tag` `=` $tag attr-dict `:` type($value)";
}

def Dpc_RecvOp : Dpc_LocalOp<"recv", [Dpc_CommunicationOpInterface]> {
  let summary = "Takes a value from another stage.";
  let description = [{
    The other end of `dpc.send`: `from` is the sender's coordinate along `pp`.
    Made by `dpc-split-stages`.

    Example:

    ```mlir
    %1 = dpc.recv from = 0 tag = 7 : tensor<8x16xf32>
    ```

    Constraints:
    * (C1) `from` and `tag` are not negative.
  }];
  let arguments = (ins I64Attr:$from, I64Attr:$tag);
  let results = (outs Dpc_Tensor:$value);
  let assemblyFormat = "`from` `=` $from `tag` `=` $tag attr-dict `:` type($value)";
}

def Dpc_StageValueOp : Dpc_LocalOp<"stage_value", [Pure]> {
  let summary = "The operand that belongs to the stage that runs this.";
  let description = [{
    Stage s of the pipeline takes operand s. Stands before an all-reduce over
    `pp`, to which every stage brings its own part. Made by `dpc-partition`,
    gone after `dpc-split-stages`.

    Example (two stages):

    ```mlir
    %2 = dpc.stage_value %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) at least one operand, all of the result's type.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$values);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = "$values attr-dict `:` functional-type(operands, results)";
}

def Dpc_FetchOp : Dpc_LocalOp<"fetch"> {
  let summary = "Brings an argument of another memory space to the device.";
  let description = [{
    An argument with `dpc.space` lies in host memory or on disk. What reads it
    reads what a fetch of it made, which lives as other values do: each fetch
    copies anew. Runs in the copy queue. Made by `dpc-offload`.

    Example:

    ```mlir
    %1 = dpc.fetch %arg0 : tensor<8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the operand is an argument of the function;
    * (C2) operand and result have one type.
  }];
  let arguments = (ins Dpc_Tensor:$source);
  let results = (outs Dpc_Tensor:$value);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($value)";
}

def Dpc_StoreOp : Dpc_LocalOp<"store"> {
  let summary = "Replaces what an argument of another memory space holds.";
  let description = [{
    The other direction of `dpc.fetch`; the result is the argument's next value,
    to be returned. Made by `dpc-offload`.

    Example:

    ```mlir
    %2 = dpc.store %1 into %arg0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the target is an argument of the function;
    * (C2) value, target and result have one type.
  }];
  let arguments = (ins Dpc_Tensor:$value, Dpc_Tensor:$target);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $value `into` $target attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_KernelOp : Dpc_LocalOp<"kernel", [IsolatedFromAbove, RecursiveMemoryEffects,
    SingleBlock]> {
  let summary = "Ops that become one generated kernel.";
  let description = [{
    The body's block arguments are the operands; `dpc.yield` returns what later
    ops read, so that values inside never reach memory. The body holds elementwise
    ops, sources and data movement, or one row op (softmax, norm, ..) with
    elementwise ops around it; or, with `dpc.epilogue`, a matmul and its
    epilogue (`dpc-fuse-epilogues`). Made by `dpc-form-kernels`; codegen
    compiles equal bodies once.

    Example:

    ```mlir
    %2 = dpc.kernel %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
      %s = dpc.binary add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %r = dpc.unary relu %s : tensor<4xf32> -> tensor<4xf32>
      dpc.yield %r : tensor<4xf32>
    }
    ```

    Constraints:
    * (C1) block arguments have the operands' types;
    * (C2) the yielded values have the result types.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $inputs attr-dict `:` functional-type(operands, results) $body
  }];
}

def Dpc_YieldOp : Op<Dpc_Dialect, "yield", [Pure, Terminator, ReturnLike,
    HasParent<"KernelOp">]> {
  let summary = "Ends the body of dpc.kernel.";
  let description = [{
    See `dpc.kernel`.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // DPC_LOCAL_OPS_TD
