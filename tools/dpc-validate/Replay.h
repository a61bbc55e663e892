//===- Replay.h - Runs through the real path --------------------*- C++ -*-===//
//
// A run's model is built (dpc-model), imported, differentiated and evaluated
// (passes/search) exactly as dpc-opt does. Programs are made once for all runs
// that share them; one is kept at a time.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_VALIDATE_REPLAY_H
#define DPC_TOOLS_DPC_VALIDATE_REPLAY_H

#include "cost-model/Search.h"
#include "tools/dpc-validate/Run.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>

namespace dpc::validate {

class Replay {
public:
  Replay();
  ~Replay();

  /// What dpc predicts for `run`. Calls for runs of one program had better
  /// follow each other. An error where the program cannot be made or the
  /// strategy cannot be had.
  cost::Result<cost::Evaluation> evaluate(const PublishedRun &run);

private:
  std::unique_ptr<mlir::MLIRContext> context;
  std::string key; ///< Of `program`.
  mlir::OwningOpRef<mlir::ModuleOp> program;
  std::string error; ///< The first one that was emitted.

  bool makeProgram(const PublishedRun &run);
  void startContext();
};

} // namespace dpc::validate

#endif // DPC_TOOLS_DPC_VALIDATE_REPLAY_H
