//===- SmallProgram.h - A few layers, lowered and measured ------*- C++ -*-===//
//
// Private to passes/price.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_PRICE_SMALLPROGRAM_H
#define DPC_PASSES_PRICE_SMALLPROGRAM_H

#include "passes/lower/ProgramFamily.h"
#include "passes/lower/SharedLowering.h"
#include "passes/price/StageProfile.h"
#include "passes/shard/Degrees.h"

namespace dpc {

/// What was measured of a program of few layers.
struct SmallProgram {
  std::vector<StageProfile> stages;
  std::vector<StageMessage> messages;
  StepTime time; ///< Without pipeline.
};

/// Lowers the program of `layers` for `degrees`, whose pipeline has `stages` in
/// truth, and measures it. Where its stages are pieces, `look` sees its step
/// functions, and memory is profiled in frames only. Fails with a diagnostic.
mlir::FailureOr<SmallProgram> measureLayers(
    ProgramFamily &family, int64_t layers, SharedLowering &lowering,
    const LoweringSpec &degrees, int64_t stages,
    llvm::function_ref<void(llvm::ArrayRef<mlir::func::FuncOp>)> look =
        nullptr);

} // namespace dpc

#endif // DPC_PASSES_PRICE_SMALLPROGRAM_H
