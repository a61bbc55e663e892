//===- TensorUtils.h - Types, shapes and sizes of tensors -------*- C++ -*-===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace dpc {

/// The type of a tensor.
inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType());
}

/// The shape of a tensor.
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return tensorType(value).getShape();
}

inline mlir::Type elementTypeOf(mlir::Value value) {
  return tensorType(value).getElementType();
}

inline int64_t sizeInBytes(mlir::ValueRange values) {
  int64_t bytes = 0;
  for (mlir::Value value : values)
    bytes += sizeInBytes(tensorType(value));
  return bytes;
}

inline llvm::SmallVector<int64_t>
withoutUnitDims(llvm::ArrayRef<int64_t> shape) {
  return llvm::filter_to_vector(shape, [](int64_t size) { return size != 1; });
}

/// Returns the element type of statistics (mean, rstd, log-sum-exp, losses):
/// f64 for f64 data, and f32 for all other data, so that 16-bit data keep their
/// precision.
inline mlir::Type statisticsType(mlir::Type elementType) {
  if (elementType.isF64())
    return elementType;
  return mlir::Float32Type::get(elementType.getContext());
}

inline bool isFloatTensor(mlir::Type type) {
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  return tensor && mlir::isa<mlir::FloatType>(tensor.getElementType());
}

/// Returns the `dpc.role` of a function argument, or "".
inline llvm::StringRef roleOf(mlir::Value value) {
  auto argument = mlir::dyn_cast<mlir::BlockArgument>(value);
  auto function = argument ? mlir::dyn_cast<mlir::FunctionOpInterface>(
                                 argument.getOwner()->getParentOp())
                           : nullptr;
  auto role = function ? function.getArgAttrOfType<mlir::StringAttr>(
                             argument.getArgNumber(), attr::kRole)
                       : nullptr;
  return role ? role.getValue() : "";
}

/// Returns whether `op` is a product of matrices, a convolution, attention, the
/// gradient of one of these, or contains products of experts.
inline bool isContraction(mlir::Operation *op) {
  return mlir::isa<MatmulOp, ExpertMatmulOp, ExpertMatmulGradOp, ExpertTilesOp,
                   ConvOp, ConvGradInputOp, ConvGradFilterOp, AttentionOp,
                   AttentionGradOp>(op);
}

} // namespace dpc
