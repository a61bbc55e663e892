//===- ValueSlots.h - The buffer and the view of each value -----*- C++ -*-===//
//
// ir/StepBuffers.h decides which values share a buffer. Sums over micro-batches
// are in buffers that the setup phase clears.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/plan/StepOrder.h"
#include "ir/StridedView.h"

namespace dpc::codegen {

/// The buffer that contains a value, and the layout of the value in it.
struct Slot {
  int buffer = -1; ///< never a view
  StridedView view;
};

/// New buffers belong to the stage and have no offset yet.
class ValueSlots {
public:
  ValueSlots(rt::Plan &plan, int64_t stage, const StepBuffers &buffers)
      : plan(plan), stage(stage), buffers(buffers) {}

  const Slot &at(mlir::Value value) const { return slots.at(value); }
  /// Returns null if the value has no slot yet.
  const Slot *find(mlir::Value value) const;
  void set(mlir::Value value, Slot slot) { slots[value] = std::move(slot); }

  /// Adds a buffer that contains only `value`, the result of an op.
  Slot make(mlir::Value value);
  /// Adds a buffer for `value` transposed by `dims`. The slot views this buffer
  /// in the dimension order of `value`.
  Slot makePermuted(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  /// Adds a buffer that contains only `value`, and its slot. Returns the id of
  /// the buffer.
  int addBuffer(mlir::Value value, rt::BufferKind kind, std::string name);
  int addBuffer(mlir::RankedTensorType type, rt::BufferKind kind,
                std::string name);
  /// Adds a buffer of `bytes` bytes for the temporary data of one instruction.
  int addWorkspace(mlir::MLIRContext *context, int64_t bytes, std::string name);
  /// Returns the buffer that contains exactly the elements of `value`. If the
  /// elements are part of a larger buffer, creates a view buffer. Returns
  /// nullopt if they are strided.
  std::optional<int> denseBuffer(mlir::Value value);

private:
  rt::Plan &plan;
  int64_t stage;
  const StepBuffers &buffers;
  llvm::DenseMap<mlir::Value, Slot> slots;
};

} // namespace dpc::codegen
