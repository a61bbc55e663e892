//===- Parameters.cpp - Which parameters are trained ----------------------===//
#include "tools/driver/Parameters.h"

#include "ir/Dialect.h"
#include "ir/StopGradient.h"
#include "passes/graph/Passes.h"

using namespace mlir;

namespace dpc {

static StringRef roleOf(func::FuncOp func, unsigned argument) {
  auto role = func.getArgAttrOfType<StringAttr>(argument, attr::kRole);
  return role ? role.getValue() : StringRef();
}

static bool isLeftOut(func::FuncOp func, unsigned parameter) {
  BlockArgument argument = func.getArgument(parameter);
  if (func.getName() != kTrainStepFunction)
    return argument.use_empty();
  return llvm::none_of(argument.getUsers(), llvm::IsaPred<AdamWOp, SgdOp>);
}

bool trainsAllParameters(func::FuncOp program) {
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (roleOf(program, i) == role::kParameter && isLeftOut(program, i))
      return false;
  return true;
}

void listParameters(func::FuncOp program, bool trains,
                    std::vector<std::string> &trained,
                    std::vector<std::string> &frozen) {
  for (unsigned i = 0; i < program.getNumArguments(); ++i) {
    auto name = program.getArgAttrOfType<StringAttr>(i, attr::kName);
    StringRef role = roleOf(program, i);
    if (!name)
      continue;
    bool isParameter = role == role::kParameter;
    if (role == role::kBuffer ||
        (isParameter && trains && isLeftOut(program, i)))
      frozen.push_back(name.getValue().str());
    else if (isParameter)
      trained.push_back(name.getValue().str());
  }
}

LogicalResult prepareInference(ModuleOp module, std::string &message) {
  auto forward = module.lookupSymbol<func::FuncOp>(kForwardFunction);
  removeGradientStops(forward);
  for (unsigned i = 0; i < forward.getNumArguments(); ++i)
    if (roleOf(forward, i) == role::kScalar) {
      message = "leaves elements out at random, which only training does; "
                "accepted: a loss to train, or a model without dropout in "
                "training mode, as .eval() makes it";
      return failure();
    }
  return success();
}

} // namespace dpc
