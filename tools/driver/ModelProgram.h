//===- ModelProgram.h - A model that is ready to be sharded -----*- C++ -*-===//
#pragma once

#include "cost-model/search/Search.h"
#include "passes/lower/ProgramFamily.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// A module with @train_step or @forward, without shardings. If it comes from a
/// fused @forward, it is built on demand, because a search of a deep model
/// needs only a few layers.
class ModelProgram {
public:
  explicit ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> whole)
      : given(std::move(whole)) {}
  /// `passes` turn `fused`, a module with the @forward of dpc-fuse, into the
  /// program.
  ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> fused, const PassList &passes);

  /// Returns the program with all layers. Fails after a diagnostic.
  mlir::FailureOr<mlir::ModuleOp> whole() const;
  /// Returns the program. For a deep model, it has only a few layers, but all
  /// kinds of ops. Returns null after a diagnostic.
  mlir::ModuleOp sample() const;
  /// Returns null if the program does not come from a fused @forward.
  mlir::ModuleOp fused() const {
    return family ? given.get() : mlir::ModuleOp();
  }
  /// Returns the fused model if there is one, else the program.
  mlir::ModuleOp source() const { return given.get(); }

  /// Returns the program with these loads of experts
  /// (ir/ExpertLoads.h), or nothing if it does not come from a fused
  /// @forward.
  std::optional<ModelProgram>
  withExpertLoads(llvm::ArrayRef<double> loads) const;

  bool isDeep() const { return family && family->isDeep(); }
  bool trains() const;

  /// Returns an evaluator, which keeps references to this program and to
  /// `cluster`. `isArranged`: the order of the groups of nodes is fixed.
  std::unique_ptr<cost::Evaluator> evaluator(const cost::Cluster &cluster,
                                             bool isArranged,
                                             const LoweringSpec &common) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> given;
  PassList passes; ///< Of a fused @forward.
  std::unique_ptr<ProgramFamily> family;
};

} // namespace dpc
