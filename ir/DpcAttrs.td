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
  let summary = "The named axes along which tensors can be split.";
  let description = [{
    Every axis has a name and a size. Ranks are numbered row-major, and the first
    axis is the outermost. The coordinates of the axis `mb` are not ranks but the
    micro-batches of a step, which run one after the other.

    Every sharding contains its mesh, because MLIR's symbol tables do not see symbol
    references inside types.

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
    std::optional<int64_t> findAxis(::llvm::StringRef name) const;
    /// Returns 1 if the mesh has no axis called `name`.
    int64_t axisSize(::llvm::StringRef name) const;
    /// Returns the product of all axis sizes except that of `mb`.
    int64_t numRanks() const;
  }];
}

def Dpc_DimShardingAttr : Dpc_Attr<"DimSharding", "dim"> {
  let summary = "How one dimension is split: an ordered list of factors.";
  let description = [{
    Factor `i` has `sizes[i]` elements and is split by `axisCounts[i]` mesh axes:
    the next ones in `axes`, which has the axes of all factors in order. A size of 0
    means the whole dimension and occurs only in a list of one factor. The attribute
    occurs only inside `#dpc.sharding`, which prints the axes by name. ir/Sharding.h
    defines the arithmetic.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$sizes,
                        ArrayRefParameter<"int64_t">:$axisCounts,
                        ArrayRefParameter<"int64_t">:$axes);
  let assemblyFormat = "`<` `[` $sizes `]` `,` `[` $axisCounts `]` `,` `[` $axes `]` `>`";
}

def Dpc_ShardingAttr : Dpc_Attr<"Sharding", "sharding",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let summary = "The sharding of a tensor over a mesh.";
  let description = [{
    The encoding of a tensor type at the sharded altitude. A tensor without it has no
    sharding yet; a tensor with `[{}, {} ]` is replicated.

    A dimension is an ordered list of factors, written row-major. `{}` is a whole
    dimension, `{dp}` is split over `dp`, and `{dp, tp}` is split over `dp`, and
    each shard then over `tp`. `{3, 4:tp, 16}` is a dimension of 192 = 3 x 4 x 16
    elements, of which the middle factor is split. `4:(dp, tp)` is a factor that
    several axes split.

    The shards of a factor of n elements over k ranks have ceil(n / k) elements; the
    last ones may end in padding. `partial = {dp : sum}` means that the value is the
    sum of the values of the ranks along `dp`. `partial = {ep : routed}` means that
    each row is valid only on the rank along `ep` that has the expert of the row,
    and has arbitrary elements on the others. The number of experts, which decides
    where `ep` splits them, is that of the ops that read and write the value.

    Example:

    ```mlir
    #dpc.sharding<#dpc.mesh<dp=2, tp=4>, [{dp}, {3, 4:tp, 16} ], partial = {}>
    ```

    Constraints:
    * (C1) every axis exists in the mesh;
    * (C2) an axis is used at most once, and partial axes count as used;
    * (C3) there is one entry per dimension of the tensor;
    * (C4) the product of the factors of a dimension is its size;
    * (C5) the form is canonical (ir/Sharding.h), so that equal placements are equal
      attributes.
  }];
  let parameters = (ins "::dpc::MeshAttr":$mesh,
                        ArrayRefParameter<"::dpc::DimShardingAttr">:$dims,
                        ArrayRefParameter<"int64_t">:$partialAxes,
                        ArrayRefParameter<"int64_t">:$partialKinds);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif // DPC_ATTRS_TD
