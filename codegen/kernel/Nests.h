//===- Nests.h - Computes the elements of a kernel box by box ---*- C++ -*-===//
#pragma once

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

struct NestLoops {
  SmallVector<bool> merges; ///< [d]: loops d and d + 1 may become one
  /// A loop along which some access is contiguous although this access is
  /// strided along the last loop; -1 if there is no such loop.
  int64_t crossed = -1;
};
NestLoops analyzeNest(const Nest &nest, ArrayRef<StridedView> inputs);

/// Adds `begin`, the start of a box, to the loop indices.
Indices shifted(ImplicitLocOpBuilder *b, ArrayRef<Index> indices,
                ArrayRef<int64_t> begin);

/// Computes and stores `results`. Results with equal shapes share a nest.
void emitResults(ElementEmitter &b, ArrayRef<unsigned> results);
/// Computes and stores results of one shape. Cuts the nest where ops, such as
/// concatenations, switch between operands.
void emitCut(ElementEmitter &b, ArrayRef<unsigned> results);

/// Fills memory with `value`, in loops of one thread.
void fill(ElementEmitter &b, const MemoryRef &target, Type elementType,
          double value);

} // namespace dpc::codegen
