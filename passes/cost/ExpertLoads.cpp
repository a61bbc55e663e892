//===- ExpertLoads.cpp - Rows of the fullest rank of experts --------------===//
#include "passes/cost/ExpertLoads.h"

using namespace mlir;

namespace dpc {

static constexpr llvm::StringLiteral kLoads = "dpc.expert_loads";

void setExpertLoads(ModuleOp module, ArrayRef<double> loads) {
  module->setAttr(kLoads, DenseF64ArrayAttr::get(module.getContext(), loads));
}

double expertLoad(Operation *op, int64_t experts) {
  auto module = op->getParentOfType<ModuleOp>();
  auto loads =
      module ? module->getAttrOfType<DenseF64ArrayAttr>(kLoads) : nullptr;
  bool isKnown = loads && experts >= 1 && experts <= loads.size();
  return isKnown ? loads[experts - 1] : 1;
}

} // namespace dpc
