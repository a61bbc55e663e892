//===- ValueNames.h - Model value names in op locations ---------*- C++ -*-===//
//
// The location of an op consists of the names of the node from which the op was
// created and of the value that the op computes:
//
//   loc("/layers.0/Gemm"("layers.0.out"))
//
// If a node becomes several ops, all of them carry the name of the node's first
// output, which the last op computes. A fused op keeps the location of an op
// that it replaces, so that plans can name values of the file.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"

namespace dpc::frontend {

/// Returns the location of an op that computes `value` of `node`.
inline mlir::Location locationOf(mlir::MLIRContext *context,
                                 llvm::StringRef node, llvm::StringRef value) {
  auto name = mlir::StringAttr::get(context, node);
  if (value.empty())
    return mlir::NameLoc::get(name);
  return mlir::NameLoc::get(
      name, mlir::NameLoc::get(mlir::StringAttr::get(context, value)));
}

/// Returns the name of the value in `location`, or "".
inline llvm::StringRef valueNameOf(mlir::Location location) {
  auto node = location->findInstanceOf<mlir::NameLoc>();
  auto value =
      node ? mlir::dyn_cast<mlir::NameLoc>(node.getChildLoc()) : nullptr;
  return value ? value.getName().getValue() : llvm::StringRef();
}

} // namespace dpc::frontend
