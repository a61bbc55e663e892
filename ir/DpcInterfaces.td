//===- DpcInterfaces.td - What the compiler asks an op ---------*- tablegen -*-===//
#ifndef DPC_INTERFACES_TD
#define DPC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Dpc_ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The one description of how an op may be split. Verifier, propagation,
    search, cost and partitioning read this and nothing else.
  }];
  let methods = [InterfaceMethod<[{
      The op's iteration dimensions and how operand and result dimensions map
      to them; see ir/ShardingRule.h. Derived from the shapes of the op's
      current operand and result types.
    }], "::dpc::ShardingRule", "getShardingRule", (ins)>];
}

def Dpc_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    What an op costs, from its own (global or local) types.
  }];
  let methods = [
    InterfaceMethod<[{
      Floating-point operations of one execution; a multiply-add counts as two.
    }], "double", "getFlops", (ins)>,
    InterfaceMethod<[{
      Bytes read and written by one execution when nothing is fused.
    }], "double", "getBytes", (ins), "", [{
      return ::dpc::detail::operandAndResultBytes($_op);
    }]>,
  ];
}

def Dpc_VjpOpInterface : OpInterface<"VjpOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The vector-Jacobian product of an op. Implemented in passes/graph and
    attached there as external models.
  }];
  let methods = [InterfaceMethod<[{
      Builds the gradient of each operand. `resultGrads[i]` is the gradient of
      result i, or null when nothing flows back through it. `wanted[i]` tells
      whether operand i's gradient is used. On success `operandGrads` has one
      entry per operand, null where the gradient is zero or unwanted. Fails
      with a diagnostic when the op is not differentiable in a wanted operand.
    }], "::llvm::LogicalResult", "buildVjp",
    (ins "::mlir::OpBuilder &":$builder,
         "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
         "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>];
}

def Dpc_LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    How an op of the local altitude becomes instructions. Implemented in
    codegen and attached there as external models.
  }];
  let methods = [
    InterfaceMethod<[{
      Which lowering takes the op: `matmul` (a product or a convolution: a
      library call), `elementwise` (part of a fused elementwise kernel),
      `kernel` (a kernel of its own), `collective`, or `view` (no instruction:
      the result shares the operand's buffer).
    }], "::dpc::LoweringKind", "getLoweringKind", (ins)>,
  ];
}

def Dpc_CommunicationOpInterface : OpInterface<"CommunicationOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    An op that exchanges data with other ranks: a collective, a send or a recv.
    The communication queue runs it.
  }];
}

def Dpc_CollectiveOpInterface : OpInterface<"CollectiveOpInterface",
    [Dpc_CommunicationOpInterface]> {
  let cppNamespace = "::dpc";
  let description = [{
    A collective over the ranks of some mesh axes. A bucket of tensors shares
    one call: operand i belongs to result i.
  }];
  let methods = [
    InterfaceMethod<[{
      Names of the mesh axes (an array of strings), in the order of the mesh.
    }], "::mlir::ArrayAttr", "getAxes", (ins)>,
    InterfaceMethod<[{
      Which collective it is.
    }], "::dpc::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<[{
      How values of ranks are combined; nullopt where they only travel.
    }], "std::optional<::dpc::ReduceKind>", "getReduceKind", (ins), "", [{
      return std::nullopt;
    }]>,
    InterfaceMethod<[{
      The values whose bytes a cost model counts: the results of an all_gather,
      the operands of all others.
    }], "::mlir::ValueRange", "getPayload", (ins), "", [{
      return $_op->getOperands();
    }]>,
    InterfaceMethod<[{
      The operands or results whose leading dimension counts the ranks.
    }], "::mlir::ValueRange", "getStacks", (ins), "", [{
      return ::mlir::ValueRange();
    }]>,
  ];
  let extraSharedClassDeclaration = [{
    /// Whether `axis` is one of its axes.
    bool isOver(::llvm::StringRef axis) {
      return ::llvm::any_of($_op.getAxes(), [&](::mlir::Attribute name) {
        return ::mlir::cast<::mlir::StringAttr>(name).getValue() == axis;
      });
    }
  }];
}

def Dpc_FusionOpInterface : OpInterface<"FusionOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    How an op of the local altitude takes part in generated kernels. Ops without
    it (matmuls, collectives, ..) never do. The trait `KernelRoleIs` implements
    it from the op's role; see ir/KernelRole.h.
  }];
  let methods = [
    InterfaceMethod<[{
      What the op is to kernel formation.
    }], "::dpc::KernelRole", "getKernelRole", (ins)>,
    InterfaceMethod<[{
      The shape that a kernel of the op iterates over.
    }], "::llvm::ArrayRef<int64_t>", "getIterationShape", (ins)>,
    InterfaceMethod<[{
      Whether computing the op once per pass over a row costs less than storing
      its result.
    }], "bool", "isCheap", (ins)>,
    InterfaceMethod<[{
      Whether element i of the results needs only element i of `operand`.
    }], "bool", "readsSameElement", (ins "::mlir::OpOperand &":$operand)>,
  ];
}

#endif // DPC_INTERFACES_TD
