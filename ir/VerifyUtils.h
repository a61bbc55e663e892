//===- VerifyUtils.h - What the op verifiers share --------------*- C++ -*-===//
//
// Verifiers compare shapes and element types, never whole types: encodings are
// the business of the trait ShardingVerified, which reads the sharding rule.
// Messages begin with the number of the violated constraint, as documented in
// the op's TableGen description: "(C2) contracted dimensions differ: 64 and
// 32".
//
// Private to ir/Verify*.cpp.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_VERIFYUTILS_H
#define DPC_IR_VERIFYUTILS_H

#include "ir/Dialect.h"

namespace dpc::verify {

/// `shape` as in a type: "8x64", or "scalar" for rank 0.
inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return shape.empty() ? "scalar" : text;
}

/// Starts the message of constraint `c` ("C1") of `op`.
inline mlir::InFlightDiagnostic violates(mlir::Operation *op,
                                         llvm::StringRef c) {
  return op->emitOpError() << "(" << c << ") ";
}

/// `type`, described as `what`, has exactly `expected` as its shape.
inline llvm::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef c,
                                      const llvm::Twine &what,
                                      mlir::RankedTensorType type,
                                      llvm::ArrayRef<int64_t> expected) {
  if (type.getShape() == expected)
    return llvm::success();
  return violates(op, c) << what << " has shape " << shapeText(type.getShape())
                         << ", expected " << shapeText(expected);
}

/// `type`, described as `what`, has elements of `expected`.
inline llvm::LogicalResult checkElement(mlir::Operation *op, llvm::StringRef c,
                                        const llvm::Twine &what,
                                        mlir::RankedTensorType type,
                                        mlir::Type expected) {
  if (type.getElementType() == expected)
    return llvm::success();
  return violates(op, c) << what << " has element type "
                         << type.getElementType() << ", expected " << expected;
}

/// `type`, described as `what`, has the shape and element type of `expected`.
inline llvm::LogicalResult checkLike(mlir::Operation *op, llvm::StringRef c,
                                     const llvm::Twine &what,
                                     mlir::RankedTensorType type,
                                     mlir::RankedTensorType expected) {
  if (failed(checkShape(op, c, what, type, expected.getShape())))
    return llvm::failure();
  return checkElement(op, c, what, type, expected.getElementType());
}

/// `type`, described as `what`, has `rank` dimensions.
inline llvm::LogicalResult checkRank(mlir::Operation *op, llvm::StringRef c,
                                     const llvm::Twine &what,
                                     mlir::RankedTensorType type,
                                     int64_t rank) {
  if (type.getRank() == rank)
    return llvm::success();
  return violates(op, c) << what << " has rank " << type.getRank()
                         << ", expected " << rank;
}

/// `type`, described as `what`, has at least `rank` dimensions.
inline llvm::LogicalResult checkMinRank(mlir::Operation *op, llvm::StringRef c,
                                        const llvm::Twine &what,
                                        mlir::RankedTensorType type,
                                        int64_t rank) {
  if (type.getRank() >= rank)
    return llvm::success();
  return violates(op, c) << what << " has rank " << type.getRank()
                         << ", expected at least " << rank;
}

/// `type`, described as `what`, has floating-point elements.
inline llvm::LogicalResult checkFloat(mlir::Operation *op, llvm::StringRef c,
                                      const llvm::Twine &what,
                                      mlir::RankedTensorType type) {
  if (mlir::isa<mlir::FloatType>(type.getElementType()))
    return llvm::success();
  return violates(op, c) << what << " has element type "
                         << type.getElementType() << ", expected a float";
}

/// `type`, described as `what`, has integer elements.
inline llvm::LogicalResult checkInteger(mlir::Operation *op, llvm::StringRef c,
                                        const llvm::Twine &what,
                                        mlir::RankedTensorType type) {
  if (mlir::isa<mlir::IntegerType>(type.getElementType()))
    return llvm::success();
  return violates(op, c) << what << " has element type "
                         << type.getElementType() << ", expected an integer";
}

/// Type of row statistics (mean, rstd, log-sum-exp) of `elementType` data: f32,
/// or f64 for f64, so that low-precision data keeps exact statistics.
inline mlir::Type statisticsType(mlir::Type elementType) {
  if (elementType.isF64())
    return elementType;
  return mlir::Float32Type::get(elementType.getContext());
}

/// An additive attention mask can be read as [B, H, T, S] = `scores`: rank 4,
/// each dimension 1 or the scores', the last one the scores'.
llvm::LogicalResult checkMask(mlir::Operation *op, llvm::StringRef c,
                              mlir::Value mask, llvm::ArrayRef<int64_t> scores);

} // namespace dpc::verify

#endif // DPC_IR_VERIFYUTILS_H
