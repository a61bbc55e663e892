//===- NarrowFloats.cpp - Codes of floats of at most 8 bits ---------------===//
//
// The same steps as rt::floatToNarrow and rt::narrowToFloat, emitted.
//
//===----------------------------------------------------------------------===//
#include "codegen/kernel/ScalarMath.h"

#include <cmath>

using namespace mlir;

namespace dpc::codegen {

Value ScalarMath::decodeFloat(Value code, const rt::NarrowFloat &format) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto integer = [&](int64_t v) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(v));
  };
  auto special = [&](uint32_t bits) -> Value {
    return arith::BitcastOp::create(b, f32, integer(bits));
  };
  auto test = [&](arith::CmpIPredicate predicate, Value x, int64_t v) -> Value {
    return arith::CmpIOp::create(b, predicate, x, integer(v));
  };
  using P = arith::CmpIPredicate;
  Value wide = arith::ExtUIOp::create(b, i32, code);
  Value magnitude = arith::AndIOp::create(b, wide, integer(format.signBit - 1));
  Value bits =
      arith::ShLIOp::create(b, magnitude, integer(23 - format.mantissaBits));
  Value value =
      arith::MulFOp::create(b, arith::BitcastOp::create(b, f32, bits),
                            constant(f32, std::ldexp(1.0, 127 - format.bias)));
  Value nan = special(0x7fc00000);
  if (format.beyond != format.largest && format.negativeZero) {
    Value large = nan;
    if (format.beyond != format.nan)
      large = arith::SelectOp::create(b, test(P::eq, magnitude, format.beyond),
                                      special(0x7f800000), nan);
    value = arith::SelectOp::create(b, test(P::ugt, magnitude, format.largest),
                                    large, value);
  }
  Value sign = arith::AndIOp::create(b, wide, integer(format.signBit));
  value = arith::SelectOp::create(b, test(P::ne, sign, 0),
                                  arith::NegFOp::create(b, value), value);
  if (!format.negativeZero)
    value =
        arith::SelectOp::create(b, test(P::eq, wide, format.nan), nan, value);
  return value;
}

Value ScalarMath::encodeFloat(Value x, const rt::NarrowFloat &format) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  auto integer = [&](int64_t v) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(v));
  };
  auto select = [&](arith::CmpIPredicate predicate, Value a, int64_t limit,
                    Value yes, Value no) -> Value {
    return arith::SelectOp::create(
        b, arith::CmpIOp::create(b, predicate, a, integer(limit)), yes, no);
  };
  using P = arith::CmpIPredicate;
  int64_t shift = 23 - format.mantissaBits;
  Value bits = arith::BitcastOp::create(b, i32, x);
  Value magnitude = arith::AndIOp::create(b, bits, integer(0x7fffffff));
  Value odd = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, magnitude, integer(shift)), integer(1));
  Value raised = arith::AddIOp::create(
      b,
      arith::AddIOp::create(b, magnitude,
                            integer((int64_t(1) << (shift - 1)) - 1)),
      odd);
  Value normal = arith::SubIOp::create(
      b, arith::ShRUIOp::create(b, raised, integer(shift)),
      integer(int64_t(127 - format.bias) << format.mantissaBits));
  Value unit =
      constant(f32, std::ldexp(1.0, 24 - format.bias - format.mantissaBits));
  // No fast-math flags: the sum is there to round.
  Value sum = arith::AddFOp::create(
      b, arith::BitcastOp::create(b, f32, magnitude), unit);
  Value subnormal =
      arith::SubIOp::create(b, arith::BitcastOp::create(b, i32, sum),
                            arith::BitcastOp::create(b, i32, unit));
  Value code = select(P::ult, magnitude, int64_t(128 - format.bias) << 23,
                      subnormal, normal);
  code = select(P::ugt, code, format.largest, integer(format.beyond), code);
  int64_t down = format.signBit == 0x80 ? 24 : 28;
  Value sign =
      arith::AndIOp::create(b, arith::ShRUIOp::create(b, bits, integer(down)),
                            integer(format.signBit));
  Value whole = arith::OrIOp::create(b, code, sign);
  if (!format.negativeZero)
    whole = select(P::eq, code, 0, integer(0), whole);
  whole = select(P::ugt, magnitude, 0x7f800000, integer(format.nan), whole);
  return arith::TruncIOp::create(b, b.getIntegerType(8), whole);
}

} // namespace dpc::codegen
