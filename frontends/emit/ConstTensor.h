//===- ConstTensor.h - Tensors known at import time -------------*- C++ -*-===//
//
// The frontends evaluate shape arithmetic, masks and scalars at import time, so
// that every shape of the module is static. Masks can be large (the sequence
// length squared), so uniform and triangular tensors have a symbolic layout.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_CONSTTENSOR_H
#define DPC_FRONTENDS_EMIT_CONSTTENSOR_H

#include "ir/Dialect.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace dpc::frontend {

/// Sizes of dimensions.
using Shape = llvm::SmallVector<int64_t, 6>;

/// One element: `f` for float element types, `i` for integers and booleans.
union Scalar {
  double f;
  int64_t i;
};

/// Product of the sizes; INT64_MAX when the product is larger.
int64_t numElements(llvm::ArrayRef<int64_t> shape);

/// An immutable host tensor. It stores its elements widened (double, int64_t)
/// and already rounded to the element type.
class ConstTensor {
public:
  enum class Layout {
    Dense,    ///< values: every element, row-major
    Splat,    ///< values: the one element
    Triangle, ///< values: {v0, v1}; element (.., i, j) is v1 where
              ///< j - i >= diagonal(), else v0
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
  /// The stored values; their number depends on layout().
  const std::vector<Scalar> &stored() const { return values; }
  /// Element at a row-major index.
  Scalar at(int64_t index) const;
  /// All elements as integers; float elements are truncated.
  Shape asInts() const;
  mlir::RankedTensorType type() const;

  /// The same tensor in the layout Splat or Triangle if its elements allow it.
  ConstTensor compacted() const;
  /// Converts the tensor to an attribute for `dpc.constant`.
  mlir::DenseElementsAttr toAttr() const;

private:
  mlir::Type elementType;
  Shape dims;
  Layout kind = Layout::Splat;
  std::vector<Scalar> values;
  int64_t diag = 0;
};

/// `value` rounded or wrapped to the element type.
Scalar coerce(Scalar value, mlir::Type element);
/// A float or integer number as an element of `element`.
Scalar makeScalar(double value, mlir::Type element);

/// Applies `fn` to every element, keeps the layout and coerces the results.
ConstTensor mapElements(const ConstTensor &x, mlir::Type element,
                        llvm::function_ref<Scalar(Scalar)> fn);
/// Applies `fn` to corresponding elements of tensors of the same shape.
ConstTensor mapElements(const ConstTensor &a, const ConstTensor &b,
                        mlir::Type element,
                        llvm::function_ref<Scalar(Scalar, Scalar)> fn);
/// Takes the element of `onTrue` where `condition` holds, else that of
/// `onFalse`; all three have the same shape.
ConstTensor selectElements(const ConstTensor &condition,
                           const ConstTensor &onTrue,
                           const ConstTensor &onFalse);

/// Evaluates one dpc elementwise kind.
Scalar evalUnary(UnaryKind kind, Scalar x, bool isFloat);
Scalar evalBinary(BinaryKind kind, Scalar a, Scalar b, bool isFloat);
bool evalCompare(CompareKind kind, Scalar a, Scalar b, bool isFloat);

// Data movement with the semantics of the dpc ops of the same names.
ConstTensor convertTo(const ConstTensor &x, mlir::Type element);
ConstTensor reshapeTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape);
ConstTensor broadcastTo(const ConstTensor &x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
ConstTensor transposed(const ConstTensor &x, llvm::ArrayRef<int64_t> perm);
/// Unlike dpc.slice, this accepts negative steps, as numpy does.
ConstTensor sliced(const ConstTensor &x, llvm::ArrayRef<int64_t> offsets,
                   llvm::ArrayRef<int64_t> sizes,
                   llvm::ArrayRef<int64_t> steps);
ConstTensor concatenated(llvm::ArrayRef<const ConstTensor *> parts,
                         int64_t dim);
ConstTensor reduced(ReduceKind kind, const ConstTensor &x,
                    llvm::ArrayRef<int64_t> dims);
/// Keeps elements with j - i >= k (upper) or j - i <= k, and sets the others to
/// zero.
ConstTensor triangularPart(const ConstTensor &x, int64_t k, bool upper);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_CONSTTENSOR_H
