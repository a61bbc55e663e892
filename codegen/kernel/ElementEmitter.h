//===- ElementEmitter.h - Emits one element of any value --------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
#define DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H

#include "codegen/kernel/LoopTarget.h"

namespace dpc::codegen {

/// The arguments of the function into which code is emitted.
struct KernelArguments {
  llvm::SmallVector<MemoryRef> inputs, outputs;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> scalars;
  mlir::Value scratch; ///< null: no scratch memory
};

/// Emits elements of the values of one kernel's body. The caller sets `loops`,
/// and binds `arguments` to the function into which the builder inserts.
class ElementEmitter : public KernelBuilder {
public:
  ElementEmitter(mlir::OpBuilder &builder, const KernelSpec &spec,
                 llvm::StringRef symbol, KernelTarget target);

  /// The element of `value` at `indices`, which is recalled, loaded or
  /// computed.
  mlir::Value at(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value load(const MemoryRef &memory, mlir::Type elementType,
                   llvm::ArrayRef<Index> indices);
  void store(mlir::Value scalar, const MemoryRef &memory,
             llvm::ArrayRef<Index> indices);
  /// Scalar number `position` of `op`, in the order of scalarsOf(op).
  mlir::Value scalar(mlir::Operation *op, unsigned position) const;
  bool hasScalars(mlir::Operation *op) const {
    return arguments.scalars.contains(op);
  }
  /// The memory of a result of the kernel; null for other values.
  const MemoryRef *targetOf(mlir::Value value) const;
  mlir::Block &body() { return spec.op.getBody().front(); }

  KernelSpec spec;
  const std::string symbol;
  llvm::SmallVector<mlir::Value> yields;
  LoopTarget *loops = nullptr;
  KernelArguments arguments;
  /// Values that are in memory at the insertion point.
  llvm::DenseMap<mlir::Value, MemoryRef> stored;
  /// Values that the code of a row op computes.
  using Computed = std::function<mlir::Value(llvm::ArrayRef<Index>)>;
  llvm::DenseMap<mlir::Value, Computed> computed;
  /// True after a diagnostic.
  bool failed = false;

private:
  mlir::Value compute(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value loadConstant(ConstantOp op, llvm::ArrayRef<Index> indices);
};

/// Returns the row of `id` in this rank's shard, and whether the shard has it.
std::pair<mlir::Value, mlir::Value> lookUp(ElementEmitter &b,
                                           mlir::Operation *op, mlir::Value id,
                                           int64_t localSize);

/// An element of the mask, which is broadcast along its unit dimensions.
mlir::Value maskTerm(ElementEmitter &b, mlir::Value mask,
                     llvm::ArrayRef<Index> indices);

/// A dense operand of the kernel as one long row; nullopt for other values.
std::optional<MemoryRef> flatOperand(ElementEmitter &b, mlir::Value value);

/// Adds the square of an element of `x`, as f64, to `sum`. `indices` are those
/// of `flat`, if any.
mlir::Value addSquare(ElementEmitter &b, mlir::Value sum, mlir::Value x,
                      const std::optional<MemoryRef> &flat,
                      llvm::ArrayRef<Index> indices);

/// Elements of pools (PoolElements.cpp).
mlir::Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                      llvm::ArrayRef<Index> indices);
mlir::Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                          llvm::ArrayRef<Index> indices);

/// The indices of element number `linear` of a row-major `shape`. Emits nothing
/// if `b` is null.
Indices delinearize(mlir::ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, llvm::ArrayRef<int64_t> shape);

/// If `op` only moves elements, the indices of the operand element that it
/// reads; else nullopt. Emits nothing if `b` is null.
std::optional<Indices> movedIndices(mlir::ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, mlir::Operation *op,
                                    llvm::ArrayRef<Index> indices);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
