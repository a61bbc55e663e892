//===- Elementwise.h - Elementwise functions of several ops -----*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

template <UnaryKind kind> Val unary(Emitter &e, Val x) {
  return e.unary(kind, x);
}
template <BinaryKind kind> Val binary(Emitter &e, Val a, Val b) {
  return e.binary(kind, a, b);
}
inline Val square(Emitter &e, Val x) { return e.mul(x, x); }
inline Val tangent(Emitter &e, Val x) { return e.div(e.sin(x), e.cos(x)); }
inline Val isNaN(Emitter &e, Val x) { return e.ne(x, x); }
/// Rounds to the nearest integer, and to the even one on ties.
inline Val round(Emitter &e, Val x) { return e.round(x); }
/// Inverts booleans, and all bits of integers (-x - 1).
Val invert(Emitter &e, Val x);
/// exp(x) - 1 as tanh(x / 2) (exp(x) + 1), which is accurate near zero.
Val expMinusOne(Emitter &e, Val x);
Val isInfinite(Emitter &e, Val x);
/// Whether `remainder` is nonzero and its sign differs from that of `divisor`.
Val hasOtherSign(Emitter &e, Val remainder, Val divisor);

/// log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|)), which never overflows.
Val softplus(Emitter &e, Val x);
Val mish(Emitter &e, Val x);
/// min(max(alpha x + beta, 0), 1).
Val hardGate(Emitter &e, Val x, double alpha, double beta);
/// min(max(x + 3, 0), 6) / 6.
Val hardSigmoid(Emitter &e, Val x);
Val hardSwish(Emitter &e, Val x);
/// scale (exp(rate min(x, 0)) - 1), the negative branch of Elu. The minimum
/// keeps the gradient finite where Elu selects the other branch.
Val expBelow(Emitter &e, Val x, double scale, double rate = 1);

} // namespace dpc::frontend
