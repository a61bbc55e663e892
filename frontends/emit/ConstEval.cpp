//===- ConstEval.cpp - Scalar evaluation of elementwise kinds -------------===//
#include "frontends/emit/ConstTensor.h"
#include "ir/ScalarSemantics.h"

using namespace mlir;

namespace dpc::frontend {

/// All integers are computed as i64; `coerce` narrows the results.
static APInt wide(Scalar x) { return APInt(64, static_cast<uint64_t>(x.i)); }

Scalar evalUnary(UnaryKind kind, Scalar x, bool isFloat) {
  Scalar r;
  if (isFloat)
    r.f = evaluate(kind, x.f);
  else
    r.i = evaluate(kind, wide(x), /*isUnsigned=*/false)->getSExtValue();
  return r;
}

/// Integer power by squaring; a fractional result is truncated toward zero.
static int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = static_cast<uint64_t>(base);
  for (; exponent; exponent >>= 1, factor *= factor)
    if (exponent & 1)
      result *= factor;
  return static_cast<int64_t>(result);
}

Scalar evalBinary(BinaryKind kind, Scalar a, Scalar b, bool isFloat) {
  Scalar r;
  if (isFloat)
    r.f = evaluate(kind, a.f, b.f);
  else if (auto value = evaluate(kind, wide(a), wide(b), /*isUnsigned=*/false))
    r.i = value->getSExtValue();
  else if (kind == BinaryKind::pow)
    r.i = integerPower(a.i, b.i);
  else // x / 0 is 0; INT64_MIN / -1 is INT64_MIN
    r.i = kind == BinaryKind::div && b.i == -1 ? a.i : 0;
  return r;
}

bool evalCompare(CompareKind kind, Scalar a, Scalar b, bool isFloat) {
  return isFloat ? evaluate(kind, a.f, b.f) : evaluate(kind, a.i, b.i);
}

} // namespace dpc::frontend
