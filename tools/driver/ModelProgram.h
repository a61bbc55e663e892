//===- ModelProgram.h - A model that is ready to be sharded -----*- C++ -*-===//
#ifndef DPC_TOOLS_DRIVER_MODELPROGRAM_H
#define DPC_TOOLS_DRIVER_MODELPROGRAM_H

#include "cost-model/search/Search.h"
#include "passes/lower/ProgramFamily.h"
#include "passes/shard/Degrees.h"

namespace dpc {

/// A module with @train_step or @forward without shardings. It is given, or it
/// is made of a fused @forward by a pipeline when somebody asks for it: of a
/// deep model a search needs a few layers only. Move-only.
class ModelProgram {
public:
  /// A program that is given.
  explicit ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> whole)
      : given(std::move(whole)) {}
  /// A program that `passes` make of `fused`, a module with @forward as
  /// dpc-fuse leaves it.
  ModelProgram(mlir::OwningOpRef<mlir::ModuleOp> fused, const PassList &passes);

  /// Returns null after a diagnostic where the pipeline fails.
  mlir::ModuleOp whole() const;
  /// Returns the same program, or of a deep model one with a few layers, which
  /// has the same kinds of ops. Null after a diagnostic.
  mlir::ModuleOp sample() const;
  /// Returns null where the program was given.
  mlir::ModuleOp fused() const {
    return family ? given.get() : mlir::ModuleOp();
  }
  /// Returns the fused model where there is one, else the program.
  mlir::ModuleOp source() const { return given.get(); }

  bool isDeep() const { return family && family->isDeep(); }
  /// Whether the program is a training step.
  bool trains() const;

  /// Makes what evaluates strategies of this program on `cluster`; both outlive
  /// it. `isArranged`: the order of the cluster's groups of nodes is decided.
  std::unique_ptr<cost::Evaluator> evaluator(const cost::Cluster &cluster,
                                             bool isArranged,
                                             const LoweringSpec &common) const;

private:
  mlir::OwningOpRef<mlir::ModuleOp> given; ///< The program, or the fused model.
  std::unique_ptr<ProgramFamily> family;   ///< Of the fused model, or null.
};

} // namespace dpc

#endif // DPC_TOOLS_DRIVER_MODELPROGRAM_H
