//===- ScalarMath.h - Elementwise functions on scalars ----------*- C++ -*-===//
//
// Emits the computation of one element. f32 exp, tanh and erf are polynomials
// without branches, so that LLVM vectorizes loops over them. Their errors are
// below 2 ulp; NaN and infinities behave as in libm. All f64 functions and f32
// log, sin, cos and pow call libm. On GPUs, where libm is a library of the CUDA
// toolkit, f32 log and powers of constants are emitted here too.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_SCALARMATH_H
#define DPC_CODEGEN_KERNEL_SCALARMATH_H

#include "codegen/kernel/Arithmetic.h"
#include "ir/Dialect.h"
#include "runtime/base/DType.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace dpc::codegen {

/// True for unsigned integers and booleans.
inline bool isUnsigned(mlir::Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

/// The compute type of an integer type: signless, and at least one byte wide
/// unless the type is boolean.
mlir::Type computedInteger(mlir::Type type);

/// Emits at the builder's insertion point. The operands of a function are
/// scalars of one type. Integers are signless, so functions that depend on the
/// sign take `isUnsigned`.
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
  /// Accumulates `y` into `x`; floating-point sums and products may be
  /// reordered.
  mlir::Value accumulate(ReduceKind kind, mlir::Value x, mlir::Value y,
                         bool isUnsigned = false);
  /// The neutral element of `kind`.
  mlir::Value neutral(ReduceKind kind, mlir::Type type,
                      bool isUnsigned = false);

  mlir::Value exp(mlir::Value x);
  /// e^(x - shift), where shift is close to the maximum of all x.
  mlir::Value expOfDifference(mlir::Value x, mlir::Value shift);
  mlir::Value log(mlir::Value x);
  /// base^exponent in f64, for integer exponents >= 0 and 0 <= base < 1.
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
  /// Converts an element of type `from` to type `to`; `x` and the result have
  /// their compute types.
  mlir::Value convertElement(mlir::Value x, mlir::Type from, mlir::Type to);

  /// Converts a code to f32, and an f32 to its code.
  mlir::Value decodeFloat(mlir::Value code, const rt::NarrowFloat &format);
  mlir::Value encodeFloat(mlir::Value x, const rt::NarrowFloat &format);

  mlir::ImplicitLocOpBuilder &b;
  const bool isForGpu;
};

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_SCALARMATH_H
