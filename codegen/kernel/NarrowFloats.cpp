//===- NarrowFloats.cpp - Encodings of floats of at most 8 bits -----------===//
//
// These functions emit the steps of rt::floatToNarrow and rt::narrowToFloat.
//
//===----------------------------------------------------------------------===//
#include "codegen/kernel/ScalarMath.h"

#include <cmath>

using namespace mlir;

namespace dpc::codegen {

Value ScalarMath::decodeFloat(Value code, const rt::NarrowFloat &format) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto special = [&](uint32_t bits) -> Value {
    return bitcast(b, f32, constantI32(b, bits));
  };
  auto test = [&](IntPredicate predicate, Value x, int64_t v) -> Value {
    return cmp(b, predicate, x, constantI32(b, v));
  };
  using P = IntPredicate;
  Value wide = extendU(b, i32, code);
  Value magnitude = andI(b, wide, format.signBit - 1);
  Value bits = shiftLeft(b, magnitude, 23 - format.mantissaBits);
  Value value =
      arith::MulFOp::create(b, bitcast(b, f32, bits),
                            constant(f32, std::ldexp(1.0, 127 - format.bias)));
  Value nan = special(0x7fc00000);
  if (format.beyond != format.largest && format.negativeZero) {
    Value large = nan;
    if (format.beyond != format.nan)
      large = select(b, test(P::eq, magnitude, format.beyond),
                     special(0x7f800000), nan);
    value = select(b, test(P::ugt, magnitude, format.largest), large, value);
  }
  Value sign = andI(b, wide, format.signBit);
  value =
      select(b, test(P::ne, sign, 0), arith::NegFOp::create(b, value), value);
  if (!format.negativeZero)
    value = select(b, test(P::eq, wide, format.nan), nan, value);
  return value;
}

Value ScalarMath::encodeFloat(Value x, const rt::NarrowFloat &format) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto choose = [&](IntPredicate predicate, Value a, int64_t limit, Value yes,
                    Value no) -> Value {
    return select(b, cmp(b, predicate, a, constantI32(b, limit)), yes, no);
  };
  using P = IntPredicate;
  int64_t shift = 23 - format.mantissaBits;
  Value bits = bitcast(b, i32, x);
  Value magnitude = andI(b, bits, 0x7fffffff);
  Value odd = andI(b, shiftRightU(b, magnitude, shift), 1);
  Value raised =
      addI(b, addI(b, magnitude, (int64_t(1) << (shift - 1)) - 1), odd);
  Value normal = subI(b, shiftRightU(b, raised, shift),
                      int64_t(127 - format.bias) << format.mantissaBits);
  Value unit =
      constant(f32, std::ldexp(1.0, 24 - format.bias - format.mantissaBits));
  // The addition is meant to round, so it has no fast-math flags.
  Value sum = arith::AddFOp::create(b, bitcast(b, f32, magnitude), unit);
  Value subnormal = subI(b, bitcast(b, i32, sum), bitcast(b, i32, unit));
  Value code = choose(P::ult, magnitude, int64_t(128 - format.bias) << 23,
                      subnormal, normal);
  code =
      choose(P::ugt, code, format.largest, constantI32(b, format.beyond), code);
  int64_t down = format.signBit == 0x80 ? 24 : 28;
  Value sign = andI(b, shiftRightU(b, bits, down), format.signBit);
  Value whole = orI(b, code, sign);
  if (!format.negativeZero)
    whole = choose(P::eq, code, 0, constantI32(b, 0), whole);
  whole =
      choose(P::ugt, magnitude, 0x7f800000, constantI32(b, format.nan), whole);
  return truncate(b, b.getIntegerType(8), whole);
}

} // namespace dpc::codegen
