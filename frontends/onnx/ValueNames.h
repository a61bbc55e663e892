//===- ValueNames.h - Model value names in op locations ---------*- C++ -*-===//
//
// The location of every op names the node that it was created from, and the
// value:
//
//   loc("/layers.0/Gemm"("layers.0.out"))
//
// If a node becomes several ops, its last op computes the node's first output.
// Ops whose values do not exist in the model carry the name of this output.
// Fusions keep the locations of the ops that they replace, so the names lead
// from the plan back to the file.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_VALUENAMES_H
#define DPC_FRONTENDS_ONNX_VALUENAMES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"

namespace dpc::frontend {

/// The location of an op that is created for `value` of `node`.
inline mlir::Location locationOf(mlir::MLIRContext *context,
                                 llvm::StringRef node, llvm::StringRef value) {
  auto name = mlir::StringAttr::get(context, node);
  if (value.empty())
    return mlir::NameLoc::get(name);
  return mlir::NameLoc::get(
      name, mlir::NameLoc::get(mlir::StringAttr::get(context, value)));
}

/// The value that `location` names, or "".
inline llvm::StringRef valueNameOf(mlir::Location location) {
  auto node = location->findInstanceOf<mlir::NameLoc>();
  auto value =
      node ? mlir::dyn_cast<mlir::NameLoc>(node.getChildLoc()) : nullptr;
  return value ? value.getName().getValue() : llvm::StringRef();
}

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_VALUENAMES_H
