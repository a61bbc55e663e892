//===- StepMarks.h - Marks of training steps that came whole ----*- C++ -*-===//
#ifndef DPC_IR_STEPMARKS_H
#define DPC_IR_STEPMARKS_H

#include "llvm/ADT/StringRef.h"

namespace dpc {

/// On the module (unit): its @train_step came with gradients and optimizer
/// inside, so that what is a gradient, and of which forward op, is not known.
inline constexpr llvm::StringLiteral kWholeStepAttr = "dpc.whole_step";

} // namespace dpc

#endif // DPC_IR_STEPMARKS_H
