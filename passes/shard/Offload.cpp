//===- Offload.cpp - Marks of offloaded arguments ----------------===//
#include "passes/shard/Offload.h"

#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

/// Returns true if only the optimizer reads the parameter itself, and all other
/// ops read a copy in half precision.
static bool isMaster(BlockArgument parameter) {
  bool hasCopy = false;
  for (Operation *user : parameter.getUsers()) {
    auto convert = dyn_cast<ConvertOp>(user);
    Type type =
        convert ? convert.getResult().getType().getElementType() : Type();
    bool isHalf = type && (type.isBF16() || type.isF16());
    if (!isHalf && !isa<AdamWOp, SgdOp, func::ReturnOp>(user))
      return false;
    hasCopy |= isHalf;
  }
  return hasCopy;
}

void dpc::markOffload(func::FuncOp func, const LoweringSpec &spec) {
  if (spec.offload == cost::Offload::None)
    return;
  Builder builder(func.getContext());
  bool optimizer = spec.offload != cost::Offload::Parameters;
  bool parameters = spec.offload != cost::Offload::Optimizer;
  for (BlockArgument arg : func.getArguments()) {
    unsigned i = arg.getArgNumber();
    StringRef role = roleOfArgument(func, i);
    bool isState = role == role::kState && func.getArgAttr(i, attr::kOf);
    bool isParameter = role == role::kParameter;
    bool moves =
        isParameter ? parameters || isMaster(arg) : isState && optimizer;
    if (!moves)
      continue;
    func.setArgAttr(i, attr::kSpace,
                    builder.getStringAttr(stringify(spec.offloadTo)));
    if (isParameter && parameters)
      func.setArgAttr(i, attr::kAtUse, builder.getUnitAttr());
  }
}
