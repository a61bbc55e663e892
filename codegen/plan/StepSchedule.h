//===- StepSchedule.h - Phases of a step and their order --------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc::codegen {

struct StepPhase {
  rt::PhaseKind kind = rt::PhaseKind::Forward;
  int64_t chunk = 0;
  bool operator==(const StepPhase &) const = default;
};

struct LoopEntry {
  int phase = 0; ///< index in StepSchedule::phases
  int64_t microBatch = 0;
};

/// The order in which a stage runs its phases.
struct StepSchedule {
  /// Setup, the phases of the loop in the order in which a micro-batch runs
  /// them, and update.
  std::vector<StepPhase> phases;
  std::vector<LoopEntry> loop;

  int setup() const { return 0; }
  int update() const { return static_cast<int>(phases.size()) - 1; }
  bool inLoop(int phase) const { return phase > 0 && phase < update(); }
  /// Returns -1 if the schedule does not contain the phase of `op`.
  int phaseOf(mlir::Operation *op) const;
};

/// Returns the schedule in the attribute `dpc.schedule` of `step`. Without the
/// attribute, micro-batches run one after the other: forward through all
/// chunks, then backward. Fails with a diagnostic.
mlir::FailureOr<StepSchedule> scheduleOf(mlir::func::FuncOp step,
                                         const rt::Mesh &mesh);

} // namespace dpc::codegen
