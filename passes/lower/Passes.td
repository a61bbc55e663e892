//===- Passes.td - Passes that need a strategy and a cluster ---*- tablegen -*-===//
#ifndef DPC_PASSES_LOWER_TD
#define DPC_PASSES_LOWER_TD

include "mlir/Pass/PassBase.td"

def DpcShard : Pass<"dpc-shard", "::mlir::ModuleOp"> {
  let summary = "Gives every tensor a sharding for one strategy.";
  let description = [{
    Takes `@train_step` (or `@forward`) without encodings. Rewrites batch norms for
    the shards of the batch, marks ring attention, offloaded arguments and, with
    `pp`, the virtual stage of every op (passes/shard/Stages.h). Chooses for every
    op how tensor and sequence axes split it (passes/shard/StrategyGraph.h), writes
    the shardings into the types and inserts `dpc.reshard` where a reader needs
    another sharding of a value.

    Example (`strategy=dp=2`):

    ```mlir
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    // becomes
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {} ]>> -> tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{} ], partial = {dp : sum}>>
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"\"",
           "Keys and values as in --strategy; missing keys are neutral.">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches per step.">,
    Option<"compressGradients", "compress-gradients", "std::string", "\"\"",
           "Compression of gradient reductions: int8 or topk:SHARE.">,
    Option<"compressWeights", "compress-weights", "std::string", "\"\"",
           "Compression of ZeRO-3 parameter all_gathers: int8.">,
    Option<"linkSpeed", "link-speed", "double", "0",
           "Speed of the innermost links, in bytes per second, for which layouts are chosen; 0 = the speed in the cluster.">,
    ListOption<"stageRoom", "stage-room", "double",
               "For each stage, the largest fraction of the work that fits its memory; empty = no limit.">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "cluster.json or local:N; empty = local:N with the ranks of the strategy.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcPlaceRanks : Pass<"dpc-place-ranks", "::mlir::ModuleOp"> {
  let summary = "Marks step functions with the placement of ranks and its effects.";
  let description = [{
    Takes the step functions of the local altitude after dpc-recompute. Sets on
    each function

    * `dpc.placement`, if ranks are not on the devices in mesh order;
    * `dpc.batch_shares`, the number of micro-batches of each data-parallel rank,
      if these numbers differ; an error names the first op that forbids uneven
      shares.

    It also sets `dpc.KEY` for each strategy key that only the cost model reads,
    unless the value is neutral.

    Sets `dpc.inner`, for dpc-expand-hierarchy, on all_reduces that are faster as
    hierarchical all_reduces.

    Example (`strategy=dp=2,tp=2,placement=dp.tp`):

    ```mlir
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>}
    // becomes
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>, dpc.placement = ["dp", "tp"]}
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"\"",
           "Keys and values as in --strategy; missing keys are neutral.">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches per step.">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "cluster.json or local:N; empty = local:N with the ranks of the strategy.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

#endif // DPC_PASSES_LOWER_TD
