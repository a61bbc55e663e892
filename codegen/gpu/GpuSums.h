//===- GpuSums.h - Reductions over dimensions on a GPU ----------*- C++ -*-===//
#ifndef DPC_CODEGEN_GPU_GPUSUMS_H
#define DPC_CODEGEN_GPU_GPUSUMS_H

#include "codegen/gpu/GpuKernel.h"

namespace dpc::codegen {

/// Reductions of one shape over the same of its dimensions. Where the last
/// dimension is reduced, a team makes each part of a sum; else each thread
/// makes parts of the sums of some columns. With several parts they lie in
/// scratch memory, those of a sum together, and another stage adds them up.
struct GpuSums {
  struct Term {
    ReduceKind kind = ReduceKind::sum;
    mlir::Type type;
    bool isUnsigned = false;
    unsigned result = 0; ///< of the kernel
    std::function<mlir::Value(llvm::ArrayRef<Index>)> element;
    Scratch scratch;
  };
  llvm::SmallVector<int64_t> shape, dims;
  llvm::SmallVector<Term, 2> terms;

  // What planSums() derives.
  llvm::SmallVector<int64_t> keptSizes, reducedSizes;
  int64_t kept = 1, reduced = 1; ///< products of the sizes
  int64_t width = 1;             ///< of vectors along the last dimension
  int64_t parts = 1;             ///< of a sum
  int64_t length = 1;            ///< reduced elements of a part

  bool alongRows() const {
    return dims.empty() ||
           dims.back() == static_cast<int64_t>(shape.size()) - 1;
  }
};

/// Cuts the sums into parts and takes scratch memory for them.
void planSums(GpuKernel &k, GpuSums &sums);
/// Emits the stages of planned sums.
void emitSums(GpuKernel &k, const GpuSums &sums);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_GPU_GPUSUMS_H
