//===- Epilogue.h - GEMM epilogues on the CPU -------------------*- C++ -*-===//
//
// Other backends are compared with these plain loops.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// All arrays have the same type.
struct EpilogueArrays {
  void *c = nullptr, *bias = nullptr, *aux = nullptr;
  DType type = DType::F32;
};

/// Applies an epilogue except SumsOfA and SumsOfB to `sums`, the dense m x n
/// result of a GEMM, and stores the results in `arrays`.
void finishGemm(const MatmulOp &op, std::vector<float> &sums,
                const EpilogueArrays &arrays);
/// Sets bias[j] to the sum of column j of a rows x cols matrix.
void sumColumns(const void *matrix, DType type, int64_t offset, int64_t rows,
                int64_t cols, int64_t ld, void *bias, DType biasType,
                int64_t biasOffset);

Status runWithEpilogue(const MatmulOp &op, const void *a, DType aType,
                       const void *b, DType bType,
                       const EpilogueArrays &arrays);

} // namespace dpc::rt
