//===- UserSplits.cpp - Arguments that are split as asked -----------------===//
#include "passes/shard/UserSplits.h"

#include "ir/Attributes.h"

using namespace mlir;
using namespace dpc;

/// The dimension that a factor of a value, counted over all, is of.
static int64_t dimOf(const FactorAnalysis &factors, Value value,
                     int64_t factor) {
  int64_t dim = 0;
  for (int64_t count = factors.factors(value, 0).size(); count <= factor;)
    count += factors.factors(value, ++dim).size();
  return dim;
}

bool dpc::isAsked(const ProgramFacts &facts, BlockArgument argument,
                  const MeshAxis &axis, AxisState state) {
  func::FuncOp func = facts.func;
  auto dims = func.getArgAttrOfType<DenseI64ArrayAttr>(argument.getArgNumber(),
                                                       attr::kUserSplit);
  if (!dims || axis.role != AxisRole::tensor)
    return true;
  if (state < axis::firstSplit)
    return dims.empty();
  return llvm::is_contained(dims.asArrayRef(), dimOf(facts.factors, argument,
                                                     state - axis::firstSplit));
}

Status dpc::checkAsked(const ProgramFacts &facts, const ShardChoices &choices) {
  const MeshAxis &axis = choices.axes.back();
  func::FuncOp func = facts.func;
  for (BlockArgument argument : func.getArguments()) {
    auto found = choices.arguments.find(argument);
    if (found == choices.arguments.end() ||
        isAsked(facts, argument, axis, found->second.back()))
      continue;
    auto name =
        func.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attr::kName);
    return Error{"the model's sharding of '" +
                 (name ? name.getValue().str() : "an argument") +
                 "' cannot be kept over " + axis.name + "=" +
                 std::to_string(axis.size) +
                 "; remove it, or split another dimension"};
  }
  return Status();
}
