//===- Nests.h - Computes the elements of a kernel box by box ---*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_NESTS_H
#define DPC_CODEGEN_KERNEL_NESTS_H

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

struct NestLoops {
  SmallVector<bool> merges; ///< [d]: loops d and d + 1 may become one
  /// A loop along which some access is contiguous while it is strided along the
  /// last loop; -1 if there is none.
  int64_t crossed = -1;
};
NestLoops analyzeNest(const Nest &nest, ArrayRef<StridedView> inputs);

/// The loop indices, moved to the beginning of a box.
Indices shifted(ImplicitLocOpBuilder *b, ArrayRef<Index> indices,
                ArrayRef<int64_t> begin);

/// Computes and stores the given results; results of equal shapes share a nest.
void emitResults(ElementEmitter &b, ArrayRef<unsigned> results);
/// The same for results of one shape. The nest is cut where ops switch between
/// operands.
void emitCut(ElementEmitter &b, ArrayRef<unsigned> results);

/// Fills memory with `value`, in loops of one thread.
void fill(ElementEmitter &b, const MemoryRef &target, Type elementType,
          double value);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_NESTS_H
