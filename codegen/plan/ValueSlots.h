//===- ValueSlots.h - Where values live -------------------------*- C++ -*-===//
//
// A value lives in a buffer of its own, unless it is
//   * a reshape, or a transpose, slice or broadcast marked `dpc.view`: a view
//     of its operand's buffer;
//   * an updated parameter or state, or an all-reduce whose operand dies: in
//     the buffer of that operand;
//   * a gather of a parameter's next value, in one piece: in the buffer of the
//     parameter, when nobody reads the old value any more;
//   * an accumulated value: in a buffer zeroed in the setup phase; one that a
//     product adds up itself is a view of that product's result.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_PLAN_VALUESLOTS_H
#define DPC_CODEGEN_PLAN_VALUESLOTS_H

#include "codegen/plan/StepOrder.h"
#include "ir/StridedView.h"

namespace dpc::codegen {

/// Where a value lives.
struct Slot {
  int buffer = -1; ///< never a view
  StridedView view;
};

/// The slots of a stage's values. Buffers that it makes are of the stage and
/// have no offset yet.
class ValueSlots {
public:
  ValueSlots(rt::Plan &plan, int64_t stage, const StepBuffers &buffers)
      : plan(plan), stage(stage), buffers(buffers) {}

  const Slot &at(mlir::Value value) const { return slots.at(value); }
  /// Null when the value has no slot yet.
  const Slot *find(mlir::Value value) const;
  void set(mlir::Value value, Slot slot) { slots[value] = std::move(slot); }

  /// A buffer of its own for a value that an op computes.
  Slot make(mlir::Value value);
  /// The same, whose memory holds `value` transposed by `dims`;
  /// the value is a view of it.
  Slot makePermuted(mlir::Value value, llvm::ArrayRef<int64_t> dims);
  int addBuffer(mlir::RankedTensorType type, rt::BufferKind kind,
                std::string name);
  /// A buffer of bytes that one instruction works in.
  int addWorkspace(mlir::MLIRContext *context, int64_t bytes, std::string name);
  /// The buffer that holds `slot` densely (a view buffer if it is a part).
  std::optional<int> denseBuffer(const Slot &slot, mlir::Type elementType);

private:
  rt::Plan &plan;
  int64_t stage;
  const StepBuffers &buffers;
  llvm::DenseMap<mlir::Value, Slot> slots;
};

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_VALUESLOTS_H
