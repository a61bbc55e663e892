//===- DpcLocalOps.td - Ops of the local altitude --------------*- tablegen -*-===//
#ifndef DPC_LOCAL_OPS_TD
#define DPC_LOCAL_OPS_TD

include "ir/DpcOpBase.td"

/// A collective works on contiguous buffers: the buffers of all ranks are a
/// *stack*, whose leading dimension counts the ranks. Transposes and reshapes
/// around the collective rearrange the shards, so communicators need not know
/// how tensors are split.
class Dpc_Collective<string mnemonic, string methods = "">
    : Dpc_LocalOp<mnemonic, [Dpc_CommunicationOpInterface, Dpc_CollectiveOpInterface],
                  computes = false> {
  let extraClassDeclaration = [{
    ::dpc::CollectiveKind getCollectiveKind() { return ::dpc::CollectiveKind::}] # mnemonic # [{; }
  }] # methods;
}

/// A collective that communicates a bucket of several tensors in one call.
class Dpc_BucketCollective<string mnemonic, string methods>
    : Dpc_Collective<mnemonic, methods> {
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
}

// Defines getReduceKind() for collectives that reduce.
defvar getReduceKind = "std::optional<::dpc::ReduceKind> getReduceKind() { return getKind(); }";

def Dpc_AllReduceOp : Dpc_BucketCollective<"all_reduce", getReduceKind> {
  let summary = "Combines the buffers of the ranks of some axes.";
  let description = [{
    One call communicates a bucket of tensors. `dpc-partition` creates the op, and
    `dpc-bucket-collectives` merges several.

    Example:

    ```mlir
    %1 = dpc.all_reduce sum %0 axes = ["dp"] : (tensor<64xf32>) -> tensor<64xf32>
    ```

    Constraints:
    * (C1) there are as many results as operands, at least one, result i has the
      type of operand i, and all element types are equal;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let assemblyFormat = [{
    $kind $inputs `axes` `=` $axes attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_AllGatherOp : Dpc_BucketCollective<"all_gather", [{
    ::mlir::ValueRange getPayload() { return getOutputs(); }
    ::mlir::ValueRange getStacks() { return getOutputs(); }
  }]> {
  let summary = "Stacks the tensors of the ranks in a new leading dimension.";
  let description = [{
    One call communicates a bucket of tensors of any types. `dpc-partition` creates
    the op, and `dpc-bucket-collectives` merges several.

    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.all_gather %0 axes = ["tp"] : tensor<8x16xf32> -> tensor<4x8x16xf32>
    ```

    Constraints:
    * (C1) there are as many results as operands, at least one, and result i is
      [k, shape of operand i..] of the operand's element type;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let assemblyFormat = "$inputs `axes` `=` $axes attr-dict `:` type($inputs) `->` type($outputs)";
}

def Dpc_ReduceScatterOp : Dpc_BucketCollective<"reduce_scatter", getReduceKind # [{
    ::mlir::ValueRange getStacks() { return getInputs(); }
  }]> {
  let summary = "Combines the stacks of the ranks; every rank keeps its part.";
  let description = [{
    One call communicates a bucket of tensors, as in `dpc.all_gather`.

    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.reduce_scatter sum %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) there are as many results as operands, at least one, operand i is
      [k, shape of result i..] of the result's element type, and all element types
      are equal;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Variadic<Dpc_Tensor>:$inputs, StrArrayAttr:$axes);
  let assemblyFormat = "$kind $inputs `axes` `=` $axes attr-dict `:` type($inputs) `->` type($outputs)";
}

def Dpc_AllToAllOp : Dpc_Collective<"all_to_all", [{
    ::mlir::ValueRange getStacks() { return getOperation()->getOperands(); }
  }]> {
  let summary = "Sends part i of the stack to rank i.";
  let description = [{
    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.all_to_all %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<4x8x16xf32>
    ```

    Constraints:
    * (C1) operand and result have the same type, of rank at least 1;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
}

def Dpc_RingShiftOp : Dpc_Collective<"ring_shift"> {
  let summary = "Sends a tensor to the next rank along an axis.";
  let description = [{
    Rank i sends its operand to rank i + 1, and the last rank sends to the first.
    The result is the operand of rank i - 1. `dpc-expand-attention` creates the op
    if attention runs as a ring.

    Example:

    ```mlir
    %1 = dpc.ring_shift %0 axes = ["cp"] : tensor<8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) operand and result have the same type;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
}

def Dpc_RankSliceOp : Dpc_LocalOp<"rank_slice", [Pure, Dpc_KernelRole<"alone">], computes = false> {
  let summary = "The rank's own part of a stack. It needs no communication.";
  let description = [{
    Example (4 ranks on tp):

    ```mlir
    %1 = dpc.rank_slice %0 axes = ["tp"] : tensor<4x8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the operand is [k, shape of the result..] of the result's element type;
    * (C2) there is at least one axis, and no axis is repeated.
  }];
  let arguments = (ins Dpc_Tensor:$input, StrArrayAttr:$axes);
  let results = (outs Dpc_Tensor:$output);
  let assemblyFormat = "$input `axes` `=` $axes attr-dict `:` type($input) `->` type($output)";
}

def Dpc_MaskOp : Dpc_LocalOp<"mask", [Pure, Dpc_KernelRole<"elementwise", "true">]> {
  let summary = "Overwrites the padding of an uneven shard.";
  let description = [{
    Elements outside the global tensor become `value`, the neutral element of the
    reduction that reads them. Padding may be NaN, so the op selects instead of
    multiplying by zero. For integers, a `value` of -inf or +inf means the smallest
    or the largest number of the element type.

    Example:

    ```mlir
    %1 = dpc.mask %0 value = 0.0 global = tensor<7x8xf32, #dpc.sharding<#dpc.mesh<dp=4>, [{dp}, {} ]>> : tensor<2x8xf32> -> tensor<2x8xf32>
    ```

    Constraints:
    * (C1) operand and result have the local type of `global`, a sharded type.
  }];
  let arguments = (ins Dpc_Tensor:$x, F64Attr:$value, TypeAttr:$global);
  let assemblyFormat = [{
    $x `value` `=` $value `global` `=` $global attr-dict `:` type($x) `->` type($result)
  }];
}

def Dpc_AccumulateOp : Dpc_LocalOp<"accumulate", [Pure]> {
  let summary = "Combines the values of all micro-batches of a step.";
  let description = [{
    The result starts as the neutral element (zero for `sum`), and every
    micro-batch combines its operand into it. Only the update phase may read the
    result. `dpc-partition` creates the op for a reshard of a value that is partial
    over `mb`.

    Example:

    ```mlir
    %1 = dpc.accumulate sum %0 : tensor<64xf32> -> tensor<64xf32>
    ```

    Constraints:
    * (C1) operand and result have the same type.
  }];
  let arguments = (ins Dpc_ReduceKindAttr:$kind, Dpc_Tensor:$x);
  let assemblyFormat = "$kind $x attr-dict `:` type($x) `->` type($result)";
}

def Dpc_SumSquaresOp : Dpc_LocalOp<"sum_squares", [Pure, Dpc_KernelRole<"alone">]> {
  let summary = "The sum of squares of all elements of all operands.";
  let description = [{
    Blocks are summed in f32, and the sums of blocks in f64. `dpc-partition` creates
    the op from `dpc.global_norm`.

    Example:

    ```mlir
    %1 = dpc.sum_squares %0, %2 : (tensor<64xf32>, tensor<8xf32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) there is at least one operand, all operands are floats, and the result is
      a float scalar.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Dpc_AttentionProbsOp : Dpc_LocalOp<"attention_probs", [Pure, Dpc_KernelRole<"alone">]> {
  let summary = "The softmax of the rows of attention scores, with scale and masks.";
  let description = [{
    scores are [B, H, T, S]. probs = softmax(scale * scores + mask), and lse is the
    log-sum-exp of each row. `causal` hides all keys except s <= t + S - T.
    `dpc-expand-attention` creates the op from `dpc.attention`.

    Example:

    ```mlir
    %p, %lse = dpc.attention_probs %s scale = 0.25 causal : (tensor<8x4x32x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>)
    ```

    Constraints:
    * (C1) scores have rank 4 and float elements, probs has the type of the scores,
      and lse is [B, H, T] of f32, or of f64 if the scores have f64;
    * (C2) the mask is [B|1, H|1, T|1, S] of floats.
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
  let summary = "Recomputed probabilities and the gradient of the scores.";
  let description = [{
    probs = exp(scale * scores + mask - lse), with `causal` as in
    `dpc.attention_probs`, and dscores = scale * probs * (dprobs - delta). The
    operand delta is rowsum(dout * out) [B, H, T].

    Example:

    ```mlir
    %p, %ds = dpc.attention_scores_grad %s, %lse, %dp, %delta scale = 0.25 causal : (tensor<8x4x32x32xf32>, tensor<8x4x32xf32>, tensor<8x4x32x32xf32>, tensor<8x4x32xf32>) -> (tensor<8x4x32x32xf32>, tensor<8x4x32x32xf32>)
    ```

    Constraints:
    * (C1) types are as in `dpc.attention_probs`; dscores and dprobs have the type of
      the scores, and delta has the type of lse.
  }];
  let arguments = (ins Dpc_Tensor:$scores, Dpc_Tensor:$lse, Dpc_Tensor:$dprobs, Dpc_Tensor:$delta,
                       Optional<Dpc_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Dpc_Tensor:$probs, Dpc_Tensor:$dscores);
  let assemblyFormat = [{
    $scores `,` $lse `,` $dprobs `,` $delta (`mask` $mask^)? `scale` `=` $scale
    (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_SendOp : Dpc_LocalOp<"send", [Dpc_CommunicationOpInterface], computes = false> {
  let summary = "Sends a value to another stage.";
  let description = [{
    The receiver is the rank with coordinate `to` along `pp` and the sender's
    coordinates along all other axes. Each send matches the `dpc.recv` with the same
    tag, once per execution of its phase. Sends are buffered and do not wait.
    `dpc-split-stages` creates the op.

    Example:

    ```mlir
    dpc.send %0 to = 1 tag = 7 : tensor<8x16xf32>
    ```

    Constraints:
    * (C1) `to` and `tag` are not negative.
  }];
  let results = (outs);
  let arguments = (ins Dpc_Tensor:$value, I64Attr:$to, I64Attr:$tag);
  let assemblyFormat = "$value `to` `=` $to `tag` `=` $tag attr-dict `:` type($value)";
}

def Dpc_RecvOp : Dpc_LocalOp<"recv", [Dpc_CommunicationOpInterface], computes = false> {
  let summary = "Receives a value from another stage.";
  let description = [{
    `from` is the coordinate of the sender along `pp`; see `dpc.send`.
    `dpc-split-stages` creates the op.

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

def Dpc_StageValueOp : Dpc_LocalOp<"stage_value", [Pure], computes = false> {
  let summary = "The operand of the executing stage.";
  let description = [{
    In stage s of the pipeline, the result is operand s. An all_reduce over `pp`
    reads the result, so every stage contributes its own term. `dpc-partition`
    creates the op, and `dpc-split-stages` removes it.

    Example (two stages):

    ```mlir
    %2 = dpc.stage_value %0, %1 : (tensor<f32>, tensor<f32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) there is at least one operand, and all operands have the type of the
      result.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$values);
  let assemblyFormat = "$values attr-dict `:` functional-type(operands, results)";
}

def Dpc_FetchOp : Dpc_LocalOp<"fetch", [], computes = false> {
  let summary = "Copies an argument from another memory space to the device.";
  let description = [{
    An argument with `dpc.space` is in host memory or on disk. Ops read the result
    of a fetch instead, which has a live range like every other value. Each fetch
    copies the argument again, in the copy queue. `dpc-offload` creates the op.

    Example:

    ```mlir
    %1 = dpc.fetch %arg0 : tensor<8x16xf32> -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the operand is an argument of the function;
    * (C2) operand and result have the same type.
  }];
  let arguments = (ins Dpc_Tensor:$source);
  let results = (outs Dpc_Tensor:$value);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($value)";
}

def Dpc_StoreOp : Dpc_LocalOp<"store", [], computes = false> {
  let summary = "Copies a value to an argument in another memory space.";
  let description = [{
    The op is the reverse of `dpc.fetch`. The function returns the result, which is
    the next value of the argument. `dpc-offload` creates the op.

    Example:

    ```mlir
    %2 = dpc.store %1 into %arg0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    ```

    Constraints:
    * (C1) the target is an argument of the function;
    * (C2) value, target and result have the same type.
  }];
  let arguments = (ins Dpc_Tensor:$value, Dpc_Tensor:$target);
  let assemblyFormat = [{
    $value `into` $target attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_KernelOp : Dpc_LocalOp<"kernel", [IsolatedFromAbove, RecursiveMemoryEffects,
    SingleBlock]> {
  let summary = "Ops that code generation compiles to one kernel.";
  let description = [{
    The block arguments of the body are the operands. `dpc.yield` returns the values
    that later ops read; all other values of the body are never stored to memory.
    The body has elementwise ops, sources and data movement, or one row op (softmax,
    norm, ..) with elementwise ops around it. With `dpc.epilogue`, it has a matmul
    and its epilogue (`dpc-fuse-epilogues`). `dpc-form-kernels` creates the op;
    code generation compiles equal bodies once.

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
    * (C1) the block arguments have the types of the operands;
    * (C2) the body ends in `dpc.yield`, and the yielded values have the types of the
      results.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$inputs);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $inputs attr-dict `:` functional-type(operands, results) $body
  }];
}

def Dpc_ExpertTilesOp : Dpc_LocalOp<"expert_tiles", [IsolatedFromAbove,
    RecursiveMemoryEffects, SingleBlock]> {
  let summary = "Computes on the rows of this rank's experts, tile by tile.";
  let description = [{
    The body runs once for each tile of C rows. The rows are those whose ids are
    experts of this rank, sorted by expert and then by position, so that the number
    of tiles depends on the ids. Argument 0 of the body has the ids of a tile, and
    -1 after the last row. `global` is the sharded type of one of the stacked
    matrices of the experts. From it, a rank derives its experts.

    The ids are S rows. `in` has a number for each other operand: s > 0 if s
    consecutive rows share a row of the operand, which is [S / s, ..]; the argument
    of the body is [C, ..], and 0 after the last row. The number is 0 if the body
    reads the whole operand. `out` has a number for each result, which is a sum: with
    s > 0, each row of the yielded [C, ..] is added to the row of the result
    [S / s, ..] that it shares; with 0, the yielded values of all tiles are added.
    Other elements are 0.

    With `exchange`, the ids and the operands with s > 0 are those of this rank only.
    The ranks along these axes send the rows to the ranks of their experts, which
    run the body, and the yielded rows return to the ranks of the ids. This takes
    rounds: in each, a rank sends at most C rows, receives at most C rows, and runs
    the body once if it received any. The ranks know how many rows each pair
    exchanges, so that all take the same number of rounds. Neither ids nor their
    skew change the buffers. Rows of a sender are in the order of experts and
    positions.

    `dpc-tile-experts` creates the op.

    Example (two choices a row, tiles of four rows):

    ```mlir
    %y = dpc.expert_tiles %ids, %x, %w in = [2, 0] out = [2] global = tensor<8x16x16xf32, #ep> : (tensor<32xi64>, tensor<16x16xf32>, tensor<4x16x16xf32>) -> tensor<16x16xf32> {
    ^bb0(%i: tensor<4xi64>, %r: tensor<4x16xf32>, %m: tensor<4x16x16xf32>):
      %p = dpc.expert_matmul %r, %i, %m global = tensor<8x16x16xf32, #ep> : (tensor<4x16xf32>, tensor<4xi64>, tensor<4x16x16xf32>) -> tensor<4x16xf32>
      dpc.yield %p : tensor<4x16xf32>
    }
    ```

    Constraints:
    * (C1) ids are [S] integers, and argument 0 of the body is [C] of their type;
    * (C2) `in` has one number for each operand after ids, and the arguments of the
      body after the first one are as above;
    * (C3) `out` has one number for each result, the body ends in `dpc.yield`, and
      the yielded values are as above; they have the element type of the result,
      which may be f32 for yielded bf16 or f16;
    * (C4) `global` is a sharded type;
    * (C5) the axes of `exchange` are some of those that split dimension 0 of
      `global`, and a tile has a row for each of their ranks.
  }];
  let arguments = (ins Dpc_Tensor:$ids, Variadic<Dpc_Tensor>:$inputs,
                       DenseI64ArrayAttr:$in_shares, DenseI64ArrayAttr:$out_shares,
                       TypeAttr:$global, OptionalAttr<StrArrayAttr>:$exchange);
  let results = (outs Variadic<Dpc_Tensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $ids `,` $inputs `in` `=` $in_shares `out` `=` $out_shares `global` `=` $global
    (`exchange` `=` $exchange^)? attr-dict `:` functional-type(operands, results) $body
  }];
  let extraClassDeclaration = [{
    /// Returns the number of rows of a tile.
    int64_t getTileRows();
  }];
}

def Dpc_YieldOp : Op<Dpc_Dialect, "yield", [Pure, Terminator, ReturnLike,
    ParentOneOf<["KernelOp", "ExpertTilesOp"]>]> {
  let summary = "Ends the body of dpc.kernel or dpc.expert_tiles.";
  let description = [{
    See these ops.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // DPC_LOCAL_OPS_TD
