//===- Passes.td - Passes of the graph altitude ----------------*- tablegen -*-===//
#ifndef DPC_PASSES_GRAPH_TD
#define DPC_PASSES_GRAPH_TD

include "mlir/Pass/PassBase.td"

def DpcSimplify : Pass<"dpc-simplify", "::mlir::func::FuncOp"> {
  let summary = "Removes what computes nothing: canonical forms, CSE, dead code.";
  let description = [{
    Chains of transposes, reshapes, slices and broadcasts collapse, transposes
    of matmul operands become its `ta`/`tb` flags, divisions by powers of two
    become multiplications, `x * 1`, `x + 0` and the like vanish, powers with
    the exponents 2, 3, 1/2, -1/2 and -1 become products and roots, sums of
    disjoint pads become concats. Results stay the same up to the sign of zero
    and the last rounding. Function arguments stay, used or not; rewritten ops
    keep `dpc.phase` and `dpc.group`.

    Example:

    ```mlir
    %0 = dpc.transpose %w perm = [1, 0] : tensor<192x64xf32> -> tensor<64x192xf32>
    %1 = dpc.matmul %x, %0 : (tensor<8x64xf32>, tensor<64x192xf32>) -> tensor<8x192xf32>
    // becomes
    %1 = dpc.matmul %x, %w tb : (tensor<8x64xf32>, tensor<192x64xf32>) -> tensor<8x192xf32>
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcFuse : Pass<"dpc-fuse", "::mlir::func::FuncOp"> {
  let summary = "Recognizes decomposed gelu, silu, norms, softmax, rope, attention.";
  let description = [{
    Exporters write these as chains of primitives. Where a chain is one of them
    beyond doubt (constants within 1e-6 of the ideal ones; causal masks checked
    element by element), it becomes one op; anything else stays as it is.
    Masks and rotary tables that depend on a parameter are not fused: their
    gradients need what a fused op does not keep. Keys of attention are taken from before
    the addition of a bias, which softmax does not see. Run `dpc-simplify` before.

    Example:

    ```mlir
    %0 = dpc.unary sigmoid %x : tensor<4xf32> -> tensor<4xf32>
    %1 = dpc.binary mul %x, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // becomes
    %1 = dpc.unary silu %x : tensor<4xf32> -> tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcMixedPrecision : Pass<"dpc-mixed-precision", "::mlir::func::FuncOp"> {
  let summary = "Computes in bf16 or f16 what may be, and keeps the rest in f32.";
  let description = [{
    In `@forward`, before it is differentiated. Parameters, buffers, inputs and
    results keep their f32; every parameter is converted once, and that copy is
    what the model computes with, so that its gradient is of the compute type
    and is converted back to f32 for the optimizer.

    * Matmuls, convolutions, attention, rope, softmax and tables take the
      compute type (a convolution's sums are in f32 all the same); the
      statistics of norms and attention, logits of a cross entropy (as results
      of a matmul of the compute type) and losses stay f32.
    * Norms, elementwise ops and data movement take f32 when an operand is in
      f32, and else the compute type. Constants, frozen buffers and what is
      computed from integers take the type of what they meet.
    * Rows picked from a table are converted to f32, so that the sum through the
      blocks of a transformer is in f32.
    * Sums, and ops not named here, are in f32.
    * With `fp8`, products of a parameter, but for those of logits and results, get
      `dpc.fp8 = [f8E4M3FN, f8E4M3FN]`: the codes that the plan multiplies
      where a rank's sizes are multiples of 16. Gradients of such products have
      f8E5M2 for the gradient that comes in.

    Example (`type=bf16`):

    ```mlir
    %0 = dpc.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    // becomes
    %a = dpc.convert %x : tensor<8x4xf32> -> tensor<8x4xbf16>
    %b = dpc.convert %w : tensor<4x4xf32> -> tensor<4x4xbf16>
    %0 = dpc.matmul %a, %b : (tensor<8x4xbf16>, tensor<4x4xbf16>) -> tensor<8x4xbf16>
    ```
  }];
  let options = [Option<"type", "type", "std::string", "\"bf16\"",
                        "bf16 or f16">,
                 Option<"fp8", "fp8", "bool", "false",
                        "products of parameters multiply codes of 8 bits">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcAppendLoss : Pass<"dpc-append-loss", "::mlir::ModuleOp"> {
  let summary = "Adds a label input and a mean loss to @forward.";
  let description = [{
    `cross_entropy`: the output is logits [.., V]; `labels` are integers [..];
    rows with label -100 do not count. `mse`: `labels` have the output's type.
    The new input is called `labels`, the new result `loss` (marked `dpc.loss`).
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"cross_entropy\"",
           "cross_entropy or mse">,
    Option<"output", "output", "std::string", "\"\"",
           "name of the output that the loss reads (default: the only float "
           "output that is not a scalar)">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcDifferentiate : Pass<"dpc-differentiate", "::mlir::ModuleOp"> {
  let summary = "Turns @forward with a loss into @train_step.";
  let description = [{
    `@train_step(parameters.., buffers.., states.., inputs.., lr, step) ->
    (new parameters.., new states.., new buffers.., metrics..)` holds the forward ops, the
    gradients of all arguments with role `parameter`, and the optimizer. It
    replaces @forward.

    The loss is peeled into `S * s` with `s` free of parameters (1 / number of
    labels): gradients are those of S, `s` scales the norm and is the
    optimizer's `scale`, times min(1, max_norm / (norm + 1e-6)) when gradients
    are clipped. So shards and micro-batches add up plain sums.

    With `loss-scale` the gradient starts from a scale, by which norm and update
    are divided; a step whose norm is not finite updates nothing (`if` of the
    optimizer ops). Scale and counters are scalar states, `loss_scale` and
    `skipped` further outputs; LossScale.h has the formulas.

    Results of @forward that are tied to a buffer (running statistics) are its
    next value. Scalar outputs stay; `grad_norm` (before clipping) joins them. Tensor
    outputs are dropped, with a remark: a training step does not return them.
    Parameters that the loss does not depend on are returned as they are, so that
    they are saved with the others; one remark names them.
    Arguments without a name get one, for states name their parameter. An argument
    `step` of role `scalar`, by which dropout draws, becomes the optimizer's.
    Every op gets `dpc.phase`.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"",
           "adamw or sgd">,
    Option<"beta1", "beta1", "double", "0.9", "AdamW: decay of the mean">,
    Option<"beta2", "beta2", "double", "0.999", "AdamW: decay of the square">,
    Option<"eps", "eps", "double", "1e-8", "AdamW: added to the root">,
    Option<"weightDecay", "weight-decay", "double", "-1.0",
           "weight decay; negative: PyTorch's default (adamw 0.01, sgd 0)">,
    Option<"momentum", "momentum", "double", "0.0", "SGD: momentum">,
    Option<"clipGradNorm", "clip-grad-norm", "double", "0.0",
           "largest global gradient norm; 0: not clipped">,
    Option<"lossScale", "loss-scale", "double", "0.0",
           "factor of the loss against underflow of gradients; 0: none">,
    Option<"lossScaleInterval", "loss-scale-interval", "int64_t", "0",
           "good steps in a row after which the factor doubles; 0: it is fixed">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcExpandCrossEntropy
    : Pass<"dpc-expand-cross-entropy", "::mlir::func::FuncOp"> {
  let summary = "Writes cross entropy so that the vocabulary may be split.";
  let description = [{
    `dpc.cross_entropy` needs whole rows. Its expansion reduces along the
    vocabulary three times (maximum, sum of exponentials, picked logit), each a
    row vector that shards can combine:

    ```
    m = max(logits); (e, p) = cross_entropy_sums(logits, m, labels)
    lse = log(e) + m; loss = labels == ignore_index ? 0 : lse - p
    ```

    Runs after `dpc-differentiate`: the gradient reads `lse` only.
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcExpandBatchNorm
    : Pass<"dpc-expand-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "Writes batch norm so that the batch may be split.";
  let description = [{
    `dpc.batch_norm` and its gradient become reductions over the batch and the
    spatial dimensions, and elementwise ops. Where the batch is split over
    ranks the reductions are partial sums, combined before they are used: the
    statistics are those of the whole batch on any number of ranks.

    Micro-batches are different by definition: each is normalized by its own
    statistics, as on one device that accumulates gradients. The batch is then
    seen as [data-ranks, micro-batches, rest], statistics get a leading
    dimension of micro-batches, and what is kept of them (running statistics)
    is their mean. The batch must be a multiple of both.

    Runs before `dpc-shard`, once the strategy is known.
  }];
  let options = [
    Option<"dataRanks", "data-ranks", "int64_t", "1",
           "ranks that the batch is split over">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "micro-batches per step">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

#endif // DPC_PASSES_GRAPH_TD
