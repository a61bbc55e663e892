//===- Contraction.h - Products of tensors ---------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_CONTRACTION_H
#define DPC_FRONTENDS_EMIT_CONTRACTION_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// numpy.matmul: matrices in the last two dimensions, the others broadcast;
/// an operand of rank 1 is a row on the left, a column on the right.
Val stackedMatmul(Emitter &e, Val a, Val b);

/// numpy.einsum without '...' and without a label twice in one operand.
Val einsum(Emitter &e, llvm::StringRef equation, llvm::ArrayRef<Val> operands);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_CONTRACTION_H
