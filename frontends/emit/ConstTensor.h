//===- ConstTensor.h - Tensors known at import time -------------*- C++ -*-===//
//
// The frontends evaluate shape arithmetic, masks and scalars at import time, so
// that every shape of the module is static. A mask can have sequence length
// squared elements, so uniform and triangular tensors have a compact layout.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace dpc::frontend {

/// Sizes of dimensions.
using Shape = llvm::SmallVector<int64_t, 6>;

/// One element: `f` of a float type, `i` of an integer or boolean type.
union Scalar {
  double f;
  int64_t i;
};

/// Returns the product of the sizes, at most INT64_MAX.
int64_t numElements(llvm::ArrayRef<int64_t> shape);

/// An immutable host tensor. Elements are rounded to the element type and
/// stored as double or int64_t.
class ConstTensor {
public:
  enum class Layout {
    Dense,    ///< stores every element in row-major order
    Splat,    ///< stores one element, equal to all others
    Triangle, ///< stores v0 and v1; element (.., i, j) is v1 if
              ///< j - i >= diagonal(), otherwise v0
  };

  static ConstTensor dense(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                           std::vector<Scalar> values);
  static ConstTensor splat(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                           Scalar value);
  static ConstTensor triangle(mlir::Type element, llvm::ArrayRef<int64_t> shape,
                              Scalar below, Scalar above, int64_t diagonal);
  /// A rank-1 i64 tensor.
  static ConstTensor ints(mlir::MLIRContext *context,
                          llvm::ArrayRef<int64_t> values);

  mlir::Type element() const { return elementType; }
  llvm::ArrayRef<int64_t> shape() const { return dims; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t size() const { return numElements(dims); }
  Layout layout() const { return kind; }
  int64_t diagonal() const { return diag; }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(elementType); }
  /// Returns the stored elements; `Layout` says how many there are.
  const std::vector<Scalar> &stored() const { return values; }
  /// Returns the element at a row-major index.
  Scalar at(int64_t index) const;
  /// Returns all elements as integers; truncates floats.
  Shape asInts() const;
  mlir::RankedTensorType type() const;

  /// Returns the tensor as a Splat or Triangle if possible, else unchanged.
  ConstTensor compacted() const;
  mlir::DenseElementsAttr toAttr() const;

private:
  mlir::Type elementType;
  Shape dims;
  Layout kind = Layout::Splat;
  std::vector<Scalar> values;
  int64_t diag = 0;
};

/// Rounds or wraps `value` to the element type.
Scalar coerce(Scalar value, mlir::Type element);
/// Converts `value` to an element of type `element`.
Scalar makeScalar(double value, mlir::Type element);

/// Applies `fn` to every element and coerces the results; the layout stays.
ConstTensor mapElements(const ConstTensor &x, mlir::Type element,
                        llvm::function_ref<Scalar(Scalar)> fn);
/// Applies `fn` to pairs of elements of tensors that have the same shape.
ConstTensor mapElements(const ConstTensor &a, const ConstTensor &b,
                        mlir::Type element,
                        llvm::function_ref<Scalar(Scalar, Scalar)> fn);
/// Selects elements of `onTrue` where `condition` is true, and of `onFalse`
/// elsewhere. All three shapes are equal.
ConstTensor selectElements(const ConstTensor &condition,
                           const ConstTensor &onTrue,
                           const ConstTensor &onFalse);

/// Each of these evaluates one elementwise op of dpc on scalars.
Scalar evalUnary(UnaryKind kind, Scalar x, bool isFloat);
Scalar evalBinary(BinaryKind kind, Scalar a, Scalar b, bool isFloat);
bool evalCompare(CompareKind kind, Scalar a, Scalar b, bool isFloat);

// Import-time counterparts of dpc.convert, dpc.reshape and so on.
ConstTensor convertTo(const ConstTensor &x, mlir::Type element);
ConstTensor reshapeTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape);
ConstTensor broadcastTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
ConstTensor transposed(const ConstTensor &x, llvm::ArrayRef<int64_t> perm);
/// Accepts negative steps, as numpy does but dpc.slice does not.
ConstTensor sliced(const ConstTensor &x, llvm::ArrayRef<int64_t> offsets,
                   llvm::ArrayRef<int64_t> sizes,
                   llvm::ArrayRef<int64_t> steps);
ConstTensor concatenated(llvm::ArrayRef<const ConstTensor *> parts,
                         int64_t dim);
ConstTensor reduced(ReduceKind kind, const ConstTensor &x,
                    llvm::ArrayRef<int64_t> dims);
/// Keeps elements (.., i, j) with j - i >= k if `upper`, otherwise those with j
/// - i <= k. Sets all others to zero.
ConstTensor triangularPart(const ConstTensor &x, int64_t k, bool upper);

} // namespace dpc::frontend
