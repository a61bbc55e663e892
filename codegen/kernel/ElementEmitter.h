//===- ElementEmitter.h - One element of any value of a kernel --*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
#define DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H

#include "codegen/kernel/LoopTarget.h"

namespace dpc::codegen {

/// What the arguments of the function that is being emitted are.
struct KernelArguments {
  llvm::SmallVector<MemoryRef> inputs, outputs;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> scalars;
  mlir::Value scratch; ///< null: there is none
};

/// Emits elements of the values of one kernel's body. `loops` must be set, and
/// `arguments` bound to the function in which the builder inserts.
class ElementEmitter : public KernelBuilder {
public:
  ElementEmitter(mlir::OpBuilder &builder, const KernelSpec &spec,
                 llvm::StringRef symbol, KernelTarget target);

  /// The element of `value` at `indices`: remembered, loaded or computed.
  mlir::Value at(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value load(const MemoryRef &memory, mlir::Type elementType,
                   llvm::ArrayRef<Index> indices);
  void store(mlir::Value scalar, const MemoryRef &memory,
             llvm::ArrayRef<Index> indices);
  /// Scalar `position` of an op, in the order of scalarsOf(op).
  mlir::Value scalar(mlir::Operation *op, unsigned position) const;
  bool hasScalars(mlir::Operation *op) const;
  /// The memory of a value that the kernel yields, or null.
  const MemoryRef *targetOf(mlir::Value value) const;
  llvm::ArrayRef<int64_t> outputShape(unsigned number) const;
  mlir::Block &body() { return spec.op.getBody().front(); }

  KernelSpec spec;
  const std::string symbol;
  llvm::SmallVector<mlir::Value> yields;
  LoopTarget *loops = nullptr;
  KernelArguments arguments;
  /// Values already in memory where code is being emitted.
  llvm::DenseMap<mlir::Value, MemoryRef> stored;
  /// Values that a row op knows how to compute.
  using Computed = std::function<mlir::Value(llvm::ArrayRef<Index>)>;
  llvm::DenseMap<mlir::Value, Computed> computed;
  /// A diagnostic was emitted.
  bool failed = false;

private:
  mlir::Value compute(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value loadConstant(ConstantOp op, llvm::ArrayRef<Index> indices);
};

/// Row of a looked-up id in this rank's shard and whether it is there.
std::pair<mlir::Value, mlir::Value> lookUp(ElementEmitter &b,
                                           mlir::Operation *op, mlir::Value id,
                                           int64_t localSize);

/// The mask's element; unit dimensions repeat.
mlir::Value maskTerm(ElementEmitter &b, mlir::Value mask,
                     llvm::ArrayRef<Index> indices);

/// Elements of pools (PoolElements.cpp).
mlir::Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                      llvm::ArrayRef<Index> indices);
mlir::Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                          llvm::ArrayRef<Index> indices);

/// The indices at position `linear` of a row-major `shape`.
Indices delinearize(mlir::ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, llvm::ArrayRef<int64_t> shape);

/// The indices of the operand element that a data movement op reads, or
/// nullopt when `op` is none. Without `b` nothing is emitted.
std::optional<Indices> movedIndices(mlir::ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, mlir::Operation *op,
                                    llvm::ArrayRef<Index> indices);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
