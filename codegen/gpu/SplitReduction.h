//===- SplitReduction.h - Reductions over dimensions on a GPU ---*- C++ -*-===//
#ifndef DPC_CODEGEN_GPU_SPLITREDUCTION_H
#define DPC_CODEGEN_GPU_SPLITREDUCTION_H

#include "codegen/gpu/GpuKernel.h"

namespace dpc::codegen {

/// Reductions of values of one shape over the same dimensions. If the last
/// dimension is reduced, a team computes each part of a result; else a thread
/// computes a part of the results of several columns. If results have several
/// parts, scratch memory holds the parts, with those of one result next to each
/// other, and another stage combines them.
struct SplitReduction {
  struct Term {
    ReduceKind kind = ReduceKind::sum;
    Type type;
    bool isUnsigned = false;
    unsigned result = 0; ///< of the kernel
    std::function<Value(ArrayRef<Index>)> element;
    Scratch scratch;
  };
  SmallVector<int64_t> shape, dims;
  SmallVector<Term, 2> terms;

  // planReduction() computes the rest.
  SmallVector<int64_t> keptSizes, reducedSizes;
  int64_t kept = 1, reduced = 1; ///< products of the sizes
  int64_t width = 1;             ///< of vectors along the last dimension
  int64_t parts = 1;             ///< of each result
  int64_t length = 1;            ///< reduced elements per part

  bool alongRows() const {
    return dims.empty() ||
           dims.back() == static_cast<int64_t>(shape.size()) - 1;
  }
};

/// Chooses the parts and allocates scratch memory for them.
void planReduction(GpuKernel &k, SplitReduction &reduction);
/// Emits the stages of a planned reduction.
void emitReduction(GpuKernel &k, const SplitReduction &reduction);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_GPU_SPLITREDUCTION_H
