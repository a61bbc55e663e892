//===- ElementEmitter.h - Emits one element of any value --------*- C++ -*-===//
#pragma once

#include "codegen/kernel/LoopTarget.h"

namespace dpc::codegen {

struct KernelArguments {
  SmallVector<MemoryRef> inputs, outputs;
  llvm::DenseMap<Operation *, Values> scalars;
  Value scratch;
};

/// Emits code for elements of the values in a kernel. The caller sets `loops`
/// and binds `arguments` to the function that is emitted.
class ElementEmitter : public KernelBuilder {
public:
  ElementEmitter(OpBuilder &builder, const KernelSpec &spec, StringRef symbol,
                 KernelTarget target);

  /// Recalls, loads or computes the element of `value` at `indices`.
  Value at(Value value, ArrayRef<Index> indices);
  Value load(const MemoryRef &memory, Type elementType,
             ArrayRef<Index> indices);
  void store(Value scalar, const MemoryRef &memory, ArrayRef<Index> indices);
  /// `position` is in the order of scalarsOf(op).
  Value scalar(Operation *op, unsigned position) const;
  bool hasScalars(Operation *op) const {
    return arguments.scalars.contains(op);
  }
  /// Returns null if `value` is not a result of the kernel.
  const MemoryRef *targetOf(Value value) const;
  mlir::Block &body() { return spec.op.getBody().front(); }

  KernelSpec spec;
  const std::string symbol;
  Values yields;
  LoopTarget *loops = nullptr;
  KernelArguments arguments;
  /// Values that are in memory at the insertion point.
  llvm::DenseMap<Value, MemoryRef> stored;
  /// Values that the code of a row op has already computed.
  using Computed = std::function<Value(ArrayRef<Index>)>;
  llvm::DenseMap<Value, Computed> computed;
  /// True after a diagnostic.
  bool failed = false;

private:
  Value compute(Value value, ArrayRef<Index> indices);
  Value loadConstant(ConstantOp op, ArrayRef<Index> indices);
};

/// Returns the row of the shard that `id` selects, and whether the shard
/// contains this row.
std::pair<Value, Value> lookUp(ElementEmitter &b, Operation *op, Value id,
                               int64_t localSize);

/// Returns an element of `mask`. Unit dimensions are broadcast.
Value maskTerm(ElementEmitter &b, Value mask, ArrayRef<Index> indices);

/// Returns a dense operand as a vector in memory, nullopt for other values.
std::optional<MemoryRef> flatOperand(ElementEmitter &b, Value value);

/// Adds the square of an element, as f64, to `sum`. `indices` refer to `flat`
/// if it has a value, else to `x`.
Value addSquare(ElementEmitter &b, Value sum, Value x,
                const std::optional<MemoryRef> &flat, ArrayRef<Index> indices);

Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                ArrayRef<Index> indices);
Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                    ArrayRef<Index> indices);

/// Returns the indices of the element at row-major position `linear` in
/// `shape`. Emits nothing if `b` is null.
Indices delinearize(ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, ArrayRef<int64_t> shape);

/// If `op` only moves elements, returns the operand indices of the element that
/// moves to `indices`, otherwise nullopt. Emits nothing if `b` is null.
std::optional<Indices> movedIndices(ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, Operation *op,
                                    ArrayRef<Index> indices);

} // namespace dpc::codegen
