//===- Passes.td - Passes of the local altitude ----------------*- tablegen -*-===//
#ifndef DPC_PASSES_LOCAL_TD
#define DPC_PASSES_LOCAL_TD

include "mlir/Pass/PassBase.td"

def DpcPartition : Pass<"dpc-partition", "::mlir::ModuleOp"> {
  let summary = "Creates the program of one rank from the sharded function.";
  let description = [{
    Clones `@train_step` or `@forward`, whose tensors all carry `#dpc.sharding`
    over one mesh, op by op into a new function `@step` with local shapes and no
    encodings. The sharded function stays (tests compare with it) unless
    `drop-sharded` is set.

    * Arguments and results keep their `dpc.*` attributes and get `dpc.global`, the
      sharded type by which the runtime packs and unpacks shards. The function gets
      `dpc.mesh`.
    * `dpc.reshard` becomes the cheapest sequence of collectives
      (passes/shard/ReshardPlan.h).
    * `dpc.mask` overwrites padding that a reduction would read.
    * `dpc.accumulate` sums a value that is no longer partial over `mb`.
    * An op whose result depends on the position of its shard gets the type of the
      global tensor as `global`.
    * `dpc.phase` becomes `setup`, `forward`, `backward` or `update`.

    Example (a weight gradient summed over two data-parallel ranks):

    ```mlir
    %1 = dpc.reshard %0 : tensor<4x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}, {} ], partial = {dp : sum}>> -> tensor<4x8xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{}, {} ]>>
    // becomes
    %1 = dpc.all_reduce sum %0 axes = ["dp"] : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let options = [Option<"dropSharded", "drop-sharded", "bool", "false",
                        "Erase the sharded function.">];
  let dependentDialects = ["::dpc::DpcDialect", "::mlir::func::FuncDialect"];
}

def DpcSplitStages : Pass<"dpc-split-stages", "::mlir::ModuleOp"> {
  let summary = "Creates one function per pipeline stage.";
  let description = [{
    If the mesh of `@step` has an axis `pp` of more than one rank, `@step` becomes
    `@step.0`, `@step.1`, ..: the programs of the ranks with these coordinates.

    * An op with `dpc.stage = v` runs on rank stage `v mod pp`; with several
      chunks it gets `dpc.chunk = v div pp`.
    * An op without `dpc.stage` runs wherever it is read: ops that only move or
      create data are repeated, not sent. The optimizer runs on every stage that
      holds its parameter.
    * A value that another stage reads is sent (`dpc.send`, `dpc.recv`).
    * Arguments and results go to the stages that need them. An argument that
      several stages hold has `dpc.copy` on all but the first. One stage returns
      each result that is not the next value of an argument.
    * The schedule of every stage becomes `dpc.schedule`. With zb-h1, ops that
      compute only gradients of parameters go to phase `weight`.

    Example (two stages):

    ```mlir
    %1 = dpc.unary exp %0 {dpc.phase = "forward", dpc.stage = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
    %2 = dpc.unary log %1 {dpc.phase = "forward", dpc.stage = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
    // becomes, in @step.0
    %1 = dpc.unary exp %0 {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
    dpc.send %1 to = 1 tag = 0 {dpc.phase = "forward"} : tensor<4xf32>
    // and in @step.1
    %1 = dpc.recv from = 0 tag = 0 {dpc.phase = "forward"} : tensor<4xf32>
    %2 = dpc.unary log %1 {dpc.phase = "forward"} : tensor<4xf32> -> tensor<4xf32>
    ```
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "gpipe, 1f1b, interleaved or zb-h1.">,
    Option<"chunks", "chunks", "int64_t", "1",
           "Model chunks per rank stage, for interleaved.">,
    Option<"microBatches", "micro-batches", "int64_t", "0",
           "Number of micro-batches in the schedule; 0 = the size of mesh axis mb.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect", "::mlir::func::FuncDialect"];
}

def DpcExpandAttention : Pass<"dpc-expand-attention", "::mlir::ModuleOp"> {
  let summary = "Expands local attention into matmuls and row kernels.";
  let description = [{
    In functions of the local altitude (`dpc.mesh` is set):

        attention       s = q k^T; p, lse = attention_probs(s); out = p v
        attention_grad  s = q k^T; dp = dout v^T; delta = rowsum(dout * out);
                        p, ds = attention_scores_grad(s, lse, dp, delta);
                        dq = ds k; dk = ds^T q; dv = p^T dout

    Query heads that share a key head are folded into the rows of the matmuls:
    `[B, G * R, T, D]` is `[B, G, R * T, D]`. This copies nothing, and the matmuls
    sum dk and dv over the group. A window becomes a mask. Sinks become elementwise
    ops on out and lse, whatever computes the attention.

    `keep` names a library. An attention stays one op if the library has a kernel
    for it: `cudnn` (16 bits, no mask, causal with as many keys as queries, head_dim
    in multiples of 8 up to 128, and larger ones that the GPUs of `capability` have
    kernels for) or `loops`, the reference of the runtime on CPUs
    (16 or 32 bits, no mask). `any` keeps each attention on one rank, for estimates
    of other software. A gradient for cuDNN gets `dpc.workspace`, the bytes of
    memory that it needs. With `require`, any other attention is an error.
  }];
  let options = [
    Option<"keep", "keep", "std::string", "\"\"",
           "Keep an attention as one op if this library has a kernel for it: cudnn, loops, any.">,
    Option<"capability", "capability", "int64_t", "80",
           "The compute capability of the GPUs, times 10, for cudnn.">,
    Option<"require", "require", "bool", "false",
           "An attention that cannot stay one op is an error.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcRecompute : Pass<"dpc-recompute", "::mlir::ModuleOp"> {
  let summary = "Recomputes forward values in the backward pass instead of keeping them.";
  let description = [{
    In functions of the local altitude, values of the forward phase that the
    backward phase reads are recomputed directly before their readers. `mode`, or
    by default the function's attribute `dpc.recompute`, is

    * `none`: nothing is recomputed;
    * `selective`: ops other than GEMMs and collectives run again if this saves
      more bytes than it costs (a minimal cut). With `gather`, all_gathers along
      tensor axes (sequence parallelism) may also run again, so that a rank keeps
      only its shard of a sequence. With `gather-tokens`, so may those along the
      axis of experts, so that a rank keeps only its own tokens;
    * `full`: the forward phase is cut into blocks where few bytes are live, so
      that the values that cross cuts and the largest block together take the least
      memory. All other values are recomputed, except small results of collectives.
      Without a pipeline, the values of the last block are kept, because its
      backward phase follows at once. With `layers`, each layer (the longest
      repetition of equal ops) is a block, as in other frameworks, and values after
      the last layer are kept. With `whole`, all GEMMs and collectives of a layer
      run again, even if the backward pass does not read their results; they get
      the unit attribute `dpc.again`.

    Clones have the phase of their first reader, the unit attribute
    `dpc.recompute`, and the other attributes of the original. An all_gather of a
    parameter is not repeated if the backward phase gathers the same parameter.

    Example (`full`; the GEMM is kept, the activation is recomputed):

    ```mlir
    %1 = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %2 = dpc.unary gelu %1 {dpc.phase = "forward"} : tensor<8x4xf32> -> tensor<8x4xf32>
    %3 = dpc.binary mul %dy, %2 {dpc.phase = "backward"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    // becomes
    %1 = dpc.matmul %x, %w {dpc.phase = "forward"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %2 = dpc.unary gelu %1 {dpc.phase = "forward"} : tensor<8x4xf32> -> tensor<8x4xf32>
    %4 = dpc.unary gelu %1 {dpc.phase = "backward", dpc.recompute} : tensor<8x4xf32> -> tensor<8x4xf32>
    %3 = dpc.binary mul %dy, %4 {dpc.phase = "backward"} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
    ```
  }];
  let options = [Option<"mode", "mode", "std::string", "\"\"",
                        "none, selective or full; by default the attribute of the function.">,
                 Option<"omittedLayers", "omitted-layers", "int64_t", "0",
                        "Layers of the whole model that this program omits.">,
                 Option<"alive", "alive", "int64_t", "0",
                        "Micro-batches alive at once; 0 = as many as in the schedule.">,
                 Option<"blockLayers", "block-layers", "int64_t", "0",
                        "With full: the layers in each block; 0 = as many as need the least memory.">,
                 Option<"gather", "gather", "double", "0",
                        "Bytes of memory traffic that take as long as gathering one byte along tensor axes; 0 = selective repeats no such collective.">,
                 Option<"gatherTokens", "gather-tokens", "double", "0",
                        "The same along the axis of experts.">,
                 Option<"layers", "layers", "bool", "false",
                        "With full: each layer is a block.">,
                 Option<"whole", "whole", "bool", "false",
                        "With layers: all GEMMs and collectives of a layer run again.">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcBucketCollectives : Pass<"dpc-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "Merges small collectives into few large ones and issues them early.";
  let description = [{
    All_reduces, reduce_scatters and all_gathers with the same kind, axes, element
    type and phase are merged into one variadic op (a bucket), unless one depends
    on the result of another. A bucket has at most `bucket-bytes`, and no
    collective is added after a GEMM that waits for the bucket. Every reduction,
    and in the update phase every all_gather, moves directly after its last
    producer. Readers of merged collectives move after the bucket. The number of
    bytes sent does not change.

    In the micro-batch loop, all_gathers of values that exist when their phase
    begins (parameters under ZeRO-3) are merged up to `bucket-bytes` or 1/16 of the
    bytes that the phase gathers. Each bucket is issued before the first reader of
    an earlier bucket, so that at most twice this limit, or one bucket, is in
    flight.

    Example (the first matmul hides the second gather):

    ```mlir
    %1 = dpc.all_gather %w1 axes = ["dp"] {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<2x4x4xf32>
    %2 = dpc.matmul %x, %1 {dpc.phase = "forward"} : (tensor<2x8x4xf32>, tensor<2x4x4xf32>) -> tensor<2x8x4xf32>
    %3 = dpc.all_gather %w2 axes = ["dp"] {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<2x4x4xf32>
    // becomes
    %1 = dpc.all_gather %w1 axes = ["dp"] {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<2x4x4xf32>
    %3 = dpc.all_gather %w2 axes = ["dp"] {dpc.phase = "forward"} : tensor<4x4xf32> -> tensor<2x4x4xf32>
    %2 = dpc.matmul %x, %1 {dpc.phase = "forward"} : (tensor<2x8x4xf32>, tensor<2x4x4xf32>) -> tensor<2x8x4xf32>
    ```
  }];
  let options = [Option<"bucketBytes", "bucket-bytes", "int64_t", "26214400",
                        "Maximum bytes of a bucket.">,
                 Option<"depth", "depth", "double", "1",
                        "Depth of the whole model divided by the depth of this program.">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcCompressCollectives : Pass<"dpc-compress-collectives", "::mlir::ModuleOp"> {
  let summary = "Sends 8-bit codes in marked collectives.";
  let description = [{
    A collective with `dpc.compress = "int8"` sends blocks of 256 elements as int8
    codes with one f32 scale each. An all_reduce becomes an all_to_all of codes, a
    sum in f32 and an all_gather of codes. A reduce_scatter becomes an all_to_all
    and a sum, and an all_gather becomes an all_gather of codes. Each encoding
    changes an element by at most 1/254 of the largest magnitude in its block. The
    sum of one collective runs after the codes of the next collective, so that
    computation hides the first exchange. A collective does not change if its codes
    would take more bytes.

    An all_reduce with `dpc.compress = "topk:SHARE"` and `dpc.of`, a parameter,
    becomes all_gathers of the largest elements (the fraction SHARE of each block)
    and of their positions. A new argument, the state "residual" of the parameter,
    keeps the other elements, which are added in the next step (CompressTopK.h).

    Example (two ranks; the sum follows):

    ```mlir
    %1 = dpc.all_reduce sum %0 axes = ["dp"] {dpc.compress = "int8"} : (tensor<2048xf32>) -> tensor<2048xf32>
    // becomes
    %c1 = dpc.all_to_all %c0 axes = ["dp"] : tensor<2x4x256xi8> -> tensor<2x4x256xi8>
    %s1 = dpc.all_to_all %s0 axes = ["dp"] : tensor<2x4xf32> -> tensor<2x4xf32>
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcExpandHierarchy : Pass<"dpc-expand-hierarchy", "::mlir::ModuleOp"> {
  let summary = "Splits marked all_reduces into steps inside and across nodes.";
  let description = [{
    An all_reduce whose attribute `dpc.inner` names the axes inside a node becomes
    a reduce_scatter over these axes, an all_reduce of the piece over the other
    axes, and an all_gather over these axes. So each rank sends only one piece to
    other nodes. The tensors of a bucket are concatenated and padded to equal
    pieces. The compiler marks the all_reduces for which the cost model predicts
    that this is fastest.

    Example (two ranks per node):

    ```mlir
    %1 = dpc.all_reduce sum %0 axes = ["dp", "dpi"] {dpc.inner = ["dpi"]} : (tensor<8xf32>) -> tensor<8xf32>
    // becomes
    %1 = dpc.reshape %0 : tensor<8xf32> -> tensor<2x4xf32>
    %2 = dpc.reduce_scatter sum %1 axes = ["dpi"] : tensor<2x4xf32> -> tensor<4xf32>
    %3 = dpc.all_reduce sum %2 axes = ["dp"] : (tensor<4xf32>) -> tensor<4xf32>
    %4 = dpc.all_gather %3 axes = ["dpi"] : tensor<4xf32> -> tensor<2x4xf32>
    %5 = dpc.reshape %4 : tensor<2x4xf32> -> tensor<8xf32>
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcVerifyLocal : Pass<"dpc-verify-local", "::mlir::ModuleOp"> {
  let summary = "Checks the invariants of the local altitude.";
  let description = [{
    For every function with `dpc.mesh`:

    * (C1) no value type has an encoding;
    * (C2) axes of collectives are rank axes of the mesh (`mb` only in
      `rank_slice`) in mesh order, and stacked operands have as many pieces as
      there are ranks;
    * (C3) every op has a `dpc.phase`: setup, forward, backward, weight or update;
      neither phases nor chunks decrease;
    * (C4) no op reads a value of a later phase; results of `accumulate` are read
      in the update phase, or in a phase that `dpc.schedule` runs after all
      micro-batches of the accumulation;
    * (C5) arguments and results have a `dpc.global`, whose local type equals their
      type;
    * (C6) arguments with `dpc.space` are only fetched, stored to and returned.
  }];
}

def DpcOffload : Pass<"dpc-offload", "::mlir::ModuleOp"> {
  let summary = "Copies arguments from and to other memory spaces.";
  let description = [{
    In functions of the local altitude, arguments with `dpc.space` are in host
    memory or on disk. Their readers read a `dpc.fetch` instead, and their next
    values go through a `dpc.store`. Runs last, on formed kernels.

    * Every phase fetches the arguments that it reads. Its ops are divided into
      sequences whose arguments are no larger than the largest set that one op
      needs. The device has the arguments of at most two sequences (double
      buffering).
    * A store comes after the last reader of the old value.
    * Results that setup derives only from arguments with `dpc.at_use` (copies in
      another type, gathers) are recomputed in each phase that reads them.

    Example (`%m` has `dpc.space = "host"`):

    ```mlir
    %1 = dpc.kernel %m, %g {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> { .. }
    return %1 : tensor<4xf32>
    // becomes
    %0 = dpc.fetch %m {dpc.phase = "update"} : tensor<4xf32> -> tensor<4xf32>
    %1 = dpc.kernel %0, %g {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> { .. }
    %2 = dpc.store %1 into %m {dpc.phase = "update"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcTileExperts : Pass<"dpc-tile-experts", "::mlir::ModuleOp"> {
  let summary = "Computes split experts on tiles of the rows that a rank has.";
  let description = [{
    In functions of the local altitude, a rank that has some of the experts gets the
    rows of all tokens of its group, and computes zeros for most of them. The
    products of experts of one phase with the same ids, and the ops on rows around
    them, become a `dpc.expert_tiles`, whose work and memory are those of the rows of
    the rank's experts:

    * the op takes rows of tokens and gates, and adds rows to sums over the choices
      of a token, and to the gradients of matrices, in f32 if the rows are bf16 or
      f16;
    * rows of a forward phase that a backward phase reads are computed again there,
      so that only what the op takes is kept between the phases;
    * gradients of gates that multiply rows of experts do not need these rows
      (TileGates.cpp);
    * products whose experts are not split stay as they are, because they have no
      rows of other ranks.

    If the ranks of the experts gather the rows, and scatter the sums, in collectives
    that take longer than exchanging the rows, the op exchanges them (`exchange` in
    DpcLocalOps.td) instead (ExchangeRows.cpp). The options are
    the costs of the collectives; without them, no rows are exchanged.

    A tile has `rows` rows, or by default a quarter of those that the rank's experts
    get from a balanced router, so that the last tile wastes little.

    Example:

    ```mlir
    %1 = dpc.expert_matmul %x, %i, %w global = tensor<8x16x16xf32, #ep> : (tensor<32x16xf32>, tensor<32xi64>, tensor<4x16x16xf32>) -> tensor<32x16xf32>
    // becomes
    %1 = dpc.expert_tiles %i, %x, %w in = [1, 0] out = [1] global = tensor<8x16x16xf32, #ep> : (tensor<32xi64>, tensor<32x16xf32>, tensor<4x16x16xf32>) -> tensor<32x16xf32> {
    ^bb0(%t: tensor<16xi64>, %r: tensor<16x16xf32>, %m: tensor<4x16x16xf32>):
      %p = dpc.expert_matmul %r, %t, %m global = tensor<8x16x16xf32, #ep> : (tensor<16x16xf32>, tensor<16xi64>, tensor<4x16x16xf32>) -> tensor<16x16xf32>
      dpc.yield %p : tensor<16x16xf32>
    }
    ```
  }];
  let options = [
    Option<"rows", "rows", "int64_t", "0", "Rows of a tile; 0 = a quarter of the expected ones.">,
    Option<"gatherStart", "gather-start", "double", "0", "Seconds of an empty all_gather over the ranks of the experts.">,
    Option<"gatherByte", "gather-byte", "double", "0", "Seconds per byte of its result.">,
    Option<"exchangeStart", "exchange-start", "double", "0", "Seconds of an empty all_to_all over the same ranks.">,
    Option<"exchangeByte", "exchange-byte", "double", "0", "Seconds per byte that a rank sends.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcFormKernels : Pass<"dpc-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups ops of the local altitude into dpc.kernel.";
  let description = [{
    In functions of the local altitude, every op except matmuls, collectives,
    accumulations and large constants becomes part of a `dpc.kernel`:

    * elementwise ops over one shape share a kernel, which has several results if
      other ops read values inside; small constants are copied into their readers;
    * softmax, norms and their gradients are fused with adjacent elementwise ops of
      the same shape; a reduction is fused with elementwise producers that no other
      op reads; the sums of a cross entropy are fused with the maxima of their
      rows;
    * a fusion crosses no phase, never makes a kernel wait for itself, and never
      delays another reader of its values.

    `dpc.transpose`, `dpc.slice` and `dpc.broadcast` stay outside with `dpc.view`
    if every reader accepts strided data, and become copying kernels otherwise. A
    matmul whose result is transposed gets `dpc.out_perm` if its other readers
    accept strides: it writes the transposed layout, and the transpose is dense.

    Example:

    ```mlir
    %1 = dpc.binary add %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = dpc.unary gelu %1 : tensor<4xf32> -> tensor<4xf32>
    // becomes
    %2 = dpc.kernel %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
      %s = dpc.binary add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %r = dpc.unary gelu %s : tensor<4xf32> -> tensor<4xf32>
      dpc.yield %r : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcFuseEpilogues : Pass<"dpc-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Fuses GEMMs with their epilogues, for GPUs.";
  let description = [{
    In functions of the local altitude, a matmul of the micro-batch loop and the
    kernels that cuBLASLt computes as its epilogue become one `dpc.kernel` with
    `dpc.epilogue`, at the place of the matmul. Epilogues are a bias, gelu or relu,
    the stored argument of gelu, the gradient of gelu, sums over the rows of the
    result or of an operand (bias gradients), and a conversion to f32. One call
    must support the layouts of the operands (one GEMM, the same bias in all rows,
    rows of a stored matrix at multiples of 8 elements).

    * Views, conversions and accumulations that read sums of rows move after the
      matmul.
    * If a `dpc.accumulate` is the only reader of the result, the matmul adds to
      the accumulation buffer, and the `dpc.accumulate` becomes a view
      (`dpc.view`).
    * If a kernel writes a value and, for sums of rows, its f32 copy, the copy is
      removed, and the sums convert the value.

    Runs last, on formed kernels and fetched arguments.

    Example:

    ```mlir
    %0 = dpc.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    %1 = dpc.kernel %0 : (tensor<4x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%s: tensor<4x8xf32>):
      %r = dpc.unary relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
      dpc.yield %r : tensor<4x8xf32>
    }
    // becomes
    %1 = dpc.kernel %x, %w {dpc.epilogue = "relu"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32> {
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<8x8xf32>):
      %s = dpc.matmul %a, %b : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %r = dpc.unary relu %s : tensor<4x8xf32> -> tensor<4x8xf32>
      dpc.yield %r : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::dpc::DpcDialect"];
}

#endif // DPC_PASSES_LOCAL_TD
