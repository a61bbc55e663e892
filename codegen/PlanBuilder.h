//===- PlanBuilder.h - Instructions and buffers of a step -------*- C++ -*-===//
//
// One walk over @step makes instructions over buffers without offsets; then
// queues, events, lifetimes and offsets are derived from what the instructions
// read and write (PlanQueues.cpp).
//
// Where a value lives (`Slot`): in a buffer of its own, unless it is
//   * a reshape, or a transpose, slice or broadcast marked `dpc.view`: a view
//     of its operand's buffer;
//   * an updated parameter or state, or an all-reduce whose operand dies: in
//     the buffer of that operand;
//   * an accumulated value: in a buffer zeroed in the setup phase.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_PLANBUILDER_H
#define DPC_CODEGEN_PLANBUILDER_H

#include "codegen/Codegen.h"
#include "codegen/KernelEmitter.h"
#include "ir/Sharding.h"

namespace dpc::codegen {

/// Phases in the order in which they run.
enum class Phase { setup, forward, backward, update };
inline constexpr const char *kPhaseNames[] = {"setup", "forward", "backward",
                                              "update"};

/// Where a value lives.
struct Slot {
  int buffer = -1; ///< never a view
  StridedView view;
};

/// An instruction and what decides its place.
struct Item {
  Phase phase = Phase::forward;
  rt::Instruction instruction;
};

/// Builds one PlanDraft.
class PlanBuilder {
public:
  PlanBuilder(mlir::func::FuncOp step, const CodegenOptions &options)
      : step(step), options(options) {}

  mlir::FailureOr<PlanDraft> build();

private:
  // PlanBuilder.cpp
  void wrapLooseOps();
  llvm::LogicalResult checkLowerings();
  llvm::LogicalResult checkTypes();
  llvm::LogicalResult checkLookups();
  llvm::LogicalResult orderOps();
  llvm::LogicalResult lower(mlir::Operation *op);
  llvm::LogicalResult lowerView(mlir::Operation *op);
  llvm::LogicalResult lowerConstant(ConstantOp op);
  llvm::LogicalResult lowerKernel(KernelOp op);
  llvm::LogicalResult lowerAccumulate(AccumulateOp op);
  int64_t tiedInput(KernelOp op, unsigned result);
  std::string kernelSymbol(const KernelSpec &spec);

  // PlanCollectives.cpp
  llvm::LogicalResult lowerAllReduce(AllReduceOp op);
  llvm::LogicalResult lowerStacked(mlir::Operation *op, mlir::ArrayAttr axes);
  llvm::FailureOr<int> groupOf(mlir::Operation *op, mlir::ArrayAttr axes,
                               bool ordered);

  // PlanConv.cpp
  llvm::LogicalResult lowerConv(mlir::Operation *op);

  // PlanMatmul.cpp
  llvm::LogicalResult lowerMatmul(MatmulOp op);

  // PlanPorts.cpp
  llvm::LogicalResult bindMesh();
  llvm::LogicalResult bindArguments();
  llvm::LogicalResult bindTensor(unsigned index, mlir::DictionaryAttr attrs);
  void bindInput(unsigned index, mlir::DictionaryAttr attrs);
  llvm::LogicalResult bindResults();
  llvm::LogicalResult bindTie(mlir::Value value, int64_t argument,
                              mlir::Operation *at);
  void emitOutputCopy(mlir::Value value, const rt::Port &port, Phase phase);
  int64_t placeOfCopy(int from, int to);
  void bindOutput(unsigned index, mlir::Value value);

  // PlanQueues.cpp
  void orderItems();
  void addEvents();
  void placeBuffers();
  void fillSchedule();

  // Shared.
  int addBuffer(mlir::RankedTensorType type, rt::BufferKind kind,
                std::string name);
  /// A buffer for a value that an op computes.
  Slot newSlot(mlir::Value value);
  rt::BufferKind kindOf(mlir::Value value);
  bool feedsOptimizer(mlir::Value value);
  /// The buffer that holds `slot` densely (a view buffer if it is a part).
  std::optional<int> denseBuffer(const Slot &slot, mlir::Type elementType);
  rt::Instruction &emit(Phase phase, rt::OpVariant op, std::string name,
                        rt::Queue queue = rt::Queue::Compute);
  Phase phaseOf(mlir::Operation *op) const;
  /// The value whose buffer `value` is a view of.
  mlir::Value rootOf(mlir::Value value) const;
  bool isView(mlir::Operation *op) const;
  /// No op after `op` reads the buffer of `value`.
  bool diesAt(mlir::Value value, mlir::Operation *op) const;

  mlir::func::FuncOp step; ///< a private copy
  CodegenOptions options;
  PlanDraft draft;
  MeshAttr mesh;
  llvm::SmallVector<mlir::Operation *> ops; ///< in execution order
  llvm::DenseMap<mlir::Operation *, int64_t> position;
  llvm::DenseMap<mlir::Value, int64_t> lastUse; ///< by root
  llvm::DenseMap<mlir::Value, Slot> slots;
  llvm::DenseMap<mlir::Value, bool> optimizerFeeds;
  std::vector<Item> items;
  std::vector<Item> tails;       ///< appended to their phases
  std::vector<int> outputsAtEnd; ///< buffers read after the step
  llvm::StringMap<std::string> symbols;
};

/// Element type of buffers for `type`; nullopt when it cannot be executed.
std::optional<rt::DType> dtypeOf(mlir::Type type);

/// Short name of what computes `op`, for traces.
std::string nameOfOp(mlir::Operation *op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_PLANBUILDER_H
