//===- Dropout.h - Random dropout and random numbers ------------*- C++ -*-===//
//
// An element is kept or dropped depending on the seed, the step, the index n of
// the dropout within the model, and the position of the element in the global
// tensor, but not on the number of ranks or micro-batches, or on recomputation.
// The random numbers come from SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014), which can start at any position
// and needs only arithmetic on unsigned 64-bit integers:
//
//     mix(z)   = a ^ a >> 31, a = (b ^ b >> 27) * kSecond,
//                             b = (z ^ z >> 30) * kFirst
//     key(0)   = mix(2^32 step + seed)    key(n + 1) = mix(key(n) + kGolden)
//     kept     = mix(key(n) + (position + 1) * kGolden) >= p 2^64
//
// Other random numbers take the highest bits of the same numbers. They have
// other values than torch's, of the same distributions.
//
// The comparison omits the last shift of mix, which leaves the highest 31 bits
// unchanged. Keys are computed at run time, each from the previous one, so that
// all layers have the same ops and constants. The step is an argument of
// @forward with the role scalar.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Returns the probability of a dropout that the model has with probability
/// `p`: 0 if `emit.evaluates`, otherwise `p`. Keeps a `p` that is not valid.
double activeDropout(Emitter &emit, double p);

/// Counts a dropout with probability `p` in `emit.modes`.
void noteDropout(Emitter &emit, double p, bool trains);

/// Returns a boolean per element of `shape`: whether dropout keeps the element.
/// Notes a failure unless 0 <= `p` <= 1.
Val dropoutMask(Emitter &emit, llvm::ArrayRef<int64_t> shape, double p);

/// Returns x / (1 - p) where `kept` is true and 0 elsewhere; broadcasts `kept`.
Val applyDropout(Emitter &emit, Val x, Val kept, double p);

/// Returns random numbers from 0 to 1, without 1.
Val drawUniform(Emitter &emit, llvm::ArrayRef<int64_t> shape,
                mlir::Type element);
/// Returns numbers of the standard normal distribution.
Val drawNormal(Emitter &emit, llvm::ArrayRef<int64_t> shape,
               mlir::Type element);
/// Returns random integers, i64, from 0 to `limit` - 1; `limit` is at most
/// 2^31.
Val drawIntegers(Emitter &emit, llvm::ArrayRef<int64_t> shape, int64_t limit);

} // namespace dpc::frontend
