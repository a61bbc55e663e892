//===- Epilogue.h - GEMM epilogues on the CPU -------------------*- C++ -*-===//
//
// Computes epilogues with plain loops. Other backends are compared with this
// reference.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_KERNELS_EPILOGUE_H
#define DPC_RUNTIME_KERNELS_EPILOGUE_H

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <vector>

namespace dpc::rt {

/// The arrays that a GEMM with an epilogue reads and writes, all of one type.
struct EpilogueArrays {
  void *c = nullptr, *bias = nullptr, *aux = nullptr;
  DType type = DType::F32;
};

/// Applies an epilogue other than SumsOfA and SumsOfB to the dense m x n sums
/// of a GEMM.
void finishProduct(const MatmulOp &op, std::vector<float> &sums,
                   const EpilogueArrays &arrays);
/// bias[j] = the sum of column j of a stored rows x cols matrix.
void sumColumns(const void *matrix, DType type, int64_t offset, int64_t rows,
                int64_t cols, int64_t ld, void *bias, DType biasType,
                int64_t biasOffset);

/// Like runMatmul, for an op with an epilogue.
Status runWithEpilogue(const MatmulOp &op, const void *a, DType aType,
                       const void *b, DType bType,
                       const EpilogueArrays &arrays);

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_EPILOGUE_H
