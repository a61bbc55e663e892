//===- ValueNames.h - Names of the model that ops keep ---------*- C++ -*-===//
//
// Every op says by its location which node it was made of, and for which value:
//
//   loc("/layers.0/Gemm"("layers.0.out"))
//
// The values of a node that are none of the model's carry the name of its first
// output, which the last of its ops makes. Fusions keep the location of what
// they replace, so that the names lead from the plan back to the file.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_VALUENAMES_H
#define DPC_FRONTENDS_ONNX_VALUENAMES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"

namespace dpc::frontend {

/// Where an op that is made for `value` of `node` comes from.
inline mlir::Location locationOf(mlir::MLIRContext *context,
                                 llvm::StringRef node, llvm::StringRef value) {
  auto name = mlir::StringAttr::get(context, node);
  if (value.empty())
    return mlir::NameLoc::get(name);
  return mlir::NameLoc::get(
      name, mlir::NameLoc::get(mlir::StringAttr::get(context, value)));
}

/// The value that `location` names; "" without one.
inline llvm::StringRef valueNameOf(mlir::Location location) {
  auto node = location->findInstanceOf<mlir::NameLoc>();
  auto value =
      node ? mlir::dyn_cast<mlir::NameLoc>(node.getChildLoc()) : nullptr;
  return value ? value.getName().getValue() : llvm::StringRef();
}

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_VALUENAMES_H
