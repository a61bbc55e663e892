//===- LoopTarget.h - What runs the loops of a kernel -----------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_LOOPTARGET_H
#define DPC_CODEGEN_KERNEL_LOOPTARGET_H

#include "codegen/kernel/KernelMemory.h"

namespace dpc::codegen {

using ElementsBody =
    std::function<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<Index>)>;

/// What is accumulated over the columns of a row: values of `types`, from those
/// that `init` emits on. `combine` joins what two parts of the row gave.
struct RowFold {
  llvm::SmallVector<mlir::Type> types;
  std::function<llvm::SmallVector<mlir::Value>()> init;
  Combine combine;
};

/// A box of the indices of some values, and where their elements go.
struct Nest {
  llvm::ArrayRef<mlir::Value> values; ///< none when all are filled alike
  llvm::ArrayRef<MemoryRef> targets;
  llvm::ArrayRef<int64_t> begin, sizes;
};

/// Loops over nests and rows: those of a CPU, or the work of threads. Row ops
/// are written once, in terms of these. Columns are below `limit` (null: all of
/// `size`).
class LoopTarget {
public:
  virtual ~LoopTarget() = default;

  virtual llvm::SmallVector<mlir::Value> rowFold(const RowFold &fold,
                                                 int64_t size,
                                                 mlir::Value limit,
                                                 const ColumnBody &body) = 0;
  virtual void rowLoop(int64_t size, mlir::Value limit,
                       const std::function<void(Index)> &body) = 0;
  /// The columns from `limit` on.
  virtual void restLoop(int64_t size, mlir::Value limit,
                        const LoopBody &body) = 0;
  /// What is done once for a row; may store.
  virtual void once(const std::function<void()> &body) = 0;
  /// All elements at an index are computed before any is stored: results may
  /// share the memory of operands.
  virtual void nest(const Nest &nest, const ElementsBody &elements) = 0;

  /// What was stored before may be read from here on.
  virtual void beforeLoad() {}
  /// True when the target keeps the store, to emit it later.
  virtual bool keepsStore(mlir::Value /*scalar*/, const MemoryRef & /*memory*/,
                          llvm::ArrayRef<Index> /*indices*/) {
    return false;
  }
};

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_LOOPTARGET_H
