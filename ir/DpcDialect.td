//===- DpcDialect.td - The dpc dialect -------------------------*- tablegen -*-===//
#ifndef DPC_DIALECT_TD
#define DPC_DIALECT_TD

include "mlir/IR/OpBase.td"

def Dpc_Dialect : Dialect {
  let name = "dpc";
  let cppNamespace = "::dpc";
  let summary = "Tensor programs whose types tell where each value lives.";
  let description = [{
    One dialect serves three altitudes:

    * *graph*: ops on global tensors, no encodings;
    * *sharded*: the same ops, every tensor type carries `#dpc.sharding` as its
      encoding, `dpc.reshard` stands where producer and consumer differ;
    * *local*: what one rank executes: local shapes, no encodings, explicit
      collectives, every op marked with the phase it runs in.

    Functions carry the meaning of their arguments as argument attributes:
    `dpc.name` (name in the source model), `dpc.role` (`parameter`, `buffer`,
    `state`, `input`, `scalar`), for optimizer states `dpc.of` (the parameter;
    absent in states of the whole step) and `dpc.slot`, for states that do not
    start from 0 `dpc.init`, for scalars that do not count all steps
    `dpc.skips`, and for weights with data `dpc.source`. Results carry
    `dpc.name` and, where a result replaces an argument from one step to the
    next, `dpc.ties` (the argument's index). At the local altitude a parameter
    or state may have `dpc.space`, `"host"` or `"disk"`: where it lies instead
    of the device's memory; with `dpc.at_use` no copy of it, or of what is made
    of it, stays on the device from one phase to the next.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 0;
  let hasConstantMaterializer = 1;
}

#endif // DPC_DIALECT_TD
