//===- Dialect.cpp - Registration of the dpc dialect ----------------------===//
#include "ir/Dialect.h"
#include "ir/Sharding.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dpc;

#include "ir/DpcDialect.cpp.inc"

#include "ir/DpcEnums.cpp.inc"

#include "ir/DpcInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "ir/DpcAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "ir/DpcOps.cpp.inc"

namespace {

/// Appends the text of one dimension, such as "dp" or "3x4tp16".
void appendDimName(MeshAttr mesh, DimShardingAttr dim, std::string &name) {
  if (dim.getAxes().empty()) {
    name += "_r";
    return;
  }
  name += "_";
  size_t nextAxis = 0;
  for (auto [size, count] : llvm::zip(dim.getSizes(), dim.getAxisCounts())) {
    if (size)
      name += std::to_string(size);
    for (int64_t i = 0; i < count; ++i)
      name += mesh.getNames()[dim.getAxes()[nextAxis++]].str();
    if (size)
      name += "x";
  }
  if (name.back() == 'x')
    name.pop_back();
}

/// Prints each encoding as an alias that shows its content (`#s_dp_r_sum_tp`).
/// The mesh has no alias, because a tool that does not know the dialect loses
/// aliases inside attributes.
struct ShardingAliases : public OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const final {
    auto sharding = dyn_cast<ShardingAttr>(attr);
    if (!sharding)
      return AliasResult::NoAlias;
    std::string name = "s";
    for (DimShardingAttr dim : sharding.getDims())
      appendDimName(sharding.getMesh(), dim, name);
    for (auto [axis, kind] :
         llvm::zip(sharding.getPartialAxes(), sharding.getPartialKinds())) {
      name += "_" + partialKindName(kind).str();
      name += "_" + sharding.getMesh().getNames()[axis].str();
    }
    os << name;
    return AliasResult::FinalAlias;
  }
};

} // namespace

void DpcDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/DpcOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/DpcAttrs.cpp.inc"
      >();
  addInterfaces<ShardingAliases>();
}

LogicalResult dpc::detail::verifyShardings(Operation *op) {
  std::vector<ShardingSpec> operands, results;
  for (Type type : op->getOperandTypes())
    if (getSharding(type))
      operands.push_back(*ShardingSpec::get(cast<RankedTensorType>(type)));
  for (Type type : op->getResultTypes())
    if (getSharding(type))
      results.push_back(*ShardingSpec::get(cast<RankedTensorType>(type)));
  if (operands.empty() && results.empty())
    return success();
  if (operands.size() != op->getNumOperands() ||
      results.size() != op->getNumResults())
    return op->emitOpError("has operands or results with and without sharding");
  MeshAttr mesh = (operands.empty() ? results : operands).front().mesh;
  for (const ShardingSpec &spec : llvm::concat<ShardingSpec>(operands, results))
    if (spec.mesh != mesh)
      return op->emitOpError("mixes meshes: ") << mesh << " and " << spec.mesh;
  std::string why;
  auto inferred =
      inferResults(cast<ShardingRuleOpInterface>(op).getShardingRule(), mesh,
                   operands, results, why);
  if (!inferred)
    return op->emitOpError("operand shardings do not fit: ") << why;
  for (auto [i, want] : llvm::enumerate(*inferred))
    if (want.toAttr() != results[i].toAttr())
      return op->emitOpError("result ")
             << i << " must have sharding " << want.toAttr() << ", found "
             << results[i].toAttr();
  return success();
}
