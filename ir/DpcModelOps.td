//===- DpcModelOps.td - Pieces of models, losses, optimizers ---*- tablegen -*-===//
//
// Ops of the graph and sharded altitudes that each replace many primitive ops of a
// model or its training. DpcOps.td has the primitive ops.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_MODEL_OPS_TD
#define DPC_MODEL_OPS_TD

include "ir/DpcOpBase.td"

def Dpc_AttentionOp : Dpc_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "Scaled dot-product attention, optionally with grouped-query heads.";
  let description = [{
    The operands are q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] and an optional
    additive mask [B|1, H|1, T|1, S]. H is a multiple of G, and query head h reads
    key head h / (H / G). P = softmax(scale * q k^T + mask). Query t stands at key
    t + S - T: `causal` hides all keys after it, and with `window` = w it sees only
    the last w keys up to its own (and later ones, if not `causal`). The results are
    out = P v [B, H, T, E] and lse [B, H, T] (f32, or f64 for f64), the log-sum-exp
    of each row. The gradient recomputes P from lse, so P is not stored.

    A sink (Xiao et al., 2023; GPT-OSS) is a learned score of each head that takes
    part in the softmax, but has no value. `sinks` [H] has the sinks, and lse
    contains them. The gradient needs no sinks, because out and lse contain all that
    they change.

    With the discardable unit attribute `dpc.ring`, which `dpc-shard` sets if
    T = S, positions may be split: the sharding rule then has one dimension for
    queries and keys, and `dpc-expand-attention` sends keys and values around the
    ranks. A ring has no window: `dpc-shard` replaces it by a mask.

    Example:

    ```mlir
    %o, %lse = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
    ```

    Constraints:
    * (C1) q, k and v have rank 4, one float type and one batch size, and H is a
      multiple of G;
    * (C2) q and k have the same D, k and v have the same S, out is [B, H, T, E],
      and lse is [B, H, T];
    * (C3) the mask has rank 4, its last dimension is S, and every other dimension
      is 1 or that of [B, H, T, S];
    * (C4) sinks are [H] of the type of lse;
    * (C5) the window is at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$q, Dpc_Tensor:$k, Dpc_Tensor:$v,
                       Optional<Dpc_Tensor>:$mask, Optional<Dpc_Tensor>:$sinks,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs Dpc_Tensor:$out, Dpc_Tensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? (`sinks` $sinks^)? `scale` `=` $scale
    (`causal` $causal^)? (`window` `=` $window^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_AttentionGradOp : Dpc_Op<"attention_grad"> {
  let summary = "The gradients of dpc.attention.";
  let description = [{
    P is recomputed from q, k and lse. Then dv = P^T dout, dP = dout v^T,
    dS = P * (dP - rowsum(dout * out)), dq = scale dS k and dk = scale dS^T q.
    dk and dv are summed over the query heads of a key head.

    Example:

    ```mlir
    %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>)
    ```

    Constraints:
    * (C1) operands are as in `dpc.attention`, and dout has the type of out;
    * (C2) dq, dk and dv have the types of q, k and v.
  }];
  let arguments = (ins Dpc_Tensor:$q, Dpc_Tensor:$k, Dpc_Tensor:$v, Dpc_Tensor:$out,
                       Dpc_Tensor:$lse, Dpc_Tensor:$dout, Optional<Dpc_Tensor>:$mask,
                       F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window);
  let results = (outs Dpc_Tensor:$dq, Dpc_Tensor:$dk, Dpc_Tensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $dout (`mask` $mask^)? `scale` `=` $scale
    (`causal` $causal^)? (`window` `=` $window^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_RopeOp : Dpc_Op<"rope", [Dpc_KernelRole<"alone">]> {
  let summary = "Rotary position embedding in the rotate-half form.";
  let description = [{
    x is [.., T, D], cos and sin are [T, D]. With the halves x1 and x2 of the last
    dimension and rot(x) = (-x2, x1), the result is x * cos + rot(x) * sin.
    `inverse` computes the gradient, x * cos - rot(x * sin).

    Example:

    ```mlir
    %1 = dpc.rope %x, %cos, %sin : (tensor<8x4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<8x4x32x16xf32>
    ```

    Constraints:
    * (C1) x and the result have the same shape and element type, the rank is at
      least 2, and D is even;
    * (C2) cos and sin are [T, D] of the element type of x.
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$cos, Dpc_Tensor:$sin, UnitAttr:$inverse);
  let assemblyFormat = [{
    $x `,` $cos `,` $sin (`inverse` $inverse^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_EmbeddingOp : Dpc_Op<"embedding", [Dpc_KernelRole<"elementwise">], computes = false> {
  let summary = "The rows of a table that indices choose.";
  let description = [{
    result[i.., :] = table[ids[i..], :]. If the rows of the table are split, ids
    outside the shard of a rank give zero rows, and the result is a partial sum.
    At the local altitude, `global` is the sharded type of the table. From it, a
    rank derives its first row.

    Example:

    ```mlir
    %1 = dpc.embedding %table, %ids : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
    ```

    Constraints:
    * (C1) the table has rank 2, and ids are integers;
    * (C2) the result is [shape of ids.., columns] of the table's element type.
  }];
  let arguments = (ins Dpc_Tensor:$table, Dpc_Tensor:$ids, OptionalAttr<TypeAttr>:$global);
  let assemblyFormat = [{
    $table `,` $ids (`global` `=` $global^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_EmbeddingGradOp : Dpc_Op<"embedding_grad", [Dpc_KernelRole<"alone">]> {
  let summary = "The gradient of a table: the sum of all rows with the same index.";
  let description = [{
    result[r, :] = sum of dy[i.., :] over all i with ids[i..] == r. At the local
    altitude, `global` is the sharded type of the result, and ids outside the shard
    are skipped.

    Example:

    ```mlir
    %1 = dpc.embedding_grad %ids, %dy : (tensor<8x32xi64>, tensor<8x32x64xf32>) -> tensor<512x64xf32>
    ```

    Constraints:
    * (C1) ids are integers, and dy is [shape of ids.., columns];
    * (C2) the result has rank 2, and the columns and element type of dy.
  }];
  let arguments = (ins Dpc_Tensor:$ids, Dpc_Tensor:$dy, OptionalAttr<TypeAttr>:$global);
  let assemblyFormat = [{
    $ids `,` $dy (`global` `=` $global^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_ExpertMatmulOp : Dpc_Op<"expert_matmul"> {
  let summary = "The product of each row with the matrix of its expert.";
  let description = [{
    `w` stacks the matrices of the experts: [experts, k, n], or [experts, n, k] with
    `tb`. result[i.., j.., :] = x[i.., :] w[ids[i.., j..]], where i are the
    dimensions of the rows of x, and j the further dimensions of ids: the choices of
    a row, which share it. An id outside [0, experts) gives a zero row, so that no
    capacity limits the rows of an expert. The rows stay in the order of the tokens;
    the lowering sorts them. Sums are in f32, or in f64 for f64.

    If the experts are split, ids outside the shard of a rank give zero rows, and
    the result is a partial sum. At the local altitude, `global` is the sharded type
    of w. From it, a rank derives its first expert.

    Example:

    ```mlir
    %1 = dpc.expert_matmul %x, %ids, %w tb : (tensor<32x64xf32>, tensor<32x2xi64>, tensor<8x128x64xf32>) -> tensor<32x2x128xf32>
    ```

    Constraints:
    * (C1) ids are integers; x is [some first dimensions of ids.., k], and has rank
      2 or more;
    * (C2) w has rank 3 and contracts k columns;
    * (C3) the result is [shape of ids.., n] of the same element type, or of f32 if
      that is bf16 or f16 (the sums are then not rounded).
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$ids, Dpc_Tensor:$w, UnitAttr:$tb,
                       OptionalAttr<TypeAttr>:$global);
  let assemblyFormat = [{
    $x `,` $ids `,` $w (`tb` $tb^)? (`global` `=` $global^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Dpc_ExpertMatmulGradOp : Dpc_Op<"expert_matmul_grad"> {
  let summary = "The gradient of the stacked matrices of experts.";
  let description = [{
    result[e] = sum of a[r, :]^T b[r, :] over all rows r with ids[r] == e; zero for
    an expert without rows. The rows r are all indices of ids. A row of a or of b is
    shared by all choices, as the rows of x in `dpc.expert_matmul`. At the local
    altitude, `global` is the sharded type of the result, and ids outside the shard
    are skipped.

    Example:

    ```mlir
    %1 = dpc.expert_matmul_grad %dy, %ids, %x : (tensor<32x2x128xf32>, tensor<32x2xi64>, tensor<32x64xf32>) -> tensor<8x128x64xf32>
    ```

    Constraints:
    * (C1) ids are integers; a and b are [some first dimensions of ids.., columns],
      and have rank 2 or more and the same element type;
    * (C2) the result is [experts, columns of a, columns of b] of the same element
      type, or of f32 if that is bf16 or f16.
  }];
  let arguments = (ins Dpc_Tensor:$a, Dpc_Tensor:$ids, Dpc_Tensor:$b,
                       OptionalAttr<TypeAttr>:$global);
  let assemblyFormat = [{
    $a `,` $ids `,` $b (`global` `=` $global^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Dpc_TopKOp : Dpc_Op<"topk", [Dpc_KernelRole<"alone">]> {
  let summary = "The k largest or smallest elements of each row.";
  let description = [{
    A row is the last dimension of x. `values` are in descending order, or in
    ascending order with `smallest`, and `indices` are their positions. Equal
    elements are in the order of their positions. NaN is never chosen; if a row has
    fewer than k other elements, the remaining indices are -1.

    Example:

    ```mlir
    %v, %i = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
    ```

    Constraints:
    * (C1) values have the element type of x, and indices have elements of i64;
    * (C2) values and indices have the shape of x except for the last dimension,
      which is at least 1 and at most that of x.
  }];
  let arguments = (ins Dpc_Tensor:$x, UnitAttr:$smallest);
  let results = (outs Dpc_Tensor:$values, Dpc_Tensor:$indices);
  let assemblyFormat = [{
    $x (`smallest` $smallest^)? attr-dict `:` type($x) `->` type($values) `,` type($indices)
  }];
}

def Dpc_CumSumOp : Dpc_Op<"cumsum", [Dpc_KernelRole<"alone">]> {
  let summary = "Cumulative sums along the last dimension.";
  let description = [{
    result[.., i] = sum of x[.., j] over j <= i, or over j < i with `exclusive`.
    With `reverse`, it is the sum over j >= i, or over j > i with `exclusive`. The
    gradient is the same sum in the other direction.

    Example:

    ```mlir
    %1 = dpc.cumsum %0 exclusive : tensor<4x16xf32> -> tensor<4x16xf32>
    ```

    Constraints:
    * (C1) operand and result have the same shape and element type; the rank is at
      least 1.
  }];
  let arguments = (ins Dpc_Tensor:$x, UnitAttr:$exclusive, UnitAttr:$reverse);
  let assemblyFormat = [{
    $x (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($x) `->` type($result)
  }];
}

def Dpc_CrossEntropyOp : Dpc_Op<"cross_entropy"> {
  let summary = "The negative log-likelihood of a label under softmax, per row.";
  let description = [{
    loss[i] = lse[i] - logits[i, labels[i]], or zero if labels[i] equals
    `ignore_index`. lse[i] is the log-sum-exp of row i. Frontends create the op, and
    `dpc-expand-cross-entropy` replaces it.

    Example:

    ```mlir
    %loss, %lse = dpc.cross_entropy %logits, %labels ignore_index = -100 : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
    ```

    Constraints:
    * (C1) logits are [N, V] floats, and labels are [N] integers;
    * (C2) loss and lse are [N] of f32, or of f64 if the logits have f64.
  }];
  let arguments = (ins Dpc_Tensor:$logits, Dpc_Tensor:$labels, I64Attr:$ignore_index);
  let results = (outs Dpc_Tensor:$loss, Dpc_Tensor:$lse);
  let assemblyFormat = [{
    $logits `,` $labels `ignore_index` `=` $ignore_index attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_CrossEntropySumsOp : Dpc_Op<"cross_entropy_sums", [Dpc_KernelRole<"alone">]> {
  let summary = "The row sums of a cross entropy whose columns may be split.";
  let description = [{
    sumexp[i] = sum_v exp(logits[i, v] - rowmax[i]). picked[i] =
    logits[i, labels[i]], or zero if the label is not a column of this shard.
    Ignored labels are no column of any shard. Both results are sums over v, so a
    split vocabulary needs only two all_reduces of [N]. At the local altitude,
    `global` is the sharded type of the logits. `dpc-expand-cross-entropy` creates
    the op.

    Example:

    ```mlir
    %sumexp, %picked = dpc.cross_entropy_sums %logits, %rowmax, %labels : (tensor<256x512xf32>, tensor<256xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
    ```

    Constraints:
    * (C1) logits are [N, V] floats, labels are [N] integers, and rowmax, sumexp
      and picked are [N] floats.
  }];
  let arguments = (ins Dpc_Tensor:$logits, Dpc_Tensor:$rowmax, Dpc_Tensor:$labels,
                       OptionalAttr<TypeAttr>:$global);
  let results = (outs Dpc_Tensor:$sumexp, Dpc_Tensor:$picked);
  let assemblyFormat = [{
    $logits `,` $rowmax `,` $labels (`global` `=` $global^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_CrossEntropyGradOp : Dpc_Op<"cross_entropy_grad", [Dpc_KernelRole<"elementwise">]> {
  let summary = "The gradient of a cross entropy with respect to its logits.";
  let description = [{
    dlogits[i, v] = (exp(logits[i, v] - lse[i]) - (v == labels[i])) * dloss[i].
    dloss must be zero for ignored rows. At the local altitude, `global` is the
    sharded type of the logits.

    Example:

    ```mlir
    %1 = dpc.cross_entropy_grad %logits, %labels, %lse, %dloss : (tensor<256x512xf32>, tensor<256xi64>, tensor<256xf32>, tensor<256xf32>) -> tensor<256x512xf32>
    ```

    Constraints:
    * (C1) logits and result have the same shape and element type, labels are [N]
      integers, and lse and dloss are [N] floats.
  }];
  let arguments = (ins Dpc_Tensor:$logits, Dpc_Tensor:$labels, Dpc_Tensor:$lse,
                       Dpc_Tensor:$dloss, OptionalAttr<TypeAttr>:$global);
  let results = (outs Dpc_Tensor:$dlogits);
  let assemblyFormat = [{
    $logits `,` $labels `,` $lse `,` $dloss (`global` `=` $global^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_GlobalNormOp : Dpc_Op<"global_norm"> {
  let summary = "The L2 norm of all gradients as one vector.";
  let description = [{
    The square root of the sum of squares of all elements of all operands. Every
    operand may have its own sharding; partitioning counts every shard once.

    Example:

    ```mlir
    %n = dpc.global_norm %g0, %g1 : (tensor<64xf32>, tensor<8x8xf32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) there is at least one operand, all operands are floats, and the result is
      a float scalar.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$grads);
  let results = (outs Dpc_Tensor:$norm);
  let assemblyFormat = "$grads attr-dict `:` functional-type(operands, results)";
}

def Dpc_AdamWOp : Dpc_Op<"adamw", [Dpc_KernelRole<"alone">]> {
  let summary = "The AdamW update of one parameter, as in PyTorch.";
  let description = [{
    g' = scale * g; p1 = p * (1 - lr * weight_decay);
    m1 = beta1 * m + (1 - beta1) * g'; v1 = beta2 * v + (1 - beta2) * g'^2;
    p1 -= lr / (1 - beta1^step) * m1 / (sqrt(v1) / sqrt(1 - beta2^step) + eps).
    `scale`, `lr` and `step` (1 for the first update) are scalars. If the operand of
    `if` is false, the results are p, m and v, even if g is not finite.

    Example:

    ```mlir
    %p1, %m1, %v1 = dpc.adamw %p, %m, %v, %g, %scale, %lr, %step beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) p, m, v, g and the results have the same shape, every result has the
      element type of the operand that it replaces, and scale, lr and step have
      rank 0;
    * (C2) the operand of `if` is a scalar of i1.
  }];
  let arguments = (ins Dpc_Tensor:$p, Dpc_Tensor:$m, Dpc_Tensor:$v, Dpc_Tensor:$g,
                       Dpc_Tensor:$scale, Dpc_Tensor:$lr, Dpc_Tensor:$step,
                       Optional<Dpc_Tensor>:$apply,
                       F64Attr:$beta1, F64Attr:$beta2, F64Attr:$eps, F64Attr:$weight_decay);
  let results = (outs Dpc_Tensor:$newP, Dpc_Tensor:$newM, Dpc_Tensor:$newV);
  let assemblyFormat = [{
    $p `,` $m `,` $v `,` $g `,` $scale `,` $lr `,` $step (`if` $apply^)?
    `beta1` `=` $beta1 `beta2` `=` $beta2
    `eps` `=` $eps `weight_decay` `=` $weight_decay attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_SgdOp : Dpc_Op<"sgd", [Dpc_KernelRole<"alone">]> {
  let summary = "The SGD update of one parameter, with momentum, as in PyTorch.";
  let description = [{
    g' = scale * g + weight_decay * p; b1 = momentum * b + g', or g' in the first
    step; p1 = p - lr * b1. If the operand of `if` is false, the results are p and
    b, even if g is not finite.

    Example:

    ```mlir
    %p1, %b1 = dpc.sgd %p, %b, %g, %scale, %lr, %step momentum = 9.0e-1 weight_decay = 0.0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) p, buffer, g and the results have the same shape, every result has the
      element type of the operand that it replaces, and scale, lr and step have
      rank 0;
    * (C2) the operand of `if` is a scalar of i1.
  }];
  let arguments = (ins Dpc_Tensor:$p, Dpc_Tensor:$buffer, Dpc_Tensor:$g, Dpc_Tensor:$scale,
                       Dpc_Tensor:$lr, Dpc_Tensor:$step, Optional<Dpc_Tensor>:$apply,
                       F64Attr:$momentum, F64Attr:$weight_decay);
  let results = (outs Dpc_Tensor:$newP, Dpc_Tensor:$newBuffer);
  let assemblyFormat = [{
    $p `,` $buffer `,` $g `,` $scale `,` $lr `,` $step (`if` $apply^)?
    `momentum` `=` $momentum `weight_decay` `=` $weight_decay attr-dict `:` functional-type(operands, results)
  }];
}

#endif // DPC_MODEL_OPS_TD
