//===- ExpertLoads.cpp - Rows of the fullest rank of experts --------------===//
#include "ir/ExpertLoads.h"

#include "ir/Attributes.h"

using namespace mlir;

namespace dpc {

void setExpertLoads(ModuleOp module, ArrayRef<double> loads) {
  module->setAttr(attr::kExpertLoads,
                  DenseF64ArrayAttr::get(module.getContext(), loads));
}

double expertLoad(Operation *op, int64_t experts) {
  auto module = op->getParentOfType<ModuleOp>();
  auto loads =
      module ? module->getAttrOfType<DenseF64ArrayAttr>(attr::kExpertLoads)
             : nullptr;
  bool isKnown = loads && experts >= 1 && experts <= loads.size();
  return isKnown ? loads[experts - 1] : 1;
}

} // namespace dpc
