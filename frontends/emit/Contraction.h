//===- Contraction.h - Tensor contractions ----------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// numpy.matmul: multiplies matrices in the last two dimensions and broadcasts
/// the others. A vector is a row on the left and a column on the right.
Val stackedMatmul(Emitter &e, Val a, Val b);

/// numpy.einsum. '...' broadcasts. Fails on a label that one operand has twice.
Val einsum(Emitter &e, llvm::StringRef equation, llvm::ArrayRef<Val> operands);

} // namespace dpc::frontend
