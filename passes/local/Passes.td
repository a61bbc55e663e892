//===- Passes.td - Passes of the local altitude ----------------*- tablegen -*-===//
#ifndef DPC_PASSES_LOCAL_TD
#define DPC_PASSES_LOCAL_TD

include "mlir/Pass/PassBase.td"

def DpcPartition : Pass<"dpc-partition", "::mlir::ModuleOp"> {
  let summary = "Makes the program of one rank out of the sharded function.";
  let description = [{
    Clones `@train_step` or `@forward`, whose tensors all carry `#dpc.sharding`
    over one mesh, op by op into a new function `@step` with local shapes and no
    encodings. The sharded function stays (it is the oracle of tests) unless
    `drop-sharded` is set.

    * Arguments and results keep their `dpc.*` attributes and get `dpc.global`,
      the sharded type, from which the runtime packs and unpacks shards. The
      function gets `dpc.mesh`.
    * `dpc.reshard` becomes the cheapest sequence of collectives
      (passes/shard/ReshardPlan.h).
    * Padding that a reduction would read is overwritten by `dpc.mask`.
    * A value that stops being partial over `mb` goes through `dpc.accumulate`.
    * Ops whose result depends on the position in the global tensor get their
      `global` type.
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
  let summary = "Makes one function per pipeline stage.";
  let description = [{
    Where the mesh of `@step` has an axis `pp` of more than one rank, `@step`
    becomes `@step.0`, `@step.1`, ...: what the ranks with that coordinate run.

    * An op with `dpc.stage = v` runs on rank stage `v mod pp`; with several
      chunks it gets `dpc.chunk = v div pp`.
    * An op without runs wherever it is read; what only moves or makes data is
      repeated, not sent. The optimizer runs on every stage that holds its
      parameter.
    * A value that another stage reads is sent there (`dpc.send`, `dpc.recv`).
    * Arguments and results go to the stages that need them. An argument that
      several stages hold has `dpc.copy` on all but the first. What is returned
      besides the next values of arguments is returned by one stage.
    * The schedule of every stage becomes `dpc.schedule`. For zb-h1 what makes
      gradients of parameters only goes to phase `weight`.

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
           "Model chunks per rank stage (interleaved).">,
    Option<"microBatches", "micro-batches", "int64_t", "0",
           "Micro-batches of the schedule; 0 = as the mesh has.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect", "::mlir::func::FuncDialect"];
}

def DpcExpandAttention : Pass<"dpc-expand-attention", "::mlir::ModuleOp"> {
  let summary = "Turns local attention into matmuls and row kernels.";
  let description = [{
    In functions of the local altitude (`dpc.mesh` is set):

        attention       s = q k^T; p, lse = attention_probs(s); out = p v
        attention_grad  s = q k^T; dp = dout v^T; delta = rowsum(dout * out);
                        p, ds = attention_scores_grad(s, lse, dp, delta);
                        dq = ds k; dk = ds^T q; dv = p^T dout

    Query heads of one key head are folded into the rows of the matmuls
    (`[B, G * R, T, D]` is `[B, G, R * T, D]`), which costs nothing and sums dk
    and dv over the group.

    With `keep`, an attention stays one op where that library has it as one
    kernel: `cudnn` (16 bits, no mask, heads of up to 128 numbers, multiples of
    8, causal with as many keys as queries) or `loops`, the runtime's reference
    on CPUs (16 or 32 bits, no mask). A gradient for cuDNN gets the attribute
    `dpc.workspace`, the bytes that it needs meanwhile. `require` refuses what it cannot keep.
  }];
  let options = [
    Option<"keep", "keep", "std::string", "\"\"",
           "Attention stays one op where this has it: cudnn, loops.">,
    Option<"require", "require", "bool", "false",
           "An attention that cannot stay one op is an error.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcRecompute : Pass<"dpc-recompute", "::mlir::ModuleOp"> {
  let summary = "Makes forward values again for backward instead of keeping them.";
  let description = [{
    In functions of the local altitude, values of the forward phase that the
    backward phase reads are computed a second time right before their readers.
    `mode`, or else the function's attribute `dpc.recompute`, is

    * `none`: nothing happens;
    * `selective`: ops other than products and collectives run again where that
      frees more bytes than it costs (a minimal cut); with `gather`, also
      gathers along tensor axes, as those of sequence parallelism are: a rank
      then keeps its share of a sequence instead of all of it;
    * `full`: the forward phase is cut into blocks where few bytes are live, so
      that what crosses the cuts and the largest block take the least memory
      together; all else is made again, collectives included unless their result
      is small. Without a pipeline the last block is kept: its backward phase
      follows at once. With `layers`, for estimates of software that does so,
      every layer (the longest repetition of equal ops) is a block, and what
      comes behind the last one is kept. With `whole`, products and
      collectives of a layer that backward has no use for run again with it:
      they get the unit attribute `dpc.again`.

    Clones have the phase of their first reader, the unit attribute
    `dpc.recompute`, and else the attributes of the original. Ops that gather a
    parameter are not repeated when the backward phase gathers it too.

    Example (`full`; the product is kept, the bias is added again):

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
                        "none, selective or full; by default what the function says.">,
                 Option<"depth", "depth", "double", "1",
                        "The program stands for one so many times as deep.">,
                 Option<"alive", "alive", "int64_t", "0",
                        "Micro-batches alive at once; 0: as the schedule has them.">,
                 Option<"gather", "gather", "double", "0",
                        "Bytes of memory traffic that gathering a byte along tensor axes is worth; 0: selective repeats no collective.">,
                 Option<"layers", "layers", "bool", "false",
                        "full: a block for every layer.">,
                 Option<"whole", "whole", "bool", "false",
                        "layers: they run to their end again.">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcBucketCollectives : Pass<"dpc-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "Merges small collectives into few large ones, issues them early.";
  let description = [{
    All-reduces, reduce-scatters and all-gathers of one kind, axis list, element
    type and phase become one variadic op, unless one needs another's result. A
    bucket is closed when it reaches `bucket-bytes`, or when a contraction waits
    for it. Every reduction, and in the update phase every gather, moves right
    behind the last of its producers, readers of merged ones behind the bucket.
    The bytes sent do not change.

    In the loop, gathers of what is there when their phase begins (parameters
    under ZeRO-3) are merged up to `bucket-bytes` or 1/16 of what the phase
    gathers, and issued ahead: before the first reader of an earlier bucket, so
    far that what is under way is at most two such limits, or one bucket.

    Example (the second gather runs beside the first product):

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
                        "Close a bucket at this many bytes.">,
                 Option<"depth", "depth", "double", "1",
                        "The program stands for one so many times as deep, whose phases gather as many times as much.">];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcCompressCollectives : Pass<"dpc-compress-collectives", "::mlir::ModuleOp"> {
  let summary = "Lets marked collectives send 8-bit codes.";
  let description = [{
    A collective with `dpc.compress = "int8"` sends blocks of 256 numbers as
    int8 codes with one f32 scale each: an all-reduce becomes an all-to-all of
    codes, a sum in f32 and an all-gather of codes, a reduce-scatter the first
    part of that, an all-gather the last. A number is off by at most 1/254 of
    the largest of its block each time it is coded (the .cpp file says when). The
    sum of one collective is taken behind the codes of the next one, so that it
    waits beside the computation in between. A collective of so few numbers that
    codes would take more bytes stays as it is.

    An all-reduce with `dpc.compress = "topk:SHARE"` and `dpc.of`, a parameter,
    becomes all-gathers of that share of each block, the largest, and of their
    positions. What is left stays in a state "residual" of the parameter, a new
    argument, and is added in the next step (CompressTopK.h).

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
  let summary = "Lets marked all-reduces go by machines.";
  let description = [{
    An all-reduce whose attribute `dpc.inner` names the axes that lie inside a
    machine becomes a reduce-scatter over these, an all-reduce of the piece over
    the others, and an all-gather, so that a machine sends only its piece. The
    tensors of a bucket are put together, and padded to equal pieces. The compiler
    marks those for which the cost model says that this is fastest.

    Example (two ranks a machine):

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
      ranks;
    * (C3) every op has a `dpc.phase`, one of setup, forward, backward, weight,
      update, and neither phases nor chunks go back;
    * (C4) an op of one phase reads no value of a later one; results of
      `accumulate` are read in the update phase only;
    * (C5) arguments and results carry `dpc.global`, whose local type is theirs;
    * (C6) arguments with `dpc.space` are fetched, stored to and returned only.
  }];
}

def DpcOffload : Pass<"dpc-offload", "::mlir::ModuleOp"> {
  let summary = "Copies arguments of other memory spaces in and out.";
  let description = [{
    In functions of the local altitude, arguments with `dpc.space` lie in host
    memory or on disk. Their readers read a `dpc.fetch` instead, and their next
    values go through a `dpc.store`. Runs last, on formed kernels.

    * Every phase fetches anew what it reads, with as little at once on the
      device as double buffering allows: what one run of ops reads, and what
      the next does, each no larger than the most that a single op needs.
    * A store stands behind the last reader of the old value.
    * What the setup phase makes of arguments with `dpc.at_use` alone (copies in
      another type, gathers) is made anew in each phase that reads it.

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

def DpcFormKernels : Pass<"dpc-form-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups ops of the local altitude into dpc.kernel.";
  let description = [{
    In functions of the local altitude every op but matmuls, collectives,
    accumulations and large constants ends up in a `dpc.kernel`:

    * elementwise ops over one shape share a kernel, with several results where
      values are read elsewhere; small constants are copied into their readers;
    * softmax, norms and their gradients take elementwise neighbours with the
      same rows; a reduction takes producers that nothing else reads; sums of a
      cross entropy take the greatest of each of their rows;
    * a fusion never makes a kernel wait for itself, crosses no phase, and
      never delays another reader of what it computes.

    `dpc.transpose`, `dpc.slice` and `dpc.broadcast` stay outside with `dpc.view`
    when every reader can take strided data, and become copying kernels
    otherwise. A matmul whose result is transposed gets
    `dpc.out_perm` if its other readers take strides: it writes the transposed layout, and the transpose is dense.

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
    In functions of the local altitude, a matmul of the loop and the kernels that
    cuBLASLt does in passing become one `dpc.kernel` with `dpc.epilogue`, at the
    place of the matmul: adding a bias, gelu or relu, keeping what gelu is applied
    to, gelu's gradient, sums of its rows or of a factor's (bias gradients),
    converting to f32. Only what one call can do where its operands lie is taken
    (one GEMM, a bias that is the same in all rows, rows of a kept matrix
    at multiples of 8 elements).

    * The readers of sums of rows move behind the matmul: views, conversions and
      sums over micro-batches.
    * A `dpc.accumulate` that alone reads the result becomes a view (`dpc.view`):
      the matmul adds to what lies there.
    * A kernel that writes a value and a copy of it in f32 for sums of rows writes
      the value alone; the sums convert it.

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
