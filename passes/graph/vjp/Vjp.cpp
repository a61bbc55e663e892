//===- Vjp.cpp - Registration of gradients --------------------------------===//
#include "passes/graph/vjp/Vjp.h"
#include "passes/graph/Passes.h"

using namespace mlir;
using namespace dpc;

void dpc::registerVjpModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, DpcDialect *) {
    vjp::attachElementwise(*context);
    vjp::attachMovement(*context);
    vjp::attachContraction(*context);
    vjp::attachRows(*context);
    vjp::attachSpatial(*context);
  });
}
