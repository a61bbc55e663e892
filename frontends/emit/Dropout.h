//===- Dropout.h - Elements left out at random ------------------*- C++ -*-===//
//
// What is left out depends on the seed, the number of the step, which dropout
// of the model it is, and the element's place in the whole tensor. So the same
// elements are on any number of ranks and micro-batches, and where the forward
// pass is computed again. The numbers are those of SplitMix64 (Steele, Lea,
// Flood: Fast splittable pseudorandom number generators, OOPSLA 2014), which
// can be drawn from any place on, in arithmetic on unsigned 64-bit numbers:
//
//     mix(z)   = a ^ a >> 31, a = (b ^ b >> 27) * kSecond,
//                             b = (z ^ z >> 30) * kFirst
//     key(0)   = mix(2^32 step + seed)    key(n + 1) = mix(key(n) + kGolden)
//     kept     = mix(key(n) + (place + 1) * kGolden) >= p 2^64
//
// (The last shift does not reach the highest 31 bits; where only these matter
// it is left out.) Keys are made by the program, one from the other, and not
// while importing, so that layers remain alike. The step is an argument of
// @forward, of role scalar, as dpc-differentiate has it for the optimizer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_DROPOUT_H
#define DPC_FRONTENDS_EMIT_DROPOUT_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// For each element of `shape`, whether it stays: all of them where p is 0. `p`
/// is a probability, or a failure is noted.
Val keptAtRandom(Emitter &emit, llvm::ArrayRef<int64_t> shape, double p);

/// x / (1 - p) where `kept`, which is broadcast, and 0 elsewhere.
Val dropped(Emitter &emit, Val x, Val kept, double p);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_DROPOUT_H
