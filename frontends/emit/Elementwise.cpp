//===- Elementwise.cpp - Elementwise functions of several ops -------------===//
#include "frontends/emit/Elementwise.h"

#include <limits>

namespace dpc::frontend {

Val invert(Emitter &e, Val x) {
  if (x && !x.element().isInteger(1))
    return e.sub(e.neg(x), 1);
  return e.unary(UnaryKind::logical_not, x);
}

Val expMinusOne(Emitter &e, Val x) {
  Val half = e.tanh(e.mul(x, 0.5));
  return e.mul(half, e.add(e.exp(x), 1));
}

Val isInfinite(Emitter &e, Val x) {
  return e.eq(e.abs(x), std::numeric_limits<double>::infinity());
}

Val hasOtherSign(Emitter &e, Val remainder, Val divisor) {
  Val signs = e.logicalXor(e.lt(remainder, 0), e.lt(divisor, 0));
  return e.logicalAnd(signs, e.ne(remainder, 0));
}

/// The gradients of max(x, 0) and |x| at 0 are 1/2 and 0, so that the sum has
/// the gradient sigmoid(x) there, too.
Val softplus(Emitter &e, Val x) {
  Val log = e.log(e.add(e.exp(e.neg(e.abs(x))), 1));
  return e.add(e.maximum(x, 0), log);
}

Val mish(Emitter &e, Val x) {
  Val gate = e.tanh(softplus(e, x));
  return e.mul(x, gate);
}

Val hardGate(Emitter &e, Val x, double alpha, double beta) {
  return e.clamp(e.add(e.mul(x, alpha), beta), 0, 1);
}

/// x + 3 is exact at the bounds, where no gradient passes; x / 6 + 1 / 2 is
/// not.
Val hardSigmoid(Emitter &e, Val x) {
  return e.mul(e.clamp(e.add(x, 3), 0, 6), 1.0 / 6.0);
}

Val hardSwish(Emitter &e, Val x) { return e.mul(x, hardSigmoid(e, x)); }

Val expBelow(Emitter &e, Val x, double scale, double rate) {
  Val low = e.extremum(BinaryKind::minimum, x, 0, Emitter::Ties::First);
  if (rate != 1)
    low = e.mul(low, rate);
  return e.mul(e.sub(e.exp(low), 1), scale);
}

} // namespace dpc::frontend
