//===- VerifyUtils.h - What the op verifiers share --------------*- C++ -*-===//
//
// Verifiers compare shapes and element types; the trait ShardingVerified checks
// encodings against the sharding rule of the op. A message begins with the
// number that the violated constraint has in the op's TableGen description:
// "(C2) contracted dimensions differ: 64 and 32".
//
// Private to ir/Verify*.cpp.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

namespace dpc::verify {

/// Prints a shape as in a type: "8x64", or "scalar" for rank 0.
inline std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return shape.empty() ? "scalar" : text;
}

/// Starts the message for a violation of constraint `c`, such as "C1".
inline mlir::InFlightDiagnostic violates(mlir::Operation *op,
                                         llvm::StringRef c) {
  return op->emitOpError() << "(" << c << ") ";
}

/// A tensor type, implicitly converted from a type or a value.
struct Tensor {
  Tensor(mlir::RankedTensorType type) : type(type) {}
  Tensor(mlir::Value value)
      : type(mlir::cast<mlir::RankedTensorType>(value.getType())) {}
  mlir::RankedTensorType type;
};

/// Checks the constraints of one op in the order of the calls, and reports only
/// the first violation. `c` is the number of the constraint, and `what` names
/// the tensor in the message.
class Checks {
public:
  Checks(mlir::Operation *op) : op(op) {}
  operator llvm::LogicalResult() const { return llvm::success(isValid); }
  bool failed() const { return !isValid; }

  template <typename... Parts>
  Checks &require(llvm::StringRef c, bool holds, const Parts &...message) {
    if (isValid && !holds)
      fail((violates(op, c) << ... << message));
    return *this;
  }
  Checks &shape(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
                llvm::ArrayRef<int64_t> expected) {
    llvm::ArrayRef<int64_t> shape = tensor.type.getShape();
    if (isValid && shape != expected)
      fail(violates(op, c) << what << " has shape " << shapeText(shape)
                           << ", expected " << shapeText(expected));
    return *this;
  }
  Checks &element(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
                  mlir::Type expected) {
    mlir::Type element = tensor.type.getElementType();
    return require(c, element == expected, what, " has element type ", element,
                   ", expected ", expected);
  }
  Checks &boolean(llvm::StringRef c, const llvm::Twine &what, Tensor tensor) {
    return element(c, what, tensor,
                   mlir::IntegerType::get(op->getContext(), 1));
  }
  Checks &like(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
               Tensor expected) {
    return shape(c, what, tensor, expected.type.getShape())
        .element(c, what, tensor, expected.type.getElementType());
  }
  Checks &like(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
               llvm::ArrayRef<int64_t> expected, mlir::Type element) {
    return shape(c, what, tensor, expected).element(c, what, tensor, element);
  }
  /// Also compares encodings.
  Checks &same(llvm::StringRef c, const llvm::Twine &what, mlir::Type type,
               mlir::Type expected) {
    return require(c, type == expected, what, " has type ", type, ", expected ",
                   expected);
  }
  Checks &rank(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
               int64_t expected) {
    int64_t rank = tensor.type.getRank();
    return require(c, rank == expected, what, " has rank ", rank, ", expected ",
                   expected);
  }
  Checks &minRank(llvm::StringRef c, const llvm::Twine &what, Tensor tensor,
                  int64_t least) {
    int64_t rank = tensor.type.getRank();
    return require(c, rank >= least, what, " has rank ", rank,
                   ", expected at least ", least);
  }
  Checks &floats(llvm::StringRef c, const llvm::Twine &what, Tensor tensor) {
    mlir::Type element = tensor.type.getElementType();
    return require(c, mlir::isa<mlir::FloatType>(element), what,
                   " has element type ", element, ", expected a float");
  }
  Checks &integers(llvm::StringRef c, const llvm::Twine &what, Tensor tensor) {
    mlir::Type element = tensor.type.getElementType();
    return require(c, mlir::isa<mlir::IntegerType>(element), what,
                   " has element type ", element, ", expected an integer");
  }
  /// Checks that `mask` is null or can be added to scores [B, H, T, S]: it has
  /// rank 4, the last dimension S, and otherwise dimensions of size 1 or of the
  /// size in the scores.
  Checks &mask(llvm::StringRef c, mlir::Value mask,
               llvm::ArrayRef<int64_t> scores);

private:
  void fail(const mlir::InFlightDiagnostic &) { isValid = false; }

  mlir::Operation *op;
  bool isValid = true;
};

} // namespace dpc::verify
