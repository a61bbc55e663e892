//===- StageDraft.h - One stage while its plan is built ---------*- C++ -*-===//
//
// One walk over a stage's @step makes instructions over buffers without
// offsets; then events, lifetimes, frames and offsets are derived from what the
// instructions read and write, and from the schedule:
//
//   StepSchedule   phases and their order            (StepSchedule.h)
//   StepBuffers    ops in this order, shared buffers (ir/StepBuffers.h)
//   ValueSlots     where each value lives            (ValueSlots.h)
//   lower()        instructions of an op             (Lower*.cpp)
//   bindResults()  and other ports                   (Ports.cpp)
//   addEvents()    between queues                    (Events.cpp)
//   placeBuffers() frames and offsets                (Placement.cpp)
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_PLAN_STAGEDRAFT_H
#define DPC_CODEGEN_PLAN_STAGEDRAFT_H

#include "codegen/kernel/DTypes.h"
#include "codegen/kernel/Kernel.h"
#include "codegen/plan/Instructions.h"
#include "codegen/plan/ValueSlots.h"

namespace dpc::codegen {

/// What the stages of a plan have in common while it is built.
struct SharedDraft {
  PlanDraft draft;
  llvm::StringMap<EmittedKernel> kernels; ///< by text
  KernelTarget target = KernelTarget::cpu;
  int numEvents = 0;
};

/// One stage that is being added to a draft. Its parts refer to each other: it
/// stays where it is.
struct StageDraft {
  StageDraft(mlir::func::FuncOp step, int64_t stage, SharedDraft &shared)
      : step(step), stage(stage), shared(shared), plan(shared.draft.plan),
        slots(plan, stage, buffers) {}
  StageDraft(const StageDraft &) = delete;

  std::string phaseText(int phase) const;

  mlir::func::FuncOp step; ///< a private copy
  const int64_t stage;
  SharedDraft &shared;
  rt::Plan &plan; ///< of `shared`
  StepSchedule schedule;
  StepBuffers buffers;
  ValueSlots slots;
  InstructionList list;
  int64_t ringShifts = 0; ///< each has a tag of its own
  int64_t uncoded = 0;    ///< products that were to be of fp8 and are not
};

/// Gives the plan the step's mesh, arguments and results (Ports.cpp). Fail with
/// a diagnostic.
mlir::LogicalResult bindMesh(StageDraft &s);
mlir::LogicalResult bindArguments(StageDraft &s);
mlir::LogicalResult bindResults(StageDraft &s);

/// Lowers `op` to instructions, and gives its results slots.
mlir::LogicalResult lower(StageDraft &s, mlir::Operation *op);
/// The same for all ops of the step.
mlir::LogicalResult lowerAll(StageDraft &s);

//===----------------------------------------------------------------------===//
// Ops of one kind
//===----------------------------------------------------------------------===//

/// Kernels (LowerKernels.cpp).
mlir::LogicalResult lowerKernel(StageDraft &s, KernelOp op);
mlir::LogicalResult lowerAccumulate(StageDraft &s, AccumulateOp op);
/// The number of the operand whose buffer `result` reuses, or -1.
int64_t tiedInput(const StageDraft &s, mlir::OpResult result);
/// A buffer for a sum, which the setup phase clears.
Slot clearedSlot(StageDraft &s, mlir::Value value);
/// The code for `spec`, or null after a diagnostic.
const EmittedKernel *kernelFor(SharedDraft &shared, const KernelSpec &spec);

/// Where a kernel is called, and as what it is traced.
struct KernelCall {
  int phase = 0;
  std::string name;
  double flops = 0;
};
/// An instruction for each stage of a kernel.
mlir::LogicalResult emitCalls(StageDraft &s, const KernelSpec &spec,
                              rt::KernelOp call, KernelCall how);

/// An elementwise kernel on dense tensors of one shape, and scalars.
struct FlatKernel {
  KernelOp op;
  int phase = 0;
  int64_t elements = 0;
  std::string text; ///< equal for bodies that differ in shapes alone
  /// Of operands that are scalars, of the others, and of the latter those that
  /// results take over.
  llvm::SmallVector<int> scalars, buffers, written;
  llvm::SmallVector<int64_t> aliases; ///< see KernelSpec
};
/// The longest run of kernels from the `first` op on that one launch can do
/// (LowerGroups.cpp), and their launch.
std::vector<FlatKernel> groupAt(const StageDraft &s, size_t first);
mlir::LogicalResult lowerGroup(StageDraft &s, llvm::ArrayRef<FlatKernel> group);

/// Products, and what ends them (LowerProducts.cpp).
mlir::LogicalResult lowerMatmul(StageDraft &s, MatmulOp op);
mlir::LogicalResult lowerWithEpilogue(StageDraft &s, KernelOp op);
void remarkOnUncoded(const StageDraft &s);

/// Other ops over tensors (LowerConv.cpp, LowerAttention.cpp).
mlir::LogicalResult lowerConv(StageDraft &s, mlir::Operation *op);
mlir::LogicalResult lowerAttention(StageDraft &s, mlir::Operation *op);

/// Collectives, messages and transfers (LowerCollectives.cpp).
mlir::LogicalResult lowerAllReduce(StageDraft &s, AllReduceOp op);
mlir::LogicalResult lowerStacked(StageDraft &s, mlir::Operation *op,
                                 mlir::ArrayAttr axes);
mlir::LogicalResult lowerSend(StageDraft &s, SendOp op);
mlir::LogicalResult lowerRecv(StageDraft &s, RecvOp op);
mlir::LogicalResult lowerRingShift(StageDraft &s, RingShiftOp op);
mlir::LogicalResult lowerFetch(StageDraft &s, FetchOp op);
mlir::LogicalResult lowerStore(StageDraft &s, StoreOp op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_STAGEDRAFT_H
