//===- ModelProgram.h - A model that is ready to be sharded -----*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_MODELPROGRAM_H
#define DPC_TOOLS_DRIVER_MODELPROGRAM_H

#include "cost-model/search/Search.h"
#include "passes/lower/ProgramFamily.h"
#include "passes/shard/LoweringSpec.h"

namespace dpc {

/// A module with @train_step or @forward without shardings. The module is
/// given, or a pipeline makes it on demand from a fused @forward, because a
/// search of a deep model needs only a few layers.
class ModelProgram {
public:
  explicit ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> whole)
      : given(std::move(whole)) {}
  /// The program that `passes` make from `fused`, a module with the @forward of
  /// dpc-fuse.
  ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> fused, const PassList &passes);

  /// Fails after a diagnostic if the pipeline fails.
  mlir::FailureOr<mlir::ModuleOp> whole() const;
  /// Returns the program, or for a deep model one with a few layers and the
  /// same kinds of ops. Returns null after a diagnostic.
  mlir::ModuleOp sample() const;
  /// Returns null if the program was given.
  mlir::ModuleOp fused() const {
    return family ? given.get() : mlir::ModuleOp();
  }
  /// Returns the fused model if there is one, else the program.
  mlir::ModuleOp source() const { return given.get(); }

  bool isDeep() const { return family && family->isDeep(); }
  /// Whether the program is a training step.
  bool trains() const;

  /// Makes an evaluator of strategies of this program on `cluster`, both of
  /// which must outlive it. `isArranged`: the order of the groups of nodes is
  /// fixed.
  std::unique_ptr<cost::Evaluator> evaluator(const cost::Cluster &cluster,
                                             bool isArranged,
                                             const LoweringSpec &common) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> given; ///< The program, or the fused model.
  std::unique_ptr<ProgramFamily> family;   ///< Of the fused model, or null.
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_MODELPROGRAM_H
