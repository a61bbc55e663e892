//===- FormKernels.h - Which ops share a kernel -----------------*- C++ -*-===//
//
// The parts of dpc-form-kernels. A *unit* is what will be one instruction: a
// group of ops that become a kernel, or one op that stays as it is.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_LOCAL_FORMKERNELS_H
#define DPC_PASSES_LOCAL_FORMKERNELS_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace dpc {

/// What an op is to kernel formation.
enum class KernelRole {
  mover,       ///< reshape, transpose, slice, broadcast: may be a view
  source,      ///< small constant or iota: copied into every kernel
  elementwise, ///< one element of each operand per element
  row,         ///< needs whole rows, takes elementwise neighbours
  reduction,   ///< reduce: takes elementwise producers
  alone,       ///< a kernel of its own
  none         ///< no kernel: matmul, collective, large constant, ..
};
KernelRole kernelRole(mlir::Operation *op);

/// Partition of the compute ops of a block into kernels.
class KernelGroups {
public:
  explicit KernelGroups(mlir::Block &block);

  /// Merges greedily, in program order.
  void form();
  /// Groups in any order; each list in program order. Ops without a kernel are
  /// in none.
  std::vector<llvm::SmallVector<mlir::Operation *>> groups() const;

private:
  struct Group {
    llvm::SmallVector<mlir::Operation *> ops; ///< in program order
    KernelRole role = KernelRole::elementwise;
    llvm::SmallVector<int64_t> shape; ///< what is iterated over
    int64_t last = 0;                 ///< position of the last op
    bool mixed = false;               ///< reshapes between its ops
  };
  void tryMerge(mlir::Operation *producer, mlir::Operation *consumer,
                bool throughReshape);
  bool compatible(const Group &producer, const Group &consumer,
                  bool throughReshape, bool escapes) const;
  bool createsCycle(int64_t producer, int64_t consumer) const;
  bool readsMoved(int64_t producer, int64_t consumer) const;
  bool delays(int64_t producer, int64_t consumer) const;
  bool escapes(int64_t producer, int64_t consumer) const;
  int64_t groupOf(mlir::Operation *op) const;
  /// Compute ops that `op` reads, through movers.
  void producersOf(mlir::Operation *op,
                   llvm::SmallVectorImpl<mlir::Operation *> &out) const;
  void consumersOf(mlir::Operation *op,
                   llvm::SmallVectorImpl<mlir::Operation *> &out) const;

  mlir::Block &block;
  std::vector<Group> all;
  llvm::DenseMap<mlir::Operation *, int64_t> owner;
  llvm::DenseMap<mlir::Operation *, int64_t> position;
};

/// Marks movers that need no buffer with `dpc.view` and matmuls that can write
/// a transposed result with `dpc.out_perm`.
void markViews(mlir::Block &block);

} // namespace dpc

#endif // DPC_PASSES_LOCAL_FORMKERNELS_H
