//===- UserShardings.h - What the model says of its layout ------*- C++ -*-===//
//
// A model may come with shardings (sdy.sharding of JAX, ShardingSpec of ONNX).
// Of arguments they are constraints that search keeps.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_USERSHARDINGS_H
#define DPC_IR_USERSHARDINGS_H

#include "llvm/ADT/StringRef.h"

namespace dpc {

/// On an argument (array of i64): the dimensions that tensor axes split, one of
/// them each; none of them where it is empty. Absent: as is best.
inline constexpr llvm::StringLiteral kUserSplitAttr = "dpc.user_split";

/// On the module (dictionary of i64): the degrees of the mesh that these
/// shardings are over: those of `dp`, `tp`, `cp`, `pp`, `vpp` that they tell.
inline constexpr llvm::StringLiteral kUserDegreesAttr = "dpc.user_degrees";

} // namespace dpc

#endif // DPC_IR_USERSHARDINGS_H
