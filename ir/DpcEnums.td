//===- DpcEnums.td - Enumerations ------------------------------*- tablegen -*-===//
#ifndef DPC_ENUMS_TD
#define DPC_ENUMS_TD

include "mlir/IR/EnumAttr.td"
include "ir/DpcDialect.td"

class Dpc_Enum<string name, string summary, list<string> cases>
    : I32EnumAttr<name, summary,
                  !foreach(i, !range(0, !size(cases)),
                           I32EnumAttrCase<cases[i], i, cases[i]>)> {
  let cppNamespace = "::dpc";
  let genSpecializedAttr = 0;
}

class Dpc_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<Dpc_Dialect, info, mnemonic>;

def Dpc_ReduceKind : Dpc_Enum<"ReduceKind", "reduction of values",
                              ["sum", "max", "min", "prod"]>;
def Dpc_ReduceKindAttr : Dpc_EnumAttr<Dpc_ReduceKind, "reduce_kind">;

// `*_grad` kinds compute only the derivative f'(x), not its product with a gradient.
def Dpc_UnaryKind : Dpc_Enum<"UnaryKind", "elementwise function of one operand", [
  "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "abs", "sign", "floor",
  "ceil", "tanh", "sigmoid", "relu", "erf", "sin", "cos", "gelu", "gelu_tanh",
  "silu", "logical_not", "gelu_grad", "gelu_tanh_grad", "silu_grad"]>;
def Dpc_UnaryKindAttr : Dpc_EnumAttr<Dpc_UnaryKind, "unary_kind">;

def Dpc_BinaryKind : Dpc_Enum<"BinaryKind", "elementwise function of two operands", [
  "add", "sub", "mul", "div", "pow", "maximum", "minimum", "rem",
  "logical_and", "logical_or", "logical_xor"]>;
def Dpc_BinaryKindAttr : Dpc_EnumAttr<Dpc_BinaryKind, "binary_kind">;

def Dpc_CompareKind : Dpc_Enum<"CompareKind", "elementwise comparison",
                               ["eq", "ne", "lt", "le", "gt", "ge"]>;
def Dpc_CompareKindAttr : Dpc_EnumAttr<Dpc_CompareKind, "compare_kind">;

def Dpc_NormKind : Dpc_Enum<"NormKind", "kind of normalization", ["layer", "rms"]>;
def Dpc_NormKindAttr : Dpc_EnumAttr<Dpc_NormKind, "norm_kind">;

def Dpc_CollectiveKind : Dpc_Enum<"CollectiveKind", "kind of collective", [
  "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "ring_shift"]>;

// The cases are in the order in which a step runs them.
def Dpc_Phase : Dpc_Enum<"Phase", "phase of a training step",
                         ["setup", "forward", "backward", "weight", "update"]>;

#endif // DPC_ENUMS_TD
