//===- Matmul.h - GEMMs on the CPU ------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_MATMUL_H
#define DPC_RUNTIME_KERNELS_MATMUL_H

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Computes `op` (see MatmulOp) on the arrays that start at a, b and c, with
/// the given element types. `bias` and `aux` are the arrays of the epilogue and
/// have C's type. f32 uses oneDNN's sgemm. bf16 uses oneDNN's matmul primitive,
/// or sgemm with rounded operands on machines without AVX-512. f16 and fp8 use
/// sgemm on f32 copies. f64 uses plain loops. Fails if oneDNN fails.
Status runMatmul(const MatmulOp &op, const void *a, DType aType, const void *b,
                 DType bType, void *c, DType cType, void *bias = nullptr,
                 void *aux = nullptr);

/// Sets the number of threads for GEMMs of the calling thread.
void setMatmulThreads(int threads);

/// The version of oneDNN, "2.6.2"; "" in a build without it.
std::string productLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_MATMUL_H
