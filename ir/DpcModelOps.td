//===- DpcModelOps.td - Pieces of models, losses, optimizers ---*- tablegen -*-===//
//
// Ops of the graph and sharded altitudes that stand for a whole idiom of a model
// or of its training; the general ones are in DpcOps.td.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_MODEL_OPS_TD
#define DPC_MODEL_OPS_TD

include "ir/DpcOpBase.td"

def Dpc_AttentionOp : Dpc_Op<"attention"> {
  let summary = "Scaled dot-product attention, grouped-query heads included.";
  let description = [{
    q [B, H, T, D], k [B, G, S, D], v [B, G, S, E] with H a multiple of G (query
    head h reads key head h / (H/G)); optional additive mask [B|1, H|1, T|1, S].
    P = softmax(scale * q k^T + mask), causal keeps
    s <= t + S - T. out = P v [B, H, T, E]; lse = log-sum-exp of each row
    [B, H, T] (f32), kept for the gradient, so P is never stored.

    With the discardable unit attribute `dpc.ring` (put there by `dpc-shard`,
    where T = S) positions may be split: rule and gradient then see one dimension
    of queries and keys, and `dpc-expand-attention` passes keys and values round.

    Example:

    ```mlir
    %o, %lse = dpc.attention %q, %k, %v scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x4x32xf32>)
    ```

    Constraints:
    * (C1) all of rank 4, batch sizes agree, H is a multiple of G;
    * (C2) q and k agree in D; k and v in S; out is [B, H, T, E], lse [B, H, T];
    * (C3) each mask dimension is 1 or that of [B, H, T, S], the last is S.
  }];
  let arguments = (ins Dpc_Tensor:$q, Dpc_Tensor:$k, Dpc_Tensor:$v,
                       Optional<Dpc_Tensor>:$mask, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Dpc_Tensor:$out, Dpc_Tensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` $mask^)? `scale` `=` $scale (`causal` $causal^)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_AttentionGradOp : Dpc_Op<"attention_grad"> {
  let summary = "Gradients of dpc.attention.";
  let description = [{
    With P recomputed from q, k and lse: dv = P^T dout, dP = dout v^T,
    dS = P * (dP - rowsum(dout * out)), dq = scale dS k, dk = scale dS^T q
    (dk and dv summed over the query heads of a group).

    Example:

    ```mlir
    %dq, %dk, %dv = dpc.attention_grad %q, %k, %v, %o, %lse, %do scale = 0.25 causal : (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x4x32x16xf32>, tensor<8x4x32xf32>, tensor<8x4x32x16xf32>) -> (tensor<8x4x32x16xf32>, tensor<8x2x32x16xf32>, tensor<8x2x32x16xf32>)
    ```

    Constraints:
    * (C1) operands as in dpc.attention, dout like out;
    * (C2) dq, dk, dv have the types of q, k, v.
  }];
  let arguments = (ins Dpc_Tensor:$q, Dpc_Tensor:$k, Dpc_Tensor:$v, Dpc_Tensor:$out,
                       Dpc_Tensor:$lse, Dpc_Tensor:$dout, Optional<Dpc_Tensor>:$mask,
                       F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Dpc_Tensor:$dq, Dpc_Tensor:$dk, Dpc_Tensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $dout (`mask` $mask^)? `scale` `=` $scale
    (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_RopeOp : Dpc_Op<"rope", [Dpc_KernelRole<"alone">]> {
  let summary = "Rotary position embedding, rotate-half form.";
  let description = [{
    x [.., T, D], cos and sin [T, D]. With rot(x) = (-x2, x1) over the halves of
    D: y = x * cos + rot(x) * sin. `inverse` is the transposed map
    y = x * cos - rot(x * sin), which is its gradient.

    Example:

    ```mlir
    %1 = dpc.rope %x, %cos, %sin : (tensor<8x4x32x16xf32>, tensor<32x16xf32>, tensor<32x16xf32>) -> tensor<8x4x32x16xf32>
    ```

    Constraints:
    * (C1) x and result agree, rank 2 or more, D even;
    * (C2) cos and sin are [T, D] of x's element type.
  }];
  let arguments = (ins Dpc_Tensor:$x, Dpc_Tensor:$cos, Dpc_Tensor:$sin, UnitAttr:$inverse);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x `,` $cos `,` $sin (`inverse` $inverse^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_EmbeddingOp : Dpc_Op<"embedding", [Dpc_KernelRole<"elementwise">]> {
  let summary = "Rows of a table, picked by index.";
  let description = [{
    result[i.., :] = table[ids[i..], :]. Where the table is split on its rows,
    ids outside a rank's shard give zero rows and the result is a partial sum;
    `global` (local altitude) is the table's sharded type, from which a rank
    knows its first row.

    Example:

    ```mlir
    %1 = dpc.embedding %table, %ids : (tensor<512x64xf32>, tensor<8x32xi64>) -> tensor<8x32x64xf32>
    ```

    Constraints:
    * (C1) the table has rank 2, ids are integers;
    * (C2) the result is [ids shape.., columns] of the table's element type.
  }];
  let arguments = (ins Dpc_Tensor:$table, Dpc_Tensor:$ids, OptionalAttr<TypeAttr>:$global);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $table `,` $ids (`global` `=` $global^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool readsSameElement(::mlir::OpOperand &operand);
  }];
}

def Dpc_EmbeddingGradOp : Dpc_Op<"embedding_grad", [Dpc_KernelRole<"alone">]> {
  let summary = "Gradient of a table: rows added up by index.";
  let description = [{
    result[r, :] = sum of dy[i.., :] over ids[i..] == r. `global` (local
    altitude) is the result's sharded type; ids outside the shard are skipped.

    Example:

    ```mlir
    %1 = dpc.embedding_grad %ids, %dy : (tensor<8x32xi64>, tensor<8x32x64xf32>) -> tensor<512x64xf32>
    ```

    Constraints:
    * (C1) ids are integers, dy is [ids shape.., columns];
    * (C2) the result has rank 2 and dy's columns and element type.
  }];
  let arguments = (ins Dpc_Tensor:$ids, Dpc_Tensor:$dy, OptionalAttr<TypeAttr>:$global);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $ids `,` $dy (`global` `=` $global^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Dpc_TopKOp : Dpc_Op<"topk", [Dpc_KernelRole<"alone">]> {
  let summary = "The k greatest (or smallest) elements of each row.";
  let description = [{
    Along the last dimension of x: `values` in descending order (ascending with
    `smallest`) and their positions `indices`. Equal elements come in the order
    of their positions; NaN is never picked, and where a row has too few other
    elements the index is -1.

    Example:

    ```mlir
    %v, %i = dpc.topk %x : tensor<8x16xf32> -> tensor<8x2xf32>, tensor<8x2xi64>
    ```

    Constraints:
    * (C1) values have x's element type, indices elements of i64;
    * (C2) values and indices have x's shape but for the last dimension, which
      is between 1 and x's.
  }];
  let arguments = (ins Dpc_Tensor:$x, UnitAttr:$smallest);
  let results = (outs Dpc_Tensor:$values, Dpc_Tensor:$indices);
  let assemblyFormat = [{
    $x (`smallest` $smallest^)? attr-dict `:` type($x) `->` type($values) `,` type($indices)
  }];
}

def Dpc_CumSumOp : Dpc_Op<"cumsum", [Dpc_KernelRole<"alone">]> {
  let summary = "Running sums along the last dimension.";
  let description = [{
    result[.., i] = sum of x[.., j] over j <= i; over j < i with `exclusive`;
    from the other end with `reverse` (j >= i, or j > i). The gradient is the
    same sum from the other end.

    Example:

    ```mlir
    %1 = dpc.cumsum %0 exclusive : tensor<4x16xf32> -> tensor<4x16xf32>
    ```

    Constraints:
    * (C1) operand and result agree in shape and element type, rank at least 1.
  }];
  let arguments = (ins Dpc_Tensor:$x, UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs Dpc_Tensor:$result);
  let assemblyFormat = [{
    $x (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($x) `->` type($result)
  }];
}

def Dpc_CrossEntropyOp : Dpc_Op<"cross_entropy"> {
  let summary = "Negative log-likelihood of labels under softmax, per row.";
  let description = [{
    logits [N, V], labels [N]. loss[i] = lse[i] - logits[i, labels[i]], zero
    where labels[i] equals `ignore_index`; lse is the log-sum-exp of the row.
    Made by frontends; removed by `dpc-expand-cross-entropy`.

    Example:

    ```mlir
    %loss, %lse = dpc.cross_entropy %logits, %labels ignore_index = -100 : (tensor<256x512xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
    ```

    Constraints:
    * (C1) logits are [N, V] floats, labels [N] integers;
    * (C2) loss and lse are [N], f32 (f64 for f64 logits).
  }];
  let arguments = (ins Dpc_Tensor:$logits, Dpc_Tensor:$labels, I64Attr:$ignore_index);
  let results = (outs Dpc_Tensor:$loss, Dpc_Tensor:$lse);
  let assemblyFormat = [{
    $logits `,` $labels `ignore_index` `=` $ignore_index attr-dict
    `:` functional-type(operands, results)
  }];
}

def Dpc_CrossEntropySumsOp : Dpc_Op<"cross_entropy_sums", [Dpc_KernelRole<"alone">]> {
  let summary = "Row sums of a cross entropy whose columns may be split.";
  let description = [{
    sumexp[i] = sum_v exp(logits[i, v] - rowmax[i]); picked[i] =
    logits[i, labels[i]], zero when the label is not in this shard (or is no
    column at all, as ignored labels are). Both are sums over v, so a split
    vocabulary needs only two all-reduces of [N]. `global` (local altitude) is
    the logits' sharded type. Made by `dpc-expand-cross-entropy`.

    Example:

    ```mlir
    %sumexp, %picked = dpc.cross_entropy_sums %logits, %rowmax, %labels : (tensor<256x512xf32>, tensor<256xf32>, tensor<256xi64>) -> (tensor<256xf32>, tensor<256xf32>)
    ```

    Constraints:
    * (C1) logits are [N, V] floats; rowmax, labels, sumexp, picked are [N].
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
  let summary = "Gradient of a cross entropy in its logits.";
  let description = [{
    dlogits[i, v] = (exp(logits[i, v] - lse[i]) - (v == labels[i])) * dloss[i].
    Ignored rows must come with dloss = 0. `global` (local altitude) is the
    logits' sharded type.

    Example:

    ```mlir
    %1 = dpc.cross_entropy_grad %logits, %labels, %lse, %dloss : (tensor<256x512xf32>, tensor<256xi64>, tensor<256xf32>, tensor<256xf32>) -> tensor<256x512xf32>
    ```

    Constraints:
    * (C1) logits and result agree; labels, lse, dloss are [N].
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
  let summary = "L2 norm of all gradients together.";
  let description = [{
    sqrt(sum of squares of all elements of all operands), f32. Its operands may
    be sharded each in its own way; partitioning sums every shard once.

    Example:

    ```mlir
    %n = dpc.global_norm %g0, %g1 : (tensor<64xf32>, tensor<8x8xf32>) -> tensor<f32>
    ```

    Constraints:
    * (C1) float operands, at least one; the result is a float scalar.
  }];
  let arguments = (ins Variadic<Dpc_Tensor>:$grads);
  let results = (outs Dpc_Tensor:$norm);
  let assemblyFormat = "$grads attr-dict `:` functional-type(operands, results)";
}

def Dpc_AdamWOp : Dpc_Op<"adamw", [Dpc_KernelRole<"alone">]> {
  let summary = "One AdamW update of one parameter, with PyTorch's meaning.";
  let description = [{
    g' = scale * g; p1 = p * (1 - lr * weight_decay);
    m1 = beta1 * m + (1 - beta1) * g'; v1 = beta2 * v + (1 - beta2) * g'^2;
    p1 -= lr / (1 - beta1^step) * m1 / (sqrt(v1) / sqrt(1 - beta2^step) + eps).
    `scale`, `lr` and `step` (1 for the first update) are scalars. With `if`,
    a scalar that holds false leaves all results as they were, whatever g is.

    Example:

    ```mlir
    %p1, %m1, %v1 = dpc.adamw %p, %m, %v, %g, %scale, %lr, %step beta1 = 9.0e-1 beta2 = 9.5e-1 eps = 1.0e-8 weight_decay = 1.0e-1 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) p, m, v, g and the results have one shape, scale, lr, step rank 0;
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
  let summary = "One SGD update with momentum, with PyTorch's meaning.";
  let description = [{
    g' = scale * g + weight_decay * p; b1 = momentum * b + g' (b1 = g' on the
    first step); p1 = p - lr * b1. With `if`, a scalar that holds false leaves
    both results as they were, whatever g is.

    Example:

    ```mlir
    %p1, %b1 = dpc.sgd %p, %b, %g, %scale, %lr, %step momentum = 9.0e-1 weight_decay = 0.0 : (tensor<64xf32>, tensor<64xf32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>)
    ```

    Constraints:
    * (C1) p, buffer, g and the results have one shape, scale, lr, step rank 0;
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
