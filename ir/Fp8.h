//===- Fp8.h - Products of 8-bit codes --------------------------*- C++ -*-===//
#ifndef DPC_IR_FP8_H
#define DPC_IR_FP8_H

#include "llvm/ADT/StringRef.h"

namespace dpc::attr {

/// On a matmul of bf16: the types of the codes that it multiplies instead of
/// its operands, [f8E4M3FN, f8E5M2]. On the program of a rank, only where the
/// sizes allow it; there kWorkspace (FusedAttributes.h) is beside it.
inline constexpr llvm::StringLiteral kFp8 = "dpc.fp8";

} // namespace dpc::attr

#endif // DPC_IR_FP8_H
