//===- Passes.td - Passes of the graph altitude ----------------*- tablegen -*-===//
#ifndef DPC_PASSES_GRAPH_TD
#define DPC_PASSES_GRAPH_TD

include "mlir/Pass/PassBase.td"

def DpcSimplify : Pass<"dpc-simplify", "::mlir::func::FuncOp"> {
  let summary = "Simplifies programs: canonical forms, CSE, dead code.";
  let description = [{
    * Sequences of transposes, reshapes, slices or broadcasts become one op.
    * Transposes of matmul operands become its flags `ta` and `tb`.
    * Divisions by powers of two become multiplications.
    * Powers with the exponents 2, 3, 1/2, -1/2 and -1 become products and roots.
    * Operations with neutral elements, such as `x * 1` and `x + 0`, are removed.
    * Sums of disjoint pads become concats.

    Results are the same up to the sign of zero and the last rounding. The pass keeps
    all function arguments, and the `dpc.phase` and `dpc.group` of rewritten ops.

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
  let summary = "Fuses primitives to gelu, silu, norms, softmax, rope, attention.";
  let description = [{
    Exporters write these functions as sequences of primitive ops. A sequence becomes
    one op if it certainly computes the function: constants must be within 1e-6 of
    the exact ones, and causal masks are checked element by element. Other ops do not
    change. Attention and rope are not fused if the mask or a rotary table depends on
    a parameter, because a fused op does not keep the values for their gradients.
    Attention reads keys from before the addition of a bias, which does not change
    the softmax. Run `dpc-simplify` first.

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
  let summary = "Computes in bf16 or f16 where possible, and in f32 otherwise.";
  let description = [{
    The pass changes `@forward` before differentiation. Parameters, buffers, inputs
    and results remain f32. Every parameter is converted once, and the model computes
    with that copy. So its gradient has the compute type, and is converted to f32 for
    the optimizer.

    * Matmuls, convolutions, attention, rope, softmax and tables have the compute
      type. Sums of convolutions are in f32. The statistics of norms and attention,
      the logits of a cross entropy (f32 results of a matmul of the compute type) and
      losses are f32.
    * Norms, elementwise ops and data movement have f32 if an operand has f32, and
      otherwise the compute type. Constants, frozen buffers and values computed from
      integers get the type that their users need.
    * Rows of a table are converted to f32, so that the residual stream of a
      transformer is in f32.
    * Sums and all other ops are in f32.
    * With `fp8`, matmuls of a parameter get `dpc.fp8 = [f8E4M3FN, f8E4M3FN]`, except
      those of logits and results. The plan converts their operands to these types if
      the sizes on a rank are multiples of 16. In the gradients of such matmuls, the
      incoming gradient has f8E5M2.

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
                        "run matmuls of parameters in fp8">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcAppendLoss : Pass<"dpc-append-loss", "::mlir::ModuleOp"> {
  let summary = "Adds an input with labels and a mean loss to @forward.";
  let description = [{
    With `cross_entropy`, the output is logits [.., V], and `labels` are integers
    [..]; rows with the label -100 do not count. With `mse`, `labels` have the type
    of the output. The new input is called `labels`. The new result is called `loss`
    and has `dpc.loss`.
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

def DpcCheckIndices : Pass<"dpc-check-indices", "::mlir::func::FuncOp"> {
  let summary = "Counts computed indices that are out of range.";
  let description = [{
    An index out of range reads zeros, and a label out of range has the score 0.
    For indices that @forward computes, and that neither its ops nor the checks of
    its inputs keep in range, the pass adds a result: the number of indices that
    are not accepted, an f32 scalar with `dpc.faults`. Runs stop if it is not 0.

    Example:

    ```mlir
    %1 = dpc.embedding %table, %ids : (tensor<512x64xf32>, tensor<8xi64>) -> tensor<8x64xf32>
    // is followed by
    %2 = dpc.compare lt %ids, %zero : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %3 = dpc.compare gt %ids, %last : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    // and by the sum of both, which is a result with
    // {dpc.faults = "indices of 'dpc.embedding' (accepted: 0 to 511)"}
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcDifferentiate : Pass<"dpc-differentiate", "::mlir::ModuleOp"> {
  let summary = "Turns @forward with a loss into @train_step.";
  let description = [{
    `@train_step(parameters.., buffers.., states.., inputs.., lr, step) ->
    (new parameters.., new states.., new buffers.., metrics..)` holds the forward ops, the
    gradients of all arguments with role `parameter`, and the optimizer. It
    replaces @forward.

    The loss is `S * s`, where `s` does not depend on parameters (for example
    1 / number of labels). The gradients are those of S, so shards and micro-batches
    only add them. `s` multiplies the norm, and is the `scale` of the optimizer. If
    gradients are clipped, `scale` is also multiplied by
    min(1, max_norm / (norm + 1e-6)).

    With `loss-scale`, the initial gradient is a scale, and the norm and the update
    are divided by it. A step whose norm is not finite updates nothing (`if` of the
    optimizer ops). The scale and the counters are scalar states, and `loss_scale`
    and `skipped` are additional outputs. LossScale.h has the formulas.

    A result of @forward that is tied to a buffer (running statistics) is the next
    value of that buffer. @train_step returns the other scalar outputs, the means of
    float outputs of shape [batch], and `grad_norm`, the norm before clipping. It does
    not return other tensors, and a remark names them. It returns parameters that the loss does not depend on
    unchanged, so that they are saved; a remark names them. Arguments without a name
    get one, because states name their parameter. An argument `step` of role
    `scalar`, which dropout uses, becomes the `step` of the optimizer. Every op gets
    `dpc.phase`.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"",
           "adamw or sgd">,
    Option<"beta1", "beta1", "double", "0.9", "AdamW: decay of the mean of gradients">,
    Option<"beta2", "beta2", "double", "0.999", "AdamW: decay of the mean of squared gradients">,
    Option<"eps", "eps", "double", "1e-8", "AdamW: added to the root of the mean square">,
    Option<"weightDecay", "weight-decay", "double", "-1.0",
           "weight decay; negative: PyTorch's default (adamw 0.01, sgd 0)">,
    Option<"momentum", "momentum", "double", "0.0", "SGD: momentum">,
    Option<"clipGradNorm", "clip-grad-norm", "double", "0.0",
           "largest global gradient norm; 0: not clipped">,
    Option<"lossScale", "loss-scale", "double", "0.0",
           "initial factor of the loss, against underflow of gradients; 0: none">,
    Option<"lossScaleInterval", "loss-scale-interval", "int64_t", "0",
           "good steps in a row until the factor doubles; 0: fixed factor">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcExpandCrossEntropy
    : Pass<"dpc-expand-cross-entropy", "::mlir::func::FuncOp"> {
  let summary = "Expands cross entropy so that the vocabulary can be split.";
  let description = [{
    `dpc.cross_entropy` needs whole rows. Its expansion reduces the vocabulary three
    times: to the maximum, the sum of exponentials and the logit of the label. Shards
    can combine these values of a row:

    ```
    m = max(logits); (e, p) = cross_entropy_sums(logits, m, labels)
    lse = log(e) + m; loss = labels == ignore_index ? 0 : lse - p
    ```

    The pass runs after `dpc-differentiate`, because the gradient of cross entropy
    reads only `lse`.
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcExpandBatchNorm
    : Pass<"dpc-expand-batch-norm", "::mlir::func::FuncOp"> {
  let summary = "Expands batch norm so that the batch can be split.";
  let description = [{
    `dpc.batch_norm` and its gradient become reductions over the batch and the
    spatial dimensions, and elementwise ops. If the batch is split over ranks, the
    reductions are partial sums that are combined before their use. So the
    statistics are those of the whole batch on any number of ranks.

    Each micro-batch is normalized by its own statistics, as on one device that
    accumulates gradients. The batch is reshaped to [data-ranks, micro-batches,
    rest], and statistics get a leading dimension of micro-batches. Running
    statistics are updated with the mean over micro-batches. The batch must be a
    multiple of data-ranks * micro-batches.

    The pass runs before `dpc-shard`, because it depends on the strategy.
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
