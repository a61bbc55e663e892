//===- ProgramFamily.h - A model with fewer layers --------------*- C++ -*-===//
#pragma once

#include "passes/graph/Phases.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <mutex>
#include <string>

namespace dpc {

/// A model with N repeats of a layer, and the same model with fewer repeats.
/// Each program is built on first use and kept. Thread-safe.
class ProgramFamily {
public:
  /// `forward` is a module with @forward after dpc-fuse. It must outlive this
  /// object and not change. `passes` turn it, or a copy with fewer layers, into
  /// the input of ProgramEvaluator.
  ProgramFamily(mlir::ModuleOp forward, PassList passes);

  mlir::MLIRContext *context() { return forward.getContext(); }

  /// Returns N, or 0 if no layer repeats.
  int64_t layers() const { return count; }

  /// True if the model has enough layers for a folded evaluation.
  bool isDeep() const { return count >= kDeep; }

  /// Returns the program with `layers` layers, 1 to N. Fails with a diagnostic
  /// if the passes fail.
  mlir::FailureOr<mlir::ModuleOp> program(int64_t layers);

  mlir::FailureOr<mlir::ModuleOp> whole();

private:
  static constexpr int64_t kDeep = 8;

  mlir::ModuleOp forward;
  PassList passes;
  int64_t count = 0;
  /// Each entry has a mutex, so that threads can build programs of different
  /// depths at the same time.
  struct Entry {
    std::mutex mutex;
    mlir::OwningOpRef<mlir::ModuleOp> program;
  };
  std::mutex mutex; ///< Protects the map.
  std::map<int64_t, Entry> programs;

  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> make(int64_t layers);
  /// A clone of `forward` with few layers, which is cheaper to shorten.
  mlir::OwningOpRef<mlir::ModuleOp> few;
};

} // namespace dpc
