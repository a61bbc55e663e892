//===- PlanBuilder.h - Instructions and buffers of a step -------*- C++ -*-===//
//
// One walk over a stage's @step makes instructions over buffers without
// offsets; then events, lifetimes, frames and offsets are derived from what the
// instructions read and write, and from the schedule (PlanSchedule.cpp,
// PlanQueues.cpp, PlanFrames.cpp).
//
// Where a value lives (`Slot`): in a buffer of its own, unless it is
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
#ifndef DPC_CODEGEN_PLAN_PLANBUILDER_H
#define DPC_CODEGEN_PLAN_PLANBUILDER_H

#include "codegen/Codegen.h"
#include "codegen/kernel/DTypes.h"
#include "codegen/kernel/Kernel.h"
#include "ir/Sharding.h"

namespace dpc::rt {
class PlacedBuffers;
}

namespace dpc::codegen {

/// A phase of a step.
struct StepPhase {
  rt::PhaseKind kind = rt::PhaseKind::Forward;
  int64_t chunk = 0;
  bool operator==(const StepPhase &) const = default;
};

/// "Run this phase of the loop for this micro-batch."
struct LoopEntry {
  int phase = 0; ///< index in PlanBuilder::phases
  int64_t microBatch = 0;
};

/// Where a value lives.
struct Slot {
  int buffer = -1; ///< never a view
  StridedView view;
};

/// An instruction and what decides its place.
struct Item {
  int phase = 0; ///< index in PlanBuilder::phases
  rt::Instruction instruction;
  SourceOps source; ///< see PlanDraft::sources
};

/// What a micro-batch keeps between the phases of a chunk.
struct FramePlan {
  int64_t chunk = 0;
  llvm::SmallVector<int> buffers; ///< that are used by several phases
  llvm::SmallVector<bool> uses;   ///< by phase: it touches one of them
  int64_t count = 1;              ///< micro-batches alive at once
  /// All micro-batches run the phases that use it in the order of the phases.
  bool isOrdered = true;
  std::vector<int64_t> slots; ///< by micro-batch
};

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

/// Where a kernel is called, and as what it is traced.
struct KernelCall {
  int phase = 0;
  std::string name;
  double flops = 0;
};

/// What the stages of a plan have in common while it is built.
struct SharedDraft {
  PlanDraft draft;
  llvm::StringMap<EmittedKernel> kernels; ///< by text
  KernelTarget target = KernelTarget::cpu;
  int numEvents = 0;
};

/// Adds one stage to a draft.
class PlanBuilder {
public:
  PlanBuilder(mlir::func::FuncOp step, int64_t stage, SharedDraft &shared)
      : step(step), stage(stage), shared(shared), draft(shared.draft) {}

  llvm::LogicalResult build();

private:
  // PlanBuilder.cpp
  void wrapLooseOps();
  KernelOp wrap(mlir::Operation *op);
  llvm::LogicalResult checkLowerings();
  llvm::LogicalResult checkTypes();
  llvm::LogicalResult checkLookups();
  llvm::LogicalResult orderOps();
  llvm::LogicalResult lower(mlir::Operation *op);
  llvm::LogicalResult lowerView(mlir::Operation *op);
  llvm::LogicalResult lowerConstant(ConstantOp op);
  llvm::LogicalResult lowerKernel(KernelOp op);
  llvm::LogicalResult lowerAccumulate(AccumulateOp op);
  Slot clearedSlot(mlir::Value sum);
  int64_t tiedInput(KernelOp op, unsigned result);
  const EmittedKernel *kernelFor(const KernelSpec &spec);
  llvm::LogicalResult emitCalls(const KernelSpec &spec, rt::KernelOp call,
                                KernelCall how);

  // PlanGroups.cpp
  std::optional<FlatKernel> flatKernel(KernelOp op);
  std::vector<FlatKernel> groupAt(size_t first);
  llvm::LogicalResult lowerGroup(llvm::ArrayRef<FlatKernel> group);

  // PlanCollectives.cpp
  llvm::LogicalResult lowerAllReduce(AllReduceOp op);
  llvm::LogicalResult lowerStacked(mlir::Operation *op, mlir::ArrayAttr axes);
  int gatheredInto(mlir::OpResult stack);
  llvm::LogicalResult lowerSend(SendOp op);
  llvm::LogicalResult lowerRecv(RecvOp op);
  llvm::FailureOr<int> stageGroup(mlir::Operation *op, int64_t peer);
  llvm::LogicalResult lowerRingShift(RingShiftOp op);
  llvm::FailureOr<int> groupOf(mlir::Operation *op, mlir::ArrayAttr axes,
                               bool ordered);

  // PlanSpaces.cpp
  llvm::LogicalResult lowerFetch(FetchOp op);
  llvm::LogicalResult lowerStore(StoreOp op);
  llvm::LogicalResult bindSpace(mlir::DictionaryAttr attrs, rt::Buffer &buffer);
  void placeInSpaces();

  // PlanConv.cpp
  llvm::LogicalResult lowerConv(mlir::Operation *op);

  // PlanAttention.cpp
  llvm::LogicalResult lowerAttention(mlir::Operation *op);

  // PlanMatmul.cpp
  llvm::LogicalResult lowerMatmul(MatmulOp op);
  void codeFactors(MatmulOp op, rt::MatmulOp &call);
  void remarkOnUncoded();
  llvm::LogicalResult callsOf(MatmulOp op, mlir::Value a, mlir::Value b,
                              const StridedView &c,
                              llvm::SmallVector<rt::MatmulOp> &calls);
  Slot productSlot(mlir::Operation *op);
  Slot permutedSlot(mlir::Value value, llvm::ArrayRef<int64_t> order);

  // PlanEpilogues.cpp
  llvm::LogicalResult lowerEnded(KernelOp op);
  llvm::LogicalResult lowerApart(KernelOp op);
  bool canEnd(KernelOp op, rt::Epilogue epilogue,
              llvm::ArrayRef<rt::MatmulOp> calls) const;
  void bindEpilogue(KernelOp op, rt::Epilogue epilogue, rt::MatmulOp &call);

  // PlanPorts.cpp
  llvm::LogicalResult bindMesh();
  llvm::LogicalResult bindArguments();
  llvm::LogicalResult bindTensor(unsigned index, mlir::DictionaryAttr attrs);
  llvm::LogicalResult addTensor(rt::Tensor tensor);
  llvm::LogicalResult bindSkips(mlir::DictionaryAttr attrs,
                                rt::ScalarInput &scalar);
  llvm::LogicalResult bindInput(unsigned index, mlir::DictionaryAttr attrs);
  llvm::LogicalResult bindResults();
  llvm::LogicalResult bindTie(mlir::Value value, int64_t argument,
                              mlir::Operation *at);
  void emitOutputCopy(mlir::Value value, const rt::Port &port, int phase);
  int64_t placeOfCopy(int from, int to);
  void bindOutput(unsigned index, mlir::Value value);

  llvm::FailureOr<int> inputPort(rt::Port port);

  // PlanSchedule.cpp
  llvm::LogicalResult bindSchedule();
  void bindPhases();
  void findFrames();
  void assignSlots(FramePlan &frame) const;
  void fillSchedule();
  rt::ScheduleEntry entryOf(const LoopEntry &entry) const;
  int setupPhase() const { return 0; }
  int updatePhase() const { return static_cast<int>(phases.size()) - 1; }
  bool inLoop(int phase) const { return phase > 0 && phase < updatePhase(); }

  // PlanQueues.cpp
  void orderItems();
  void addEvents();
  void completeEvents();
  void completeEvents(const std::vector<rt::ScheduleEntry> &schedule,
                      const rt::PlacedBuffers &placed);

  // PlanFrames.cpp
  void placeBuffers();

  // Shared.
  int addBuffer(mlir::RankedTensorType type, rt::BufferKind kind,
                std::string name);
  /// A buffer for a value that an op computes.
  Slot newSlot(mlir::Value value);
  rt::BufferKind kindOf(mlir::Value value);
  bool feedsOptimizer(mlir::Value value);
  /// The buffer that holds `slot` densely (a view buffer if it is a part).
  std::optional<int> denseBuffer(const Slot &slot, mlir::Type elementType);
  rt::Instruction &emit(int phase, rt::OpVariant op, std::string name,
                        rt::Queue queue = rt::Queue::Compute);
  /// Index of the phase of `op`, or -1 when the schedule lacks it.
  int phaseOf(mlir::Operation *op) const;
  std::string phaseText(int phase) const;
  /// The value whose buffer `value` is a view of.
  mlir::Value rootOf(mlir::Value value) const;
  bool isView(mlir::Operation *op) const;
  /// No op after `op` reads the buffer of `value`.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;

  mlir::func::FuncOp step; ///< a private copy
  int64_t stage;
  SharedDraft &shared;
  PlanDraft &draft;
  /// Setup, the loop's in the order in which a micro-batch runs them, update.
  std::vector<StepPhase> phases;
  std::vector<LoopEntry> loop;
  llvm::SmallVector<mlir::Operation *> ops; ///< in execution order
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  llvm::DenseMap<mlir::Operation *, int64_t> places; ///< as in SourceOps
  llvm::DenseMap<mlir::Value, int64_t> lastUse;      ///< by root
  llvm::DenseMap<mlir::Value, Slot> slots;
  llvm::DenseMap<mlir::Value, bool> optimizerFeeds;
  int64_t ringShifts = 0; ///< each has a tag of its own
  int64_t uncoded = 0;    ///< products that were to be of fp8 and are not
  SourceOps lowering;     ///< Item::source of what is emitted
  std::vector<Item> items;
  std::vector<Item> tails;       ///< appended to their phases
  std::vector<int> outputsAtEnd; ///< buffers read after the step
  /// What crosses phases of the loop, by chunk. Empty when no micro-batch
  /// starts before the one before it has ended: then the phases are one line,
  /// and lifetimes on it say all.
  std::vector<FramePlan> frames;
  std::vector<int> frameIds; ///< in the plan, of `frames`
};

/// Operations of a product and of what it does besides.
double productFlops(mlir::Operation *op);

/// Short name of what computes `op`, for traces.
std::string nameOfOp(mlir::Operation *op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLAN_PLANBUILDER_H
