//===- ProgramFamily.h - A program by its number of layers ------*- C++ -*-===//
#ifndef DPC_PASSES_LOWER_PROGRAMFAMILY_H
#define DPC_PASSES_LOWER_PROGRAMFAMILY_H

#include "passes/graph/Phases.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <mutex>
#include <string>

namespace dpc {

/// A model with N repeats of a layer, and the same model with fewer of them.
/// Programs are made when they are asked for, and kept. Safe to use from
/// several threads.
class ProgramFamily {
public:
  /// `forward`: a module with @forward as dpc-fuse leaves it, which must
  /// outlive this and not change. `passes` make of it (or of one with fewer
  /// layers) what ProgramEvaluator takes.
  ProgramFamily(mlir::ModuleOp forward, PassList passes);

  mlir::MLIRContext *context() { return forward.getContext(); }

  /// N; 0 when no layer repeats.
  int64_t layers() const { return count; }

  /// Whether there are layers enough to leave some out.
  bool isDeep() const { return count >= kDeep; }

  /// The program with `layers` of them, 1 to N. Fails with a diagnostic when
  /// the pipeline does.
  mlir::FailureOr<mlir::ModuleOp> program(int64_t layers);

  /// The program itself.
  mlir::FailureOr<mlir::ModuleOp> whole();

private:
  static constexpr int64_t kDeep = 8;

  mlir::ModuleOp forward;
  PassList passes;
  int64_t count = 0;
  /// Programs of unlike depths are made at the same time.
  struct Entry {
    std::mutex mutex;
    mlir::OwningOpRef<mlir::ModuleOp> program;
  };
  std::mutex mutex; ///< Of the map.
  std::map<int64_t, Entry> programs;

  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> make(int64_t layers);
  /// A clone that is cheaper to cut further than the whole is.
  mlir::OwningOpRef<mlir::ModuleOp> few;
};

} // namespace dpc

#endif // DPC_PASSES_LOWER_PROGRAMFAMILY_H
