//===- Passes.td - Passes that need a strategy and a cluster ---*- tablegen -*-===//
#ifndef DPC_PASSES_LOWER_TD
#define DPC_PASSES_LOWER_TD

include "mlir/Pass/PassBase.td"

def DpcShard : Pass<"dpc-shard", "::mlir::ModuleOp"> {
  let summary = "Gives every tensor a sharding for one strategy.";
  let description = [{
    Takes `@train_step` (or `@forward`) without encodings. Rewrites batch norms
    for the shards of the batch, marks rings of attention, offloaded arguments
    and, with `pp`, the virtual stage of every op (passes/shard/Stages.h).
    Chooses what the tensor and sequence axes do in every op
    (passes/shard/StrategyGraph.h), writes the shardings into the types and
    inserts `dpc.reshard` where a value's sharding is not the one that its
    reader takes.

    Example (`strategy=dp=2`):

    ```mlir
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32> -> tensor<4xf32>
    // becomes
    %1 = dpc.reduce sum %0 dims = [0] : tensor<8x4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{dp}, {} ]>> -> tensor<4xf32, #dpc.sharding<#dpc.mesh<dp=2>, [{} ], partial = {dp : sum}>>
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"\"",
           "In the form of --strategy; other keys are neutral.">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches per step.">,
    Option<"compressGradients", "compress-gradients", "std::string", "\"\"",
           "int8 or topk:SHARE: mark reductions of gradients.">,
    Option<"compressWeights", "compress-weights", "std::string", "\"\"",
           "int8: mark gathers of ZeRO-3's parameters.">,
    Option<"linkSpeed", "link-speed", "double", "0",
           "Bytes per second of the innermost links for which layouts are chosen; 0 = the cluster's.">,
    ListOption<"stageRoom", "stage-room", "double",
               "By stage, the most of the work, of 1, that it has memory for.">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "cluster.json or local:N; empty: local:N for the strategy's ranks.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

def DpcPlaceRanks : Pass<"dpc-place-ranks", "::mlir::ModuleOp"> {
  let summary = "Marks step functions with what follows from where ranks are.";
  let description = [{
    Takes the step functions of the local altitude, behind dpc-recompute. Sets
    on each of them

    * `dpc.placement`, where ranks are not on the devices in mesh order;
    * `dpc.batch_shares`, the micro-batches of each data-parallel rank, where
      these differ; an error names the first op that forbids it;

    and `dpc.inner` on all_reduces that are faster by nodes, for
    dpc-expand-hierarchy.

    Example (`strategy=dp=2,tp=2,placement=dp.tp`):

    ```mlir
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>}
    // becomes
    func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> attributes {dpc.mesh = #dpc.mesh<dp=2, tp=2>, dpc.placement = ["dp", "tp"]}
    ```
  }];
  let options = [
    Option<"strategy", "strategy", "std::string", "\"\"",
           "In the form of --strategy; other keys are neutral.">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "Micro-batches per step.">,
    Option<"cluster", "cluster", "std::string", "\"\"",
           "cluster.json or local:N; empty: local:N for the strategy's ranks.">,
  ];
  let dependentDialects = ["::dpc::DpcDialect"];
}

#endif // DPC_PASSES_LOWER_TD
