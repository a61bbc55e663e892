//===- Random.cpp - Operators that draw random numbers --------------------===//
#include "frontends/emit/Dropout.h"
#include "frontends/torch/Call.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend::pt2 {

namespace {

bool isSize(Call &c, const Shape &shape) {
  int64_t count = 1;
  for (int64_t d : shape)
    if (d < 0 || llvm::MulOverflow(count, d, count)) {
      c.fail("size {0} is invalid", shape);
      return false;
    }
  return true;
}

using Draw = Val (*)(Emitter &, llvm::ArrayRef<int64_t>, Type);

Val drawn(Call &c, Draw draw, const Shape &shape) {
  Type element = c.resultElement();
  if (!element || !isSize(c, shape))
    return {};
  if (!isa<FloatType>(element))
    return c.fail("draws numbers that are not floats");
  return draw(c.emit, shape, element);
}

template <Draw draw> Val drawSize(Call &c) {
  return drawn(c, draw, c.ints("size"));
}
template <Draw draw> Val drawLike(Call &c, Val x) {
  return drawn(c, draw, Shape(x.shape()));
}

Val uniform(Call &c, Val x) {
  double from = c.number("from"), to = c.number("to");
  Val u = drawn(c, drawUniform, Shape(x.shape()));
  return c.emit.add(c.emit.mul(u, to - from), from);
}

Val scaledNormal(Call &c, const Shape &shape) {
  double mean = c.number("mean"), deviation = c.number("std");
  return c.emit.add(c.emit.mul(drawn(c, drawNormal, shape), deviation), mean);
}
Val normal(Call &c, Val x) { return scaledNormal(c, Shape(x.shape())); }
Val normalSize(Call &c) { return scaledNormal(c, c.ints("size")); }

Val exponential(Call &c, Val x) {
  double rate = c.number("lambd");
  Val rest = c.emit.sub(1, drawn(c, drawUniform, Shape(x.shape())));
  return c.emit.mul(c.emit.log(rest), -1 / rate);
}

/// 1 with the probability `p`, else 0.
Val bernoulli(Call &c, Val x) {
  double p = c.number("p");
  return c.emit.convert(dropoutMask(c.emit, x.shape(), 1 - p),
                        c.resultElement());
}

/// Each element has its own probability.
Val bernoulliOf(Call &c, Val probabilities) {
  Emitter &e = c.emit;
  Val u =
      drawUniform(e, probabilities.shape(), e.statisticsType(probabilities));
  return e.convert(e.lt(u, e.convert(probabilities, u.element())),
                   c.resultElement());
}

Val integers(Call &c, const Shape &shape) {
  int64_t low = c.integer("low"), high = c.integer("high");
  Type element = c.resultElement();
  constexpr int64_t kMost = int64_t(1) << 31;
  if (!element || !isSize(c, shape))
    return {};
  if (high <= low || low < -kMost || high > kMost || high - low > kMost)
    return c.fail("draws from {0} to {1}; accepted: up to 2^31 numbers", low,
                  high);
  return c.emit.convert(
      c.emit.add(drawIntegers(c.emit, shape, high - low), low), element);
}
Val integersSize(Call &c) { return integers(c, c.ints("size")); }
Val integersLike(Call &c, Val x) { return integers(c, Shape(x.shape())); }

/// Dropped elements get a number that keeps mean and variance of selu's
/// results (Klambauer et al., 2017).
Val alphaDropout(Call &c, Val x) {
  Emitter &e = c.emit;
  bool trains = c.flag("train");
  double given = c.number("p"), p = trains ? activeDropout(e, given) : 0;
  noteDropout(e, given, trains);
  if (e.failed() || p == 0)
    return x;
  if (p == 1)
    return e.mul(x, 0);
  constexpr double kDropped = -1.7580993408473766;
  double scale = 1 / std::sqrt((1 - p) * (1 + p * kDropped * kDropped));
  Val chosen = e.select(dropoutMask(e, x.shape(), p), x, kDropped);
  return e.add(e.mul(chosen, scale), -scale * kDropped * p);
}

} // namespace

void addRandom(OperatorTable &t) {
  t["rand.default"] = {"size, dtype=None", drawSize<drawUniform>};
  t["rand_like.default"] = {"self, dtype=None", drawLike<drawUniform>};
  t["randn.default"] = {"size, dtype=None", drawSize<drawNormal>};
  t["randn_like.default"] = {"self, dtype=None", drawLike<drawNormal>};
  t["uniform.default"] = {"self, from=0.0, to=1.0", uniform};
  t["normal_.default"] = {"self, mean=0.0, std=1.0", normal};
  t["normal.float_float"] = {"mean, std, size, dtype=None", normalSize};
  t["exponential.default"] = {"self, lambd=1.0", exponential};
  t["bernoulli.default"] = {"self", bernoulliOf};
  t["bernoulli.p"] = {"self, p", bernoulli};
  t["bernoulli_.float"] = {"self, p=0.5", bernoulli};
  t["randint.default"] = {"high, size, low=0, dtype=None", integersSize};
  t["randint.low"] = {"low, high, size, dtype=None", integersSize};
  t["randint_like.default"] = {"self, high, low=0, dtype=None", integersLike};
  t["randint_like.low_dtype"] = {"self, low, high, dtype=None", integersLike};
  t["alpha_dropout.default"] = {"input, p, train", alphaDropout};
  t["alpha_dropout_.default"] = {"self, p, train", alphaDropout};
}

} // namespace dpc::frontend::pt2
