//===- SplitReduction.h - Reductions over dimensions on a GPU ---*- C++ -*-===//
#pragma once

#include "codegen/gpu/GpuKernel.h"

namespace dpc::codegen {

/// Reductions of values with equal shapes over the same dimensions. If the last
/// dimension is reduced, one team computes each part of a result; otherwise one
/// thread computes a part of the results of several columns. If results have
/// several parts, the parts of a result are adjacent in scratch memory, and
/// another stage combines them.
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

  // planReduction() sets the fields below.
  SmallVector<int64_t> keptSizes, reducedSizes;
  int64_t kept = 1, reduced = 1; ///< products of keptSizes, reducedSizes
  int64_t width = 1;             ///< elements per vector
  int64_t parts = 1;             ///< of each result
  int64_t length = 1;            ///< reduced elements per part

  bool alongRows() const {
    return dims.empty() ||
           dims.back() == static_cast<int64_t>(shape.size()) - 1;
  }
};

/// Chooses the parts and allocates scratch memory for them.
void planReduction(GpuKernel &k, SplitReduction &reduction);
void emitReduction(GpuKernel &k, const SplitReduction &reduction);

} // namespace dpc::codegen
