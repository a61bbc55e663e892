//===- Replay.h - Predictions of published runs -----------------*- C++ -*-===//
//
// The model of a run is built (dpc-model), imported, differentiated and
// evaluated (passes/price) exactly as in dpc-opt. One program is kept at a
// time, together with the measurements of folding, for all runs of this program
// on one cluster. Deep models are folded only if this is exact: not with full
// recomputation, whose blocks span layers, and not with ZeRO-3, whose gather
// buckets span layers.
//
//===----------------------------------------------------------------------===//
#pragma once

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

  /// Predicts `run`. Consecutive runs with one program share the program. An
  /// error says why the program cannot be built or the strategy is not
  /// possible.
  Expected<cost::Evaluation> evaluate(const PublishedRun &run);

private:
  struct OnCluster {
    cost::Cluster cluster;
    std::unique_ptr<ProgramEvaluator> evaluator;
  };

  std::unique_ptr<mlir::MLIRContext> context;
  std::string key;
  mlir::OwningOpRef<mlir::ModuleOp> fused; ///< Before gradients.
  std::unique_ptr<ProgramFamily> family;
  std::map<std::string, OnCluster> evaluators; ///< By cluster.
  std::string error;

  bool makeProgram(const PublishedRun &run);
  void startContext();
  void dropProgram();
  ProgramEvaluator &evaluatorOf(const PublishedRun &run);
};

} // namespace dpc::validate
