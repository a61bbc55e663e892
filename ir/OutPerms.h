//===- OutPerms.h - The order in which attention writes ---------*- C++ -*-===//
#ifndef DPC_IR_OUTPERMS_H
#define DPC_IR_OUTPERMS_H

#include "llvm/ADT/StringRef.h"

namespace dpc::attr {

/// On attention and its gradient: for each result what kOutPerm (Dialect.h) is
/// on a matmul; an empty list where it is written in the usual order.
inline constexpr llvm::StringLiteral kOutPerms = "dpc.out_perms";

} // namespace dpc::attr

#endif // DPC_IR_OUTPERMS_H
