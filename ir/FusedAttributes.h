//===- FusedAttributes.h - Attributes of fused attention --------*- C++ -*-===//
#ifndef DPC_IR_FUSEDATTRIBUTES_H
#define DPC_IR_FUSEDATTRIBUTES_H

#include "llvm/ADT/StringRef.h"

namespace dpc::attr {

/// A unit on attention and its gradient that the plan has as one instruction:
/// its operands and results may be strided. Without it, where estimates keep
/// attention whole as other software has it, they are dense.
inline constexpr llvm::StringLiteral kFused = "dpc.fused";

/// On such: for each result what kOutPerm (Dialect.h) is
/// on a matmul; an empty list where it is written in the usual order.
inline constexpr llvm::StringLiteral kOutPerms = "dpc.out_perms";

/// On the gradient of attention that cuDNN runs: the bytes that it needs while
/// it runs.
inline constexpr llvm::StringLiteral kWorkspace = "dpc.workspace";

} // namespace dpc::attr

#endif // DPC_IR_FUSEDATTRIBUTES_H
