//===- DpcInterfaces.td - Interfaces of the dpc ops ------------*- tablegen -*-===//
#ifndef DPC_INTERFACES_TD
#define DPC_INTERFACES_TD

include "mlir/IR/OpBase.td"

def Dpc_ShardingRuleOpInterface : OpInterface<"ShardingRuleOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The description of how an op may be split. The verifier, propagation, search,
    cost and partitioning all read it.
  }];
  let methods = [InterfaceMethod<[{
      The iteration dimensions of the op, and the maps of operand and result
      dimensions to them (ir/ShardingRule.h). They follow from the current shapes
      of operands and results.
    }], "::dpc::ShardingRule", "getShardingRule", (ins)>];
}

def Dpc_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The cost of an op with its current types, which may be global or local.
  }];
  let methods = [
    InterfaceMethod<[{
      The floating-point operations of one execution; a multiply-add counts as two.
    }], "double", "getFlops", (ins), "", [{ return 0; }]>,
    InterfaceMethod<[{
      The bytes that one execution reads and writes if the op is not fused.
    }], "double", "getBytes", (ins), "", [{
      return ::dpc::detail::operandAndResultBytes($_op);
    }]>,
  ];
}

def Dpc_VjpOpInterface : OpInterface<"VjpOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The vector-Jacobian product of an op. passes/graph/vjp implements it as external
    models.
  }];
  let methods = [InterfaceMethod<[{
      Builds the gradients of the operands. `resultGrads[i]` is the gradient of
      result i; null means zero. `wanted[i]` is true if the gradient of operand i is
      used. On success, `operandGrads` has one entry per operand, which is null if
      the gradient is zero or not wanted. The method fails with a diagnostic if the
      op is not differentiable with respect to a wanted operand.
    }], "::llvm::LogicalResult", "buildVjp",
    (ins "::mlir::OpBuilder &":$builder,
         "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
         "::llvm::ArrayRef<bool>":$wanted,
         "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>];
}

def Dpc_LoweringOpInterface : OpInterface<"LoweringOpInterface"> {
  let cppNamespace = "::dpc";
  let description = [{
    The lowering of an op of the local altitude to instructions. codegen implements
    it as external models.
  }];
  let methods = [
    InterfaceMethod<[{
      The kind of lowering: `matmul` (a library call for a GEMM or convolution),
      `elementwise` (a part of a fused elementwise kernel), `kernel` (a separate
      kernel), `collective` (also a send or recv), `transfer` (a copy between memory
      spaces), or `view` (no instruction, because the result shares the buffer of
      the operand).
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
    A collective over the ranks of some mesh axes. One call may communicate a bucket
    of tensors; then result i belongs to operand i.
  }];
  let methods = [
    InterfaceMethod<[{
      The names of the mesh axes (an array of strings), in the order of the mesh.
    }], "::mlir::ArrayAttr", "getAxes", (ins)>,
    InterfaceMethod<[{
      The kind of collective.
    }], "::dpc::CollectiveKind", "getCollectiveKind", (ins)>,
    InterfaceMethod<[{
      The reduction of the values of ranks; nullopt if they are only moved.
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
    The part of an op of the local altitude in generated kernels. Ops without the
    interface (matmuls, collectives, ..) are never part of one. The trait
    `KernelRoleIs` implements it (ir/KernelRole.h).
  }];
  let methods = [
    InterfaceMethod<[{
      The role of the op in kernel formation.
    }], "::dpc::KernelRole", "getKernelRole", (ins)>,
    InterfaceMethod<[{
      The shape that a kernel of the op iterates over.
    }], "::llvm::ArrayRef<int64_t>", "getIterationShape", (ins)>,
    InterfaceMethod<[{
      True if it is cheaper to compute the op in every pass over a row than to store
      its result.
    }], "bool", "isCheap", (ins)>,
    InterfaceMethod<[{
      True if element i of the results depends only on element i of `operand`.
    }], "bool", "readsSameElement", (ins "::mlir::OpOperand &":$operand)>,
  ];
}

#endif // DPC_INTERFACES_TD
