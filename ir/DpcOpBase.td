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

/// Runs the sharding rule over the encodings of operands and results.
def Dpc_ShardingVerified : NativeOpTrait<"ShardingVerified"> {
  let cppNamespace = "::dpc::OpTrait";
}

/// An op of the graph and sharded altitudes (most are also legal locally).
class Dpc_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dpc_Dialect, mnemonic, !listconcat([
          Pure, Dpc_ShardingVerified,
          DeclareOpInterfaceMethods<Dpc_ShardingRuleOpInterface>,
          DeclareOpInterfaceMethods<Dpc_CostOpInterface, ["getFlops"]>],
        traits)> {
  let hasVerifier = 1;
}

/// An op of the local altitude only. Collectives are not speculatable and keep
/// their order, so they are not Pure.
class Dpc_LocalOp<string mnemonic, list<Trait> traits = []>
    : Op<Dpc_Dialect, mnemonic, !listconcat(traits, [
          DeclareOpInterfaceMethods<Dpc_CostOpInterface, ["getFlops"]>])> {
  let hasVerifier = 1;
}

class Dpc_KernelRoleIs<string parameters>
    : ParamNativeOpTrait<"KernelRoleIs", parameters> {
  let cppNamespace = "::dpc::OpTrait";
}

/// Implements FusionOpInterface (ir/KernelRole.h).
class Dpc_KernelRole<string role, string cheap = "false"> : TraitList<[
    Dpc_KernelRoleIs<"::dpc::KernelRole::" # role # ", " # cheap>,
    Dpc_FusionOpInterface]>;

// Symbolic dimensions are bound at import; no op can be built with one.
defvar Dpc_Tensor = StaticShapeTensorOf<[AnyInteger, AnyFloat]>;
defvar Dpc_Float = FloatLike;

#endif // DPC_OP_BASE_TD
