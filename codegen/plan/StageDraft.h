//===- StageDraft.h - One stage while its plan is built ---------*- C++ -*-===//
//
// One walk over a stage's @step emits instructions over buffers without
// offsets. Events, lifetimes, frames and offsets then follow from the accesses
// of the instructions and from the schedule:
//
//   StepSchedule   phases and their order            (StepSchedule.h)
//   StepBuffers    ordered ops and shared buffers    (ir/StepBuffers.h)
//   ValueSlots     the buffer and view of a value    (ValueSlots.h)
//   lower()        instructions of an op             (Lower*.cpp)
//   bind*()        mesh, arguments and results       (Ports.cpp)
//   addEvents()    between queues                    (Events.cpp)
//   placeBuffers() frames and offsets                (Placement.cpp)
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/kernel/DTypes.h"
#include "codegen/kernel/Kernel.h"
#include "codegen/plan/Instructions.h"
#include "codegen/plan/ValueSlots.h"

namespace dpc::codegen {

struct SharedDraft {
  PlanDraft draft;
  llvm::StringMap<EmittedKernel> kernels; ///< by body text
  KernelTarget target = KernelTarget::cpu;
  int numEvents = 0;
};

/// A stage that is being added to a draft. It cannot be copied because its
/// parts refer to each other.
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
  int64_t ringShifts = 0; ///< the tag of the next ring shift
  int64_t uncoded = 0;    ///< GEMMs that were predicted in fp8 but run in bf16
};

/// These functions add the mesh, arguments and results of the step to the plan
/// (Ports.cpp). They fail with a diagnostic.
mlir::LogicalResult bindMesh(StageDraft &s);
mlir::LogicalResult bindArguments(StageDraft &s);
mlir::LogicalResult bindResults(StageDraft &s);

/// Lowers `op` to instructions and adds slots for its results.
mlir::LogicalResult lower(StageDraft &s, mlir::Operation *op);
mlir::LogicalResult lowerAll(StageDraft &s);

/// Returns the buffer that contains exactly the elements of `value`. Fails with
/// a diagnostic at `op`, which reads or writes `value`, if the elements are
/// strided.
mlir::FailureOr<int> contiguousBuffer(StageDraft &s, mlir::Operation *op,
                                      mlir::Value value);

/// Kernels (LowerKernels.cpp).
mlir::LogicalResult lowerKernel(StageDraft &s, KernelOp op);
mlir::LogicalResult lowerAccumulate(StageDraft &s, AccumulateOp op);
/// Returns the index of the operand whose buffer `result` reuses, or -1.
int64_t tiedInput(const StageDraft &s, mlir::OpResult result);
/// Adds a slot for `result` and adds its buffer to the writes of `call`. The
/// buffer is that of operand `tied`, or a new buffer if `tied` is -1.
const Slot &addResult(StageDraft &s, mlir::OpResult result, int64_t tied,
                      rt::KernelOp &call);
/// Returns a slot for the sum `value` in a new buffer that setup clears.
Slot clearedSlot(StageDraft &s, mlir::Value value);
/// Returns the code for `spec`, or null after a diagnostic.
const EmittedKernel *kernelFor(SharedDraft &shared, const KernelSpec &spec);

/// The phase of a kernel call, and its name and FLOPs in traces.
struct KernelCall {
  int phase = 0;
  std::string name;
  double flops = 0;
};
/// Emits one instruction for each stage of a kernel.
mlir::LogicalResult emitCalls(StageDraft &s, const KernelSpec &spec,
                              rt::KernelOp call, KernelCall how);

/// An elementwise kernel on dense tensors of one shape and on scalars.
struct FlatKernel {
  KernelOp op;
  int phase = 0;
  int64_t elements = 0;
  std::string text; ///< equal if only shapes differ
  /// `scalars` are the buffers of scalar operands, `buffers` those of all other
  /// operands, and `written` those of operands that results reuse.
  llvm::SmallVector<int> scalars, buffers, written;
  llvm::SmallVector<int64_t> aliases; ///< see KernelSpec
};
/// Returns the longest run of kernels that starts at op `first` and fits into
/// one launch (LowerGroups.cpp).
std::vector<FlatKernel> groupAt(const StageDraft &s, size_t first);
mlir::LogicalResult lowerGroup(StageDraft &s, llvm::ArrayRef<FlatKernel> group);

/// GEMMs and their epilogues (LowerGemms.cpp).
mlir::LogicalResult lowerMatmul(StageDraft &s, MatmulOp op);
mlir::LogicalResult lowerWithEpilogue(StageDraft &s, KernelOp op);
void remarkOnUncoded(const StageDraft &s);

/// Products of experts, convolutions and attention (LowerExperts.cpp,
/// LowerConv.cpp, LowerAttention.cpp).
mlir::LogicalResult lowerExpertMatmul(StageDraft &s, mlir::Operation *op);
mlir::LogicalResult lowerExpertTiles(StageDraft &s, ExpertTilesOp op);
mlir::LogicalResult lowerConv(StageDraft &s, mlir::Operation *op);
mlir::LogicalResult lowerAttention(StageDraft &s, mlir::Operation *op);

/// Collectives, messages and transfers (LowerCollectives.cpp).
/// Returns the group of the ranks along `axes`. With `ordered`, requires mesh
/// order, in which collectives stack shards.
mlir::FailureOr<int> groupOf(StageDraft &s, mlir::Operation *op,
                             mlir::ArrayAttr axes, bool ordered);
mlir::LogicalResult lowerAllReduce(StageDraft &s, AllReduceOp op);
mlir::LogicalResult lowerStacked(StageDraft &s, mlir::Operation *op,
                                 mlir::ArrayAttr axes);
mlir::LogicalResult lowerSend(StageDraft &s, SendOp op);
mlir::LogicalResult lowerRecv(StageDraft &s, RecvOp op);
mlir::LogicalResult lowerRingShift(StageDraft &s, RingShiftOp op);
mlir::LogicalResult lowerFetch(StageDraft &s, FetchOp op);
mlir::LogicalResult lowerStore(StageDraft &s, StoreOp op);

} // namespace dpc::codegen
