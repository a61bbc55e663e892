//===- SmallProgram.h - Costs of a program with few layers ------*- C++ -*-===//
//
// Private to passes/price.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "passes/lower/ProgramFamily.h"
#include "passes/lower/SharedLowering.h"
#include "passes/price/StageProfile.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

struct SmallProgram {
  std::vector<StageProfile> stages;
  std::vector<StageMessage> messages;
  StepTime time;           ///< The time of a program without a pipeline.
  int64_t blockLayers = 0; ///< See attr::kBlockLayers. Of the first stage.
};

/// Lowers the program with `layers` layers for `spec` and measures it. Messages
/// are priced as in a pipeline with `stages` stages. If `look` is set, it is
/// called with the step functions, and memory is profiled only with frames, as
/// segments (Blocks.h) need. Fails with a diagnostic.
mlir::FailureOr<SmallProgram> measureLayers(
    ProgramFamily &family, int64_t layers, SharedLowering &lowering,
    const LoweringSpec &spec, int64_t stages,
    llvm::function_ref<void(llvm::ArrayRef<mlir::func::FuncOp>)> look =
        nullptr);

} // namespace dpc
