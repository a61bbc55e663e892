//===- DpcAttrs.td - Mesh and sharding -------------------------*- tablegen -*-===//
#ifndef DPC_ATTRS_TD
#define DPC_ATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "ir/DpcDialect.td"

class Dpc_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Dpc_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

def Dpc_MeshAttr : Dpc_Attr<"Mesh", "mesh"> {
  let summary = "Named axes along which tensors can be split.";
  let description = [{
    Axes have a name and a size; ranks are numbered row-major, the first axis
    outermost. The axis `mb` is special: its coordinates are points in time (the
    micro-batches of a step), not ranks.

    The mesh is written inline in every sharding: a symbol reference inside a
    type is invisible to MLIR's symbol tables.

    Example:

    ```mlir
    #dpc.mesh<dp=4, tp=2>
    ```

    Constraints:
    * (C1) every axis size is at least 1;
    * (C2) axis names are unique.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names,
                        ArrayRefParameter<"int64_t">:$sizes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Index of the axis called `name`, or nullopt.
    std::optional<int64_t> findAxis(::llvm::StringRef name) const;
    /// Size of the axis called `name`; 1 when the mesh has no such axis.
    int64_t axisSize(::llvm::StringRef name) const;
    /// Product of the sizes of all axes but `mb`.
    int64_t numRanks() const;
  }];
}

def Dpc_DimShardingAttr : Dpc_Attr<"DimSharding", "dim"> {
  let summary = "How one dimension is split: an ordered list of factors.";
  let description = [{
    Factor `i` has size `sizes[i]` (0 = the whole dimension, only alone) and is
    split by `axisCounts[i]` mesh axes, the next ones of `axes` in order. Only
    ever seen inside `#dpc.sharding`, which prints it by name. See
    ir/Sharding.h for the arithmetic.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$sizes,
                        ArrayRefParameter<"int64_t">:$axisCounts,
                        ArrayRefParameter<"int64_t">:$axes);
  let assemblyFormat = "`<` `[` $sizes `]` `,` `[` $axisCounts `]` `,` `[` $axes `]` `>`";
}

def Dpc_ShardingAttr : Dpc_Attr<"Sharding", "sharding",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "Where each element of a tensor lives on a mesh.";
  let description = [{
    The encoding of a tensor type at the sharded altitude. A tensor without it
    is not yet assigned; `[{}, {} ]` is replicated.

    A dimension is an ordered list of factors, written row-major. `{}` is a
    whole dimension, `{dp}` one split over `dp`, `{dp, tp}` one split by `dp`
    and each shard then by `tp` (nested). `{3, 4:tp, 16}` is a dimension of 192
    seen as 3 x 4 x 16 and split on its middle factor; several axes on a factor
    are written `4:(dp, tp)`.

    A factor of n elements over k ranks has shards of ceil(n/k); the tail is
    padding. `partial = {dp : sum}` says that the value is the sum over `dp` of
    what the ranks hold.

    Example:

    ```mlir
    #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {3, 4:tp, 16} ], partial = {}>
    ```

    Constraints:
    * (C1) every axis exists in the mesh;
    * (C2) an axis is used at most once, partial axes included;
    * (C3) one entry per dimension of the tensor;
    * (C4) the factors of a dimension multiply to its size;
    * (C5) the canonical form is used (ir/Sharding.h), so that equal placements
      are equal attributes.
  }];
  let parameters = (ins "::dpc::MeshAttr":$mesh,
                        ArrayRefParameter<"::dpc::DimShardingAttr">:$dims,
                        ArrayRefParameter<"int64_t">:$partialAxes,
                        ArrayRefParameter<"int64_t">:$partialKinds);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // DPC_ATTRS_TD
