//===- Nests.h - Which elements a kernel computes, box by box ---*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_NESTS_H
#define DPC_CODEGEN_KERNEL_NESTS_H

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// Which neighbouring loops of a nest may become one, and what its accesses
/// cross.
struct NestLoops {
  llvm::SmallVector<bool> merges; ///< [d]: loops d and d + 1 may become one
  /// A loop along which some access is contiguous that jumps along the last
  /// loop, or -1.
  int64_t crossed = -1;
};
NestLoops analyzeNest(const Nest &nest, llvm::ArrayRef<StridedView> inputs);

/// Loop indices moved to where a box begins.
Indices shifted(mlir::ImplicitLocOpBuilder *b, llvm::ArrayRef<Index> indices,
                llvm::ArrayRef<int64_t> begin);

/// Computes and stores the results of these numbers, those of one shape
/// together.
void emitResults(ElementEmitter &b, llvm::ArrayRef<unsigned> results);
/// The same for results of one shape, cut where ops choose by position.
void emitCut(ElementEmitter &b, llvm::ArrayRef<unsigned> results);

/// Fills memory, in loops of one thread.
void fill(ElementEmitter &b, const MemoryRef &target, mlir::Type elementType,
          double value);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_NESTS_H
