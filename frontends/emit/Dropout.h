//===- Dropout.h - Random dropout of elements -------------------*- C++ -*-===//
//
// Which elements are dropped depends on the seed, the number of the step, the
// index of the dropout within the model and the position of the element in the
// whole tensor. The choice is therefore the same on any number of ranks and
// micro-batches and in a recomputed forward pass. The random numbers are those
// of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators, OOPSLA 2014). SplitMix64 can start at any position and needs only
// arithmetic on unsigned 64-bit numbers:
//
//     mix(z)   = a ^ a >> 31, a = (b ^ b >> 27) * kSecond,
//                             b = (z ^ z >> 30) * kFirst
//     key(0)   = mix(2^32 step + seed)    key(n + 1) = mix(key(n) + kGolden)
//     kept     = mix(key(n) + (place + 1) * kGolden) >= p 2^64
//
// The last shift does not change the highest 31 bits, so it is omitted where
// only these bits matter. The program computes each key from the previous one;
// the import does not, so that layers remain identical. The step is an argument
// of @forward with the role scalar, as dpc-differentiate passes it to the
// optimizer.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_DROPOUT_H
#define DPC_FRONTENDS_EMIT_DROPOUT_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// Whether each element of `shape` is kept; all elements are kept if p is 0.
/// Notes a failure unless `p` is a probability.
Val dropoutMask(Emitter &emit, llvm::ArrayRef<int64_t> shape, double p);

/// x / (1 - p) where `kept`, which is broadcast to x, and 0 elsewhere.
Val applyDropout(Emitter &emit, Val x, Val kept, double p);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_DROPOUT_H
