//===- DpcOpBase.td - Base classes of ops ----------------------*- tablegen -*-===//
#ifndef DPC_OP_BASE_TD
#define DPC_OP_BASE_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "ir/DpcDialect.td"
include "ir/DpcEnums.td"
include "ir/DpcAttrs.td"
include "ir/DpcInterfaces.td"

// Import binds symbolic dimensions, so all shapes are static.
defvar Dpc_Tensor = StaticShapeTensorOf<[AnyInteger, AnyFloat]>;

/// Checks the encodings of operands and results against the sharding rule.
def Dpc_ShardingVerified : NativeOpTrait<"ShardingVerified"> {
  let cppNamespace = "::dpc::OpTrait";
}

class Dpc_Cost<bit computes> {
  Trait trait = !if(computes, DeclareOpInterfaceMethods<Dpc_CostOpInterface, ["getFlops"]>,
                    Dpc_CostOpInterface);
}

/// An op of the graph and sharded altitudes. Most are also legal at the local
/// altitude. Ops have one result unless they define others. `computes` is false for
/// ops that only move data; they have no getFlops() in ir/Cost.cpp.
class Dpc_Op<string mnemonic, list<Trait> traits = [], bit computes = true>
    : Op<Dpc_Dialect, mnemonic, !listconcat([
          Pure, Dpc_ShardingVerified,
          DeclareOpInterfaceMethods<Dpc_ShardingRuleOpInterface>,
          Dpc_Cost<computes>.trait],
        traits)> {
  let results = (outs Dpc_Tensor:$result);
  let hasVerifier = 1;
}

/// An op of the local altitude only. Collectives are not speculatable and must
/// keep their order, so they are not Pure.
class Dpc_LocalOp<string mnemonic, list<Trait> traits = [], bit computes = true>
    : Op<Dpc_Dialect, mnemonic, !listconcat(traits, [Dpc_Cost<computes>.trait])> {
  let results = (outs Dpc_Tensor:$result);
  let hasVerifier = 1;
}

class Dpc_KernelRoleIs<string parameters>
    : ParamNativeOpTrait<"KernelRoleIs", parameters> {
  let cppNamespace = "::dpc::OpTrait";
}

/// Implements FusionOpInterface according to `role` (ir/KernelRole.h).
class Dpc_KernelRole<string role, string cheap = "false"> : TraitList<[
    Dpc_KernelRoleIs<"::dpc::KernelRole::" # role # ", " # cheap>,
    Dpc_FusionOpInterface]>;

#endif // DPC_OP_BASE_TD
