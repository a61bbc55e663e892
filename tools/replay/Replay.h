//===- Replay.h - Runs through the real path --------------------*- C++ -*-===//
//
// A run's model is built (dpc-model), imported, differentiated and evaluated
// (passes/price) exactly as dpc-opt does. Programs are made once for all runs
// that share them, and what folding measures is kept for all of them on one
// cluster; one program is kept at a time. Deep models are folded where that is
// exact: not with full recomputation, whose blocks span layers, and not with
// ZeRO-3, whose gathers are bucketed across them.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_REPLAY_REPLAY_H
#define DPC_TOOLS_REPLAY_REPLAY_H

#include "passes/price/Evaluator.h"
#include "tools/replay/Run.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>

namespace dpc::validate {

class Replay {
public:
  Replay();
  ~Replay();

  /// What dpc predicts for `run`. Calls for runs of one program had better
  /// follow each other. An error where the program cannot be made or the
  /// strategy cannot be had.
  Expected<cost::Evaluation> evaluate(const PublishedRun &run);

private:
  /// An evaluator and what it refers to.
  struct OnCluster {
    cost::Cluster cluster;
    std::unique_ptr<ProgramEvaluator> evaluator;
  };

  std::unique_ptr<mlir::MLIRContext> context;
  std::string key;                             ///< Of the program.
  mlir::OwningOpRef<mlir::ModuleOp> fused;     ///< Before gradients.
  std::unique_ptr<ProgramFamily> family;       ///< Of `fused`; null on failure.
  std::map<std::string, OnCluster> evaluators; ///< Of `family`.
  std::string error; ///< The first one that was emitted.

  bool makeProgram(const PublishedRun &run);
  void startContext();
  void dropProgram();
  ProgramEvaluator &evaluatorOf(const PublishedRun &run);
};

} // namespace dpc::validate

#endif // DPC_TOOLS_REPLAY_REPLAY_H
