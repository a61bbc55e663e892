//===- Matmul.h - GEMMs on the CPU ------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_MATMUL_H
#define DPC_RUNTIME_KERNELS_MATMUL_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Computes `op` (see MatmulOp) on the arrays that start at a, b and c, with
/// the given element types. f32 uses oneDNN's sgemm; bf16 its matmul primitive
/// (AMX where present; rounded operands through sgemm on a machine without
/// AVX-512); f16 widened copies through sgemm; f64 plain loops; fp8 the values
/// of its codes through sgemm. Fails when oneDNN does. `bias` and `aux` are
/// arrays of C's type, for the epilogue.
Status runMatmul(const MatmulOp &op, const void *a, DType aType, const void *b,
                 DType bType, void *c, DType cType, void *bias = nullptr,
                 void *aux = nullptr);

/// Sets the number of threads of GEMMs that the calling thread starts.
void setMatmulThreads(int threads);

/// The version of oneDNN, "2.6.2"; "" in a build without it.
std::string productLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_MATMUL_H
