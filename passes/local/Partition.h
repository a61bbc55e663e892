//===- Partition.h - Parts of dpc-partition ---------------------*- C++ -*-===//
//
// Private to passes/local. The Partitioner walks the sharded function and
// clones op by op; the files are
//
//   Partition.cpp          the pass, signature, walk
//   PartitionOps.cpp       ops whose clone needs more than local types
//   PartitionMasks.cpp     which operands have padding that would be read
//   PartitionReshard.cpp   a planned reshard as local ops
//   PartitionPhases.cpp    setup, forward, backward, update
//   ExpandGlobalNorm.cpp   the one op that adds its own collectives
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_PARTITION_H
#define DPC_PASSES_LOCAL_PARTITION_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/shard/ReshardPlan.h"

namespace dpc {

/// Emits local data movement; reshapes of reshapes collapse.
class LocalEmitter {
public:
  /// Collectives get what `reshard`, if given, says of compression.
  LocalEmitter(mlir::OpBuilder &builder, mlir::Location loc, MeshAttr mesh,
               mlir::Operation *reshard = nullptr)
      : builder(builder), loc(loc), mesh(mesh), reshardOp(reshard) {}

  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  /// Cuts dimension `dim` to its first `size` elements.
  mlir::Value trim(mlir::Value value, int64_t dim, int64_t size);
  /// Extends dimension `dim` to `size` elements with zeros behind.
  mlir::Value extend(mlir::Value value, int64_t dim, int64_t size);
  /// Names of mesh axes as collectives hold them: in mesh order.
  mlir::ArrayAttr axisNames(llvm::ArrayRef<int64_t> axes);

  /// One step of a plan. The value's elements are those of `step.before`, in
  /// any shape; so are the result's of `step.after`.
  mlir::Value emit(const ReshardStep &step, mlir::Value value);

private:
  /// [k, ..] with the k pieces numbered row-major over `to` instead of `from`.
  mlir::Value renumber(mlir::Value value, llvm::ArrayRef<int64_t> from,
                       llvm::ArrayRef<int64_t> to);
  /// [.., c0, ..] -> [k, (.., c, ..)] where c0 is cut into k shards of c;
  /// pieces are numbered by mesh order.
  mlir::Value split(mlir::Value value, llvm::SmallVector<int64_t> &sizes,
                    int64_t position, llvm::ArrayRef<int64_t> axes);
  /// The inverse: [k, (.., c, ..)] -> [.., c0, ..].
  mlir::Value join(mlir::Value value, llvm::SmallVector<int64_t> &sizes,
                   int64_t position, llvm::ArrayRef<int64_t> axes,
                   int64_t joined);

  /// Marks a collective that brings parts together or adds them up. Its operand
  /// had its padding masked.
  template <typename Op> Op marked(Op op);
  /// `value` of `step.before` without what its padding holds, which would get
  /// into the scales of a code.
  mlir::Value maskForCodes(const ReshardStep &step, mlir::Value value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  MeshAttr mesh;
  mlir::Operation *reshardOp;
};

/// Clones one sharded function into its local form.
class Partitioner {
public:
  Partitioner(mlir::func::FuncOp sharded, MeshAttr mesh);
  /// Creates @step behind the sharded function; fails with a diagnostic.
  mlir::FailureOr<mlir::func::FuncOp> run();

private:
  mlir::LogicalResult makeSignature();
  mlir::LogicalResult partition(mlir::Operation *op);
  mlir::LogicalResult partitionReshard(ReshardOp op);
  mlir::LogicalResult partitionConstant(ConstantOp op);
  mlir::LogicalResult partitionGlobalNorm(GlobalNormOp op);
  /// `localType`, asked once for a type: values are many, types few.
  mlir::RankedTensorType localTypeOf(mlir::Type type);
  void setGlobalType(mlir::Operation *op, mlir::Operation *local);
  void makeBoxLocal(mlir::Operation *op, mlir::Operation *local);

  /// Whether a rank's shard of a value of this type may hold padding.
  bool hasPadding(mlir::Type type);
  /// Maps the operands that hold padding which `op` would read to masks.
  bool isFp8OnRank(mlir::Operation *op);
  void maskOperands(mlir::Operation *op, mlir::IRMapping &operands);
  /// `value` with its padding overwritten; one mask per value and fill.
  mlir::Value mask(mlir::Value sharded, double fill);
  /// Emits planned steps after accumulating where the value is made.
  mlir::Value emitSteps(llvm::ArrayRef<ReshardStep> steps, mlir::Value local,
                        mlir::Location loc, mlir::Operation *reshard = nullptr);

  mlir::func::FuncOp sharded;
  mlir::func::FuncOp step;
  MeshAttr mesh;
  mlir::OpBuilder builder;
  mlir::IRMapping mapping;
  ReshardPlans plans;
  /// The steps between values of two types, see `plans`.
  llvm::DenseMap<std::pair<mlir::Type, mlir::Type>,
                 const std::vector<ReshardStep> *>
      steps;
  llvm::DenseMap<mlir::Type, mlir::RankedTensorType> localTypes;
  llvm::DenseMap<mlir::Type, bool> padded;
  llvm::DenseMap<std::pair<mlir::Value, int64_t>, mlir::Value> masks;
  llvm::DenseMap<mlir::Value, mlir::Value> accumulated;
};

/// Erases ops of the function whose results nobody reads (Pure ones).
void eraseDeadOps(mlir::func::FuncOp func);

/// Turns the `dpc.phase` of graph passes into the phases of execution and sorts
/// the ops by them; see the table in the .cpp file. Fails with a diagnostic
/// where an op would need one micro-batch and the sum over all.
mlir::LogicalResult assignPhases(mlir::func::FuncOp step);

/// Sorts what a rank stage runs: by phase, then by chunk, in backward and
/// weight the last chunk first. The second form reads the attributes of `op`,
/// which is forward without a phase.
int64_t runOrder(Phase phase, int64_t chunk);
int64_t runOrder(mlir::Operation *op);

/// The second form for many ops of one context, which have few phases.
class RunOrders {
public:
  explicit RunOrders(mlir::MLIRContext *context)
      : phaseName(mlir::StringAttr::get(context, attr::kPhase)),
        chunkName(mlir::StringAttr::get(context, attr::kChunk)) {}
  int64_t of(mlir::Operation *op) {
    auto [it, isNew] = known.try_emplace(
        {op->getDiscardableAttr(phaseName), op->getDiscardableAttr(chunkName)},
        0);
    if (isNew)
      it->second = runOrder(op);
    return it->second;
  }

private:
  mlir::StringAttr phaseName, chunkName;
  llvm::DenseMap<PhaseKey, int64_t> known;
};

} // namespace dpc

#endif // DPC_PASSES_LOCAL_PARTITION_H
