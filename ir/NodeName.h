//===- NodeName.h - The node of a model behind an op ------------*- C++ -*-===//
#pragma once

#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"

#include <string>

namespace dpc {

/// Returns "node 'NAME'" for an op of an imported model, or the name of the op,
/// as the subject of a message.
inline std::string nodeOf(mlir::Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<mlir::NameLoc>())
    return "node '" + name.getName().str() + "'";
  return "'" + op->getName().getStringRef().str() + "'";
}

} // namespace dpc
