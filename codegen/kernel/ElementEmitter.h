//===- ElementEmitter.h - Emits one element of any value --------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
#define DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H

#include "codegen/kernel/LoopTarget.h"

namespace dpc::codegen {

/// The arguments of the function into which code is emitted.
struct KernelArguments {
  SmallVector<MemoryRef> inputs, outputs;
  llvm::DenseMap<Operation *, Values> scalars;
  Value scratch; ///< null: no scratch memory
};

/// Emits elements of the values of one kernel's body. The caller sets `loops`,
/// and binds `arguments` to the function into which the builder inserts.
class ElementEmitter : public KernelBuilder {
public:
  ElementEmitter(OpBuilder &builder, const KernelSpec &spec, StringRef symbol,
                 KernelTarget target);

  /// The element of `value` at `indices`, which is recalled, loaded or
  /// computed.
  Value at(Value value, ArrayRef<Index> indices);
  Value load(const MemoryRef &memory, Type elementType,
             ArrayRef<Index> indices);
  void store(Value scalar, const MemoryRef &memory, ArrayRef<Index> indices);
  /// Scalar number `position` of `op`, in the order of scalarsOf(op).
  Value scalar(Operation *op, unsigned position) const;
  bool hasScalars(Operation *op) const {
    return arguments.scalars.contains(op);
  }
  /// The memory of a result of the kernel; null for other values.
  const MemoryRef *targetOf(Value value) const;
  mlir::Block &body() { return spec.op.getBody().front(); }

  KernelSpec spec;
  const std::string symbol;
  Values yields;
  LoopTarget *loops = nullptr;
  KernelArguments arguments;
  /// Values that are in memory at the insertion point.
  llvm::DenseMap<Value, MemoryRef> stored;
  /// Values that the code of a row op computes.
  using Computed = std::function<Value(ArrayRef<Index>)>;
  llvm::DenseMap<Value, Computed> computed;
  /// True after a diagnostic.
  bool failed = false;

private:
  Value compute(Value value, ArrayRef<Index> indices);
  Value loadConstant(ConstantOp op, ArrayRef<Index> indices);
};

/// Returns the row of the shard that `id` selects, and whether the shard
/// contains it.
std::pair<Value, Value> lookUp(ElementEmitter &b, Operation *op, Value id,
                               int64_t localSize);

/// An element of the mask, which is broadcast along its unit dimensions.
Value maskTerm(ElementEmitter &b, Value mask, ArrayRef<Index> indices);

/// A dense operand of the kernel as one long row; nullopt for other values.
std::optional<MemoryRef> flatOperand(ElementEmitter &b, Value value);

/// Adds the square of an element of `x`, as f64, to `sum`. `indices` are
/// indices of `flat` if it is given, else of `x`.
Value addSquare(ElementEmitter &b, Value sum, Value x,
                const std::optional<MemoryRef> &flat, ArrayRef<Index> indices);

/// Elements of pools (PoolElements.cpp).
Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                ArrayRef<Index> indices);
Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                    ArrayRef<Index> indices);

/// The indices of element number `linear` of a row-major `shape`. Emits nothing
/// if `b` is null.
Indices delinearize(ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, ArrayRef<int64_t> shape);

/// If `op` only moves elements, returns the indices of the operand element that
/// it moves to `indices`; else nullopt. Emits nothing if `b` is null.
std::optional<Indices> movedIndices(ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, Operation *op,
                                    ArrayRef<Index> indices);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_ELEMENTEMITTER_H
