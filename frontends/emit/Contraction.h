//===- Contraction.h - Tensor contractions ----------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_CONTRACTION_H
#define DPC_FRONTENDS_EMIT_CONTRACTION_H

#include "frontends/emit/Emitter.h"

namespace dpc::frontend {

/// numpy.matmul: the last two dimensions hold matrices and the others
/// broadcast. An operand of rank 1 is a row on the left and a column on the
/// right.
Val stackedMatmul(Emitter &e, Val a, Val b);

/// numpy.einsum, without '...' and without repeated labels in one operand.
Val einsum(Emitter &e, llvm::StringRef equation, llvm::ArrayRef<Val> operands);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_CONTRACTION_H
