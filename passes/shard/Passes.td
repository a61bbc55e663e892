//===- Passes.td - Passes of the sharded altitude --------------*- tablegen -*-===//
#ifndef DPC_PASSES_SHARD_TD
#define DPC_PASSES_SHARD_TD

include "mlir/Pass/PassBase.td"

def DpcVerifySharded : Pass<"dpc-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Checks the invariants of the sharded altitude.";
  let description = [{
    For every function with an encoded value:

    * (C1) every tensor has a sharding, all over one mesh;
    * (C2) shardings fit the shapes (type factories do not check this);
    * (C3) only `dpc` and `func` ops occur, because others silently change or
      drop encodings;
    * (C4) the function's signature and its block arguments agree.
  }];
}

#endif // DPC_PASSES_SHARD_TD
