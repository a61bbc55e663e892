//===- ValueSlots.h - The buffer and the view of each value -----*- C++ -*-===//
//
// ir/StepBuffers.h says which values share a buffer. A sum over micro-batches
// is in a buffer that the setup phase clears.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_PLAN_VALUESLOTS_H
#define DPC_CODEGEN_PLAN_VALUESLOTS_H

#include "codegen/plan/StepOrder.h"
#include "ir/StridedView.h"

namespace dpc::codegen {

/// The buffer that contains a value, and the layout of the value in it.
struct Slot {
  int buffer = -1; ///< never a view
  StridedView view;
};

/// The slots of a stage's values. New buffers belong to the stage and have no
/// offset yet.
class ValueSlots {
public:
  ValueSlots(rt::Plan &plan, int64_t stage, const StepBuffers &buffers)
      : plan(plan), stage(stage), buffers(buffers) {}

  const Slot &at(mlir::Value value) const { return slots.at(value); }
  /// Null if the value has no slot yet.
  const Slot *find(mlir::Value value) const;
  void set(mlir::Value value, Slot slot) { slots[value] = std::move(slot); }

  /// Adds a buffer that contains only `value`, the result of an op.
  Slot make(mlir::Value value);
  /// Adds a buffer that contains `value` transposed by `dims`. The slot is a
  /// view of this buffer in which the dimensions have the order of `value`.
  Slot makePermuted(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// Adds a buffer that contains only `value`, and the slot of `value`.
  int addBuffer(mlir::Value value, rt::BufferKind kind, std::string name);
  int addBuffer(mlir::RankedTensorType type, rt::BufferKind kind,
                std::string name);
  /// Adds a buffer of `bytes` bytes for the temporary data of one instruction.
  int addWorkspace(mlir::MLIRContext *context, int64_t bytes, std::string name);
  /// The buffer that contains exactly the elements of `value`. If they are a
  /// part of a larger buffer, this is a new view buffer. Returns nullopt if
  /// they are strided.
  std::optional<int> denseBuffer(mlir::Value value);

private:
  rt::Plan &plan;
  int64_t stage;
  const StepBuffers &buffers;
  llvm::DenseMap<mlir::Value, Slot> slots;
};

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_VALUESLOTS_H
