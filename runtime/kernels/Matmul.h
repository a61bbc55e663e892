//===- Matmul.h - GEMMs on the CPU ------------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"
#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <string>

namespace dpc::rt {

/// Computes `op` (see MatmulOp) on the arrays at a, b and c. `bias` and `aux`
/// are the epilogue's arrays, of C's type. Uses oneDNN's sgemm for f32,
/// oneDNN's matmul primitive for bf16 (without hasBf16Instructions(), sgemm
/// with rounded operands), sgemm on f32 copies for f16 and fp8, and plain loops
/// for f64. Fails if oneDNN fails.
Status runMatmul(const MatmulOp &op, const void *a, DType aType, const void *b,
                 DType bType, void *c, DType cType, void *bias = nullptr,
                 void *aux = nullptr);

/// Sets how many threads the GEMMs of the calling thread use.
void setMatmulThreads(int threads);

/// Whether this processor has instructions for bf16 GEMMs (AVX512_BF16 or AMX).
/// DNNL_MAX_CPU_ISA of oneDNN may disable them.
bool hasBf16Instructions();

/// Returns the version of oneDNN, "2.6.2", or "" in a build without oneDNN.
std::string gemmLibrary();

} // namespace dpc::rt
