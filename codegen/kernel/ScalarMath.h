//===- ScalarMath.h - Elementwise functions on scalars ----------*- C++ -*-===//
//
// Emits one element's computation. f32 exp, tanh and erf are branch-free
// polynomials (errors below 2 units in the last place, NaN and infinities as in
// libm), so that LLVM vectorizes the loop around them; f64, and f32 log, sin,
// cos, pow, call libm. For GPUs, where libm is a library of the CUDA toolkit,
// f32 log and powers of a constant are computed here, too.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_SCALARMATH_H
#define DPC_CODEGEN_KERNEL_SCALARMATH_H

#include "ir/Dialect.h"
#include "runtime/base/DType.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dpc::codegen {

/// Whether elements of `type` count from zero.
inline bool isUnsigned(mlir::Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

/// Emits at the builder's insertion point; operands are scalars of one type.
/// Integers are signless here: whether they count from zero is told apart.
class ScalarMath {
public:
  explicit ScalarMath(mlir::ImplicitLocOpBuilder &builder,
                      bool isForGpu = false)
      : b(builder), isForGpu(isForGpu) {}

  mlir::Value constant(mlir::Type type, double value);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  /// x + y of a reduction: may be reordered.
  mlir::Value accumulate(ReduceKind kind, mlir::Value x, mlir::Value y,
                         bool isUnsigned = false);
  /// The neutral element of `kind`.
  mlir::Value neutral(ReduceKind kind, mlir::Type type,
                      bool isUnsigned = false);

  mlir::Value exp(mlir::Value x);
  /// e^(x - shift), where shift is the greatest of some x, or near it.
  mlir::Value expOfDifference(mlir::Value x, mlir::Value shift);
  mlir::Value log(mlir::Value x);
  /// base^exponent in f64, with a whole exponent >= 0 and 0 <= base < 1.
  mlir::Value power(double base, mlir::Value exponent);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);

  mlir::Value unary(UnaryKind kind, mlir::Value x, bool isUnsigned = false);
  mlir::Value binary(BinaryKind kind, mlir::Value x, mlir::Value y,
                     bool isUnsigned = false);
  mlir::Value compare(CompareKind kind, mlir::Value x, mlir::Value y,
                      bool isUnsigned = false);
  mlir::Value convert(mlir::Value x, mlir::Type to);
  /// An element of type `from` as one of type `to`, both as they are computed
  /// with.
  mlir::Value convertElement(mlir::Value x, mlir::Type from, mlir::Type to);

  /// The f32 that a byte codes, and the byte of an f32.
  mlir::Value decodeFloat(mlir::Value code, const rt::NarrowFloat &format);
  mlir::Value encodeFloat(mlir::Value x, const rt::NarrowFloat &format);

  mlir::ImplicitLocOpBuilder &b;
  const bool isForGpu;
};

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_SCALARMATH_H
