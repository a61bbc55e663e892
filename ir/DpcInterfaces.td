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

#endif // DPC_INTERFACES_TD
