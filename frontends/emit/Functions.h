//===- Functions.h - Functions as series ------------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

Val arcTangent(Emitter &e, Val x);
/// The angle of the point (x, y): atan(y / x) in the right quadrant.
Val arcTangentOf(Emitter &e, Val y, Val x);
Val arcSine(Emitter &e, Val x);
Val arcCosine(Emitter &e, Val x);
Val sineHyperbolic(Emitter &e, Val x);
Val cosineHyperbolic(Emitter &e, Val x);
/// The inverses of sinh, cosh and tanh.
Val areaSine(Emitter &e, Val x);
Val areaCosine(Emitter &e, Val x);
Val areaTangent(Emitter &e, Val x);

/// The inverse of the error function.
Val inverseErf(Emitter &e, Val x);
/// log |gamma(x)|.
Val logGamma(Emitter &e, Val x);

} // namespace dpc::frontend
