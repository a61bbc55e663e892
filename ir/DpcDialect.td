//===- DpcDialect.td - The dpc dialect -------------------------*- tablegen -*-===//
#ifndef DPC_DIALECT_TD
#define DPC_DIALECT_TD

include "mlir/IR/OpBase.td"

def Dpc_Dialect : Dialect {
  let name = "dpc";
  let cppNamespace = "::dpc";
  let summary = "Tensor programs whose types contain the shardings of all values.";
  let description = [{
    One dialect serves three altitudes:

    * *graph*: ops on global tensors, without encodings;
    * *sharded*: the same ops. Every tensor type has a `#dpc.sharding` as its
      encoding. A `dpc.reshard` is between a producer and a consumer whose shardings
      differ;
    * *local*: the program of one rank. It has local shapes, no encodings and
      explicit collectives, and every op is marked with its phase.

    Attributes describe the arguments of functions:

    * `dpc.name` is the name in the source model;
    * `dpc.role` is `parameter`, `buffer`, `state`, `input` or `scalar`;
    * `dpc.of` on an optimizer state is its parameter. States of the whole step do
      not have it;
    * `dpc.slot` is the kind of a state;
    * `dpc.init` is the initial value of a state (without it, the value is 0), or
      that of a scale or bias of a norm with --init=random;
    * `dpc.skips` on a scalar names the state that counts skipped steps;
    * `dpc.source` is the location of the data of a weight;
    * `dpc.aliases` are the other names of a tied weight;
    * `dpc.frozen` marks a parameter of the model that is not trained.
    * `dpc.unsaved` marks a buffer that files of weights lack.

    Results have `dpc.name`. A result that is the next value of an argument has
    `dpc.ties`, the index of the argument. At the local altitude, a parameter or
    state may have `dpc.space`: it is in `"host"` memory or on `"disk"` instead of
    in device memory. With `dpc.at_use`, no copy of it and no value computed from it
    stays on the device from one phase to the next.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 0;
  let hasConstantMaterializer = 1;
}

#endif // DPC_DIALECT_TD
