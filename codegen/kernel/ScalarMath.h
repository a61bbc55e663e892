//===- ScalarMath.h - Elementwise functions on scalars ----------*- C++ -*-===//
//
// Emits the computation of one element. f32 exp, tanh and erf are polynomials
// without branches, so that LLVM vectorizes loops over them. Their errors are
// below 2 ulp; NaN and infinities behave as in libm. All f64 functions and f32
// log, sin, cos and pow call libm. On GPUs, where libm is a library of the CUDA
// toolkit, f32 log and powers of constants are emitted here too.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/kernel/Arithmetic.h"
#include "ir/Dialect.h"
#include "runtime/base/DType.h"

#include "mlir/Dialect/Math/IR/Math.h"

namespace dpc::codegen {

/// True for unsigned integers and booleans.
inline bool isUnsigned(Type type) {
  return type.isUnsignedInteger() || type.isInteger(1);
}

/// The compute type of an integer type: signless, and at least one byte wide
/// unless the type is boolean.
Type computedInteger(Type type);

/// Emits code at the insertion point of the builder. The operands of a function
/// are scalars of equal type. Integers are signless, so functions that depend
/// on the sign have the parameter `isUnsigned`.
class ScalarMath {
public:
  explicit ScalarMath(ImplicitLocOpBuilder &builder, bool isForGpu = false)
      : b(builder), isForGpu(isForGpu) {}

  Value constant(Type type, double value);
  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  /// Combines `x` and `y` by `kind`. Float sums and products may be reordered.
  Value accumulate(ReduceKind kind, Value x, Value y, bool isUnsigned = false);
  Value neutral(ReduceKind kind, Type type, bool isUnsigned = false);

  Value exp(Value x);
  /// e^(x - shift), where shift is close to the maximum of all x.
  Value expOfDifference(Value x, Value shift);
  Value log(Value x);
  /// base^exponent in f64, for integer exponents >= 0 and 0 <= base < 1.
  Value power(double base, Value exponent);
  Value tanh(Value x);
  Value erf(Value x);
  Value sigmoid(Value x);

  Value unary(UnaryKind kind, Value x, bool isUnsigned = false);
  Value binary(BinaryKind kind, Value x, Value y, bool isUnsigned = false);
  Value compare(CompareKind kind, Value x, Value y, bool isUnsigned = false);
  Value convert(Value x, Type to);
  /// Converts an element of type `from` to type `to`. `x` and the result have
  /// the compute types of `from` and `to`.
  Value convertElement(Value x, Type from, Type to);

  /// Converts the code of a narrow float to f32, and an f32 to its code.
  Value decodeFloat(Value code, const rt::NarrowFloat &format);
  Value encodeFloat(Value x, const rt::NarrowFloat &format);

  ImplicitLocOpBuilder &b;
  const bool isForGpu;
};

} // namespace dpc::codegen
