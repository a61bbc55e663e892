//===- Passes.td - Passes of the sharded altitude --------------*- tablegen -*-===//
#ifndef DPC_PASSES_SHARD_TD
#define DPC_PASSES_SHARD_TD

include "mlir/Pass/PassBase.td"

def DpcShard : Pass<"dpc-shard", "::mlir::ModuleOp"> {
  let summary = "Gives every tensor a sharding for fixed degrees.";
  let description = [{
    Takes `@train_step` (or `@forward`) without encodings. Chooses for every op
    what the tensor and sequence axes do (passes/shard/StrategyGraph.h), writes the
    shardings into the types and inserts `dpc.reshard` where a value lies
    otherwise than its reader wants it. With `pp` ops are marked with their
    virtual stage before (passes/shard/Stages.h).

    Example (dp = 2):

    ```mlir
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    // becomes
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {} ]>> -> tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{} ], partial = {dp : sum}>>
    ```
  }];
  let options = [
    Option<"dp", "dp", "int64_t", "1", "Data-parallel degree.">,
    Option<"tp", "tp", "int64_t", "1", "Tensor-parallel degree.">,
    Option<"sp", "sp", "bool", "false", "Split norms along the sequence.">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches per step.">,
    Option<"zero", "zero", "int64_t", "0",
           "ZeRO stage: 1 splits states, 2 gradients, 3 parameters over dp and cp.">,
    Option<"cp", "cp", "int64_t", "1", "Ranks that share a sequence.">,
    Option<"cpKind", "cp-kind", "std::string", "\"ring\"",
           "How attention works over sequence shards: ring or ulysses.">,
    ListOption<"tpGrid", "tp-grid", "int64_t",
               "Sizes of tp0, tp1, ..: tp as several axes.">,
    Option<"ep", "ep", "int64_t", "1",
           "Ranks that share the experts of a mixture: a divisor of dp, or tp times one">,
    Option<"hybridShard", "hybrid-shard", "int64_t", "1",
           "ZeRO splits over so many of the dp ranks; 1 = all of them.">,
    Option<"pp", "pp", "int64_t", "1", "Pipeline stages.">,
    Option<"vpp", "vpp", "int64_t", "1", "Model chunks per stage.">,
    Option<"compressGradients", "compress-gradients", "std::string", "\"\"",
           "int8: mark reductions of gradients.">,
    Option<"compressWeights", "compress-weights", "std::string", "\"\"",
           "int8: mark gathers of ZeRO-3's parameters.">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "cluster.json or local:N; local:(dp * cp * tp) when empty.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcVerifySharded : Pass<"dpc-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Checks the invariants of the sharded altitude.";
  let description = [{
    For every function with an encoded value:

    * (C1) every tensor has a sharding, all over one mesh;
    * (C2) shardings fit the shapes (type factories do not check this);
    * (C3) only `dpc` and `func` ops occur, because others change or drop
      encodings in silence;
    * (C4) the function's signature and its block arguments agree.
  }];
}

#endif // DPC_PASSES_SHARD_TD
