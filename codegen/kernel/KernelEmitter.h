//===- KernelEmitter.h - Loops for the body of a dpc.kernel -----*- C++ -*-===//
//
// Code is emitted from the results backwards: `at(value, indices)` emits the
// computation of one element of any value of the body, down to loads of the
// kernel's operands. Data movement only changes the indices, so that fused
// transposes, slices, broadcasts and reshapes cost nothing but strides.
//
// A kernel is one of
//   * elementwise: a loop nest per result shape, flattened as far as all
//     accesses allow; in each iteration all results are computed, then stored
//     (so a result may share the memory of an operand that is read at the same
//     index);
//   * row: loops over rows; inside, values needed before the row op, the row
//     op's passes over the row, then what depends on it;
//   * reduction, embedding gradient, sum of squares: see ReduceKernels.cpp.
//
// For GPUs the elements are the same; the loops around them are spread over
// threads as GpuKernel.h says. Row ops are written once, in terms of rowFold(),
// rowLoop() and once(): loops over a row on a CPU, the work of a team of
// threads on a GPU.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_KERNEL_KERNELEMITTER_H
#define DPC_CODEGEN_KERNEL_KERNELEMITTER_H

#include "codegen/gpu/GpuKernel.h"
#include "codegen/kernel/Index.h"
#include "codegen/kernel/ScalarMath.h"
#include "ir/Dialect.h"
#include "ir/StridedView.h"

#include <functional>

namespace dpc::codegen {

/// A kernel and how its operands and results lie in memory.
struct KernelSpec {
  KernelOp op;
  llvm::SmallVector<StridedView> inputs;
  llvm::SmallVector<StridedView> outputs;
  /// Result i shares the memory of operand aliases[i], or -1.
  llvm::SmallVector<int64_t> aliases;
  /// The memory of such an operand is passed as another operand as well.
  bool overlaps = false;
  /// Elements of each of the tensors that one launch is for: the kernel is done
  /// to all of them (GpuGroups.cpp). Empty: to the op's own.
  llvm::SmallVector<int64_t> groupSizes = {};
};

/// Elements of a value of the body in memory.
struct MemoryRef {
  mlir::Value pointer;
  StridedView view;
  /// As they are stored; null when they are stored as they are computed with.
  mlir::Type element;
};

/// What elements of a value are computed with: f32 for narrower floats, which
/// are widened on load and rounded on store; signless integers of 8 bits at
/// least; and else their own type.
mlir::Type computeTypeOf(mlir::Value value);

/// What elements of a type are loaded and stored as.
mlir::Type storageTypeOf(mlir::Type elementType);

/// A piece of scratch memory: elements of `type` from `offset` bytes on.
struct Scratch {
  int64_t offset = 0;
  mlir::Type type;
};

/// Emits one kernel. Valid for one `emit`.
class KernelEmitter {
public:
  /// `builder` inserts in `module`, between functions.
  KernelEmitter(mlir::OpBuilder &builder, const KernelSpec &spec,
                llvm::StringRef symbol,
                KernelTarget target = KernelTarget::cpu);

  /// Emits, for each stage, `void SYMBOL(void *const *buffers, const int64_t
  /// *scalars)`, or for PTX `void SYMBOL(void *buffer0, .., int64_t scalar0,
  /// ..)`. Buffers are the operands, then the results, then scratch memory if
  /// there is some. Fails with a diagnostic at the op that has no code.
  llvm::FailureOr<EmittedKernel> emit();

private:
  using Computed = std::function<mlir::Value(llvm::ArrayRef<Index>)>;
  using LoopBody = std::function<void(mlir::Value)>;
  using FoldBody = std::function<llvm::SmallVector<mlir::Value>(
      mlir::Value, mlir::ValueRange)>;

  // Functions and memory (KernelEmitter.cpp).
  mlir::func::FuncOp emitImpl(const std::string &name);
  void emitEntry(mlir::func::FuncOp impl, const std::string &name);
  llvm::LogicalResult emitForCpu();
  void emitForGpu();
  void bindArguments(mlir::func::FuncOp impl);
  mlir::Value load(const MemoryRef &memory, mlir::Type elementType,
                   llvm::ArrayRef<Index> indices);
  void store(mlir::Value scalar, const MemoryRef &memory,
             llvm::ArrayRef<Index> indices);
  mlir::Value widen(mlir::Value element, mlir::Type half);
  mlir::Value round(mlir::Value scalar, mlir::Type half);
  mlir::Value converted(mlir::Value x, mlir::Type from, mlir::Type to);
  /// Where an element lies, and to how many bytes that is aligned (0: as its
  /// type asks for).
  std::pair<mlir::Value, unsigned> address(const MemoryRef &memory,
                                           mlir::Type storage,
                                           llvm::ArrayRef<Index> indices);
  unsigned alignmentOf(const Index &linear, mlir::Type storage) const;
  void noteStride(const Index &linear);
  void annotateLoops(mlir::func::FuncOp function);
  mlir::Value loadConstant(ConstantOp op, llvm::ArrayRef<Index> indices);

  // Loops (KernelEmitter.cpp).
  void forLoop(int64_t size, const LoopBody &body);
  llvm::SmallVector<mlir::Value> stepLoop(mlir::Value lower, mlir::Value upper,
                                          int64_t step, mlir::ValueRange init,
                                          const FoldBody &body);
  llvm::SmallVector<mlir::Value>
  foldLoop(mlir::Value upper, mlir::ValueRange init, const FoldBody &body);
  /// Opens a loop that is dimension `size` of the space; body gets its index.
  void spaceLoop(int64_t size, const std::function<void(Index)> &body);
  void spaceLoops(llvm::ArrayRef<int64_t> sizes, Indices &indices,
                  const std::function<void()> &body);
  /// As foldLoop, over a dimension of the space.
  llvm::SmallVector<mlir::Value>
  spaceFold(int64_t size, mlir::ValueRange init,
            const std::function<
                llvm::SmallVector<mlir::Value>(Index, mlir::ValueRange)> &body);

  // Threads (GpuThreads.cpp); see GpuKernel.h.
  using ColumnBody =
      std::function<llvm::SmallVector<mlir::Value>(Index, mlir::ValueRange)>;
  using Combine = std::function<llvm::SmallVector<mlir::Value>(
      mlir::ValueRange, mlir::ValueRange)>;
  using ThreadBody = std::function<llvm::SmallVector<mlir::Value>(mlir::Value)>;
  bool onGpu() const { return target != KernelTarget::cpu; }
  /// A stage of `teams` teams; `body` gets the number of a team.
  void emitStage(int64_t teams, TeamShape shape, const LoopBody &body);
  void finishStages();
  void dropUntouched(mlir::func::FuncOp impl, KernelStage &stage);
  void emitTeams(int64_t teams, const LoopBody &body);
  void phase(const LoopBody &body);
  llvm::SmallVector<mlir::Value> fold(llvm::ArrayRef<mlir::Type> types,
                                      const Combine &combine,
                                      const ThreadBody &body);
  Combine accumulation(llvm::ArrayRef<ReduceKind> kinds);
  llvm::SmallVector<mlir::Value>
  combineThreads(llvm::SmallVector<mlir::Value> values, const Combine &combine);
  llvm::SmallVector<mlir::Value>
  combineArrays(llvm::ArrayRef<mlir::Value> arrays,
                llvm::ArrayRef<mlir::Type> types, const Combine &combine);
  mlir::Value shuffle(mlir::Value value, int64_t distance);
  mlir::Value intrinsic(mlir::Type type, llvm::StringRef name,
                        mlir::ValueRange arguments);
  void barrier();
  mlir::Value sharedMemory();
  void when(mlir::Value condition, const std::function<void()> &body);
  void whenBelow(mlir::Value number, int64_t limit,
                 const std::function<void()> &body);
  /// The columns of a row that are the thread's, in vectors.
  llvm::SmallVector<mlir::Value> threadColumns(mlir::Value thread, int64_t size,
                                               mlir::Value limit,
                                               mlir::ValueRange init,
                                               const ColumnBody &body);
  /// What `body` stores, behind all that it computes.
  void storeTogether(const std::function<void()> &body);
  /// Elements of a vector, at most, that divide `size`.
  int64_t vectorWidth(int64_t size) const;
  /// Opens loops over `sizes` of which `linear` is the row-major position, a
  /// multiple of `multiple`, which divides the last size.
  void pushDims(mlir::Value linear, llvm::ArrayRef<int64_t> sizes,
                Indices &indices, int64_t multiple = 1);
  void popDims(size_t count);

  // Loops over a row: those of the CPU, or the work of a team (GpuThreads.cpp).
  /// Accumulates over the columns below `limit` (null: all of `size`), from
  /// the neutral elements of `kinds` on.
  llvm::SmallVector<mlir::Value> rowFold(llvm::ArrayRef<ReduceKind> kinds,
                                         mlir::Type type, int64_t size,
                                         mlir::Value limit,
                                         const ColumnBody &body);
  void rowLoop(int64_t size, mlir::Value limit,
               const std::function<void(Index)> &body);
  /// What one thread does; may store.
  void once(const std::function<void()> &body);

  // Groups (GpuGroups.cpp).
  using MemberValues = std::function<llvm::SmallVector<mlir::Value>(size_t)>;
  mlir::func::FuncOp emitGroupImpl(const std::string &name);
  void emitGroupStage();
  llvm::SmallVector<mlir::Value> ofMember(mlir::Value number,
                                          llvm::ArrayRef<int64_t> firsts,
                                          size_t low, size_t high,
                                          const MemberValues &values);
  mlir::Value bindChunk(mlir::Value number, llvm::ArrayRef<int64_t> firsts,
                        int64_t chunk);

  // Elementwise stages (GpuNests.cpp).
  using ElementsBody =
      std::function<llvm::SmallVector<mlir::Value>(llvm::ArrayRef<Index>)>;
  llvm::ArrayRef<int64_t> outputShape(unsigned number) const;
  void emitElementwiseStage(llvm::ArrayRef<unsigned> results);
  void emitFillStage(unsigned result, double value);
  void keepValues();
  void gridStage(int64_t elements, const std::function<void()> &body);
  /// Gives the numbers from `begin` to `end` to the threads of all blocks.
  void gridLoop(int64_t begin, int64_t end, const LoopBody &body);
  void emitGpuNest(llvm::ArrayRef<mlir::Value> values,
                   llvm::ArrayRef<MemoryRef> targets,
                   llvm::ArrayRef<int64_t> begin, llvm::ArrayRef<int64_t> sizes,
                   const ElementsBody &elements);
  void emitGpuTiles(llvm::ArrayRef<int64_t> sizes, int64_t crossed,
                    const std::function<void(llvm::ArrayRef<Index>)> &body);
  void emitVectors(llvm::ArrayRef<int64_t> sizes,
                   llvm::ArrayRef<bool> mergesNext, int64_t width,
                   const std::function<void(llvm::ArrayRef<Index>)> &body);

  // Reductions in stages (GpuReduce.cpp, GpuSums.cpp).
  struct Sums;
  void emitReductionStages();
  void emitRowStages(mlir::Operation *rowOp);
  std::optional<Sums> columnSums(NormGradOp op);
  Sums sumsOf(ReduceOp op, unsigned result);
  void emitSquareStages(SumSquaresOp op, unsigned result, int64_t offset);
  mlir::Value squaresOf(mlir::Value input, mlir::Value part, int64_t parts);
  void emitEmbeddingStages(EmbeddingGradOp op, unsigned result, int64_t offset);
  std::pair<mlir::Value, mlir::Value>
  rowOfId(EmbeddingGradOp op, mlir::Value position, Indices &indices);
  void emitEmbeddingLinks(EmbeddingGradOp op, const Scratch &next,
                          const Scratch &first);
  void emitEmbeddingWalk(EmbeddingGradOp op, unsigned result,
                         const Scratch &next, const Scratch &first);
  mlir::Value loadScratch(const Scratch &part, mlir::Value position);
  void storeScratch(mlir::Value value, const Scratch &part,
                    mlir::Value position);

  // GpuSums.cpp
  void planSums(Sums &sums);
  void emitSums(const Sums &sums);
  void emitPartialRows(const Sums &sums);
  void emitPartialColumns(const Sums &sums);
  void finishSums(const Sums &sums);
  Indices indicesOf(const Sums &sums, llvm::ArrayRef<Index> kept,
                    llvm::ArrayRef<Index> reduced);
  void storeSums(const Sums &sums, mlir::ValueRange values,
                 llvm::ArrayRef<Index> kept, mlir::Value number,
                 mlir::Value part);
  std::pair<mlir::Value, mlir::Value> boundsOf(const Sums &sums,
                                               mlir::Value part);
  llvm::SmallVector<mlir::Value> neutralTerms(const Sums &sums);
  llvm::SmallVector<mlir::Value> addTerms(const Sums &sums, mlir::ValueRange x,
                                          mlir::ValueRange y);
  llvm::SmallVector<mlir::Value> termsAt(const Sums &sums,
                                         llvm::ArrayRef<Index> indices);
  static llvm::SmallVector<mlir::Type> typesOf(const Sums &sums);

  // Elements (Elements.cpp).
  mlir::Value at(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value compute(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value computePlaced(mlir::Value value, llvm::ArrayRef<Index> indices);
  mlir::Value maskAt(MaskOp op, llvm::ArrayRef<Index> indices);
  mlir::Value iotaAt(IotaOp op, llvm::ArrayRef<Index> indices);
  mlir::Value concatAt(ConcatOp op, llvm::ArrayRef<Index> indices);
  mlir::Value padAt(PadOp op, llvm::ArrayRef<Index> indices);
  mlir::Value ropeAt(RopeOp op, llvm::ArrayRef<Index> indices);
  mlir::Value embeddingAt(EmbeddingOp op, llvm::ArrayRef<Index> indices);
  mlir::Value crossEntropyGradAt(CrossEntropyGradOp op,
                                 llvm::ArrayRef<Index> indices);
  mlir::Value scoresGradAt(AttentionScoresGradOp op, unsigned result,
                           llvm::ArrayRef<Index> indices);
  mlir::Value maxPoolAt(MaxPoolOp op, unsigned result,
                        llvm::ArrayRef<Index> indices);
  mlir::Value maxPoolGradAt(MaxPoolGradOp op, llvm::ArrayRef<Index> indices);
  mlir::Value unlessSkipped(mlir::Value apply, mlir::Value next,
                            mlir::Value old);
  mlir::Value adamwAt(AdamWOp op, unsigned result,
                      llvm::ArrayRef<Index> indices);
  mlir::Value sgdAt(SgdOp op, unsigned result, llvm::ArrayRef<Index> indices);
  /// Row of a looked-up id in this rank's shard and whether it is there.
  std::pair<mlir::Value, mlir::Value> lookup(mlir::Operation *op,
                                             mlir::Value id, int64_t localSize);
  /// Least and greatest value of an affine index.
  std::optional<std::pair<int64_t, int64_t>> range(const Index &index) const;
  mlir::Value scalar(mlir::Operation *op, unsigned position);

  // Nests (Nests.cpp).
  llvm::LogicalResult emitElementwise();
  void emitResults(llvm::ArrayRef<unsigned> results);
  void emitCut(llvm::ArrayRef<unsigned> results);
  void emitNest(llvm::ArrayRef<unsigned> results, llvm::ArrayRef<int64_t> begin,
                llvm::ArrayRef<int64_t> sizes);
  void emitBox(mlir::Value value, const MemoryRef &target);
  llvm::SmallVector<bool> mergeable(llvm::ArrayRef<mlir::Value> values,
                                    llvm::ArrayRef<StridedView> targets,
                                    llvm::ArrayRef<int64_t> begin,
                                    llvm::ArrayRef<int64_t> sizes,
                                    int64_t &crossed);
  void emitTiled(llvm::ArrayRef<int64_t> sizes, int64_t crossed, Indices &loops,
                 const std::function<void()> &body);
  void fill(const MemoryRef &target, mlir::Type elementType, double value);

  // Rows (RowKernels.cpp).
  llvm::LogicalResult emitRows(mlir::Operation *rowOp);
  void emitRowStage(mlir::Operation *rowOp);
  void emitRow(mlir::Operation *rowOp, llvm::ArrayRef<Index> row);
  void storeRowResults(mlir::Operation *rowOp, llvm::ArrayRef<Index> row,
                       bool before);
  void softmaxRow(SoftmaxOp op, llvm::ArrayRef<Index> row);
  void softmaxGradRow(SoftmaxGradOp op, llvm::ArrayRef<Index> row);
  void topkRow(TopKOp op, llvm::ArrayRef<Index> row);
  void cumsumRow(CumSumOp op, llvm::ArrayRef<Index> row);
  void normRow(NormOp op, llvm::ArrayRef<Index> row);
  void normGradRow(NormGradOp op, llvm::ArrayRef<Index> row);
  void probsRow(AttentionProbsOp op, llvm::ArrayRef<Index> row);
  void normalizeProbs(AttentionProbsOp op, llvm::ArrayRef<Index> row,
                      const MemoryRef &target, mlir::Value limit,
                      mlir::Value factor);
  void zeroBeyond(mlir::Value limit, int64_t size, const MemoryRef &target,
                  mlir::Type type, llvm::ArrayRef<Index> row);
  mlir::Value rowMax(mlir::Value x, llvm::ArrayRef<Index> row);
  void findRowMax(CrossEntropySumsOp op, ReduceOp max,
                  llvm::ArrayRef<Index> row);
  void crossEntropyRow(CrossEntropySumsOp op, llvm::ArrayRef<Index> row);
  /// The memory of a value that the kernel yields, or null.
  const MemoryRef *targetOf(mlir::Value value) const;
  mlir::Value maskTerm(mlir::Value mask, llvm::ArrayRef<Index> indices);

  // Pools (PoolKernels.cpp).
  using TapBody = std::function<llvm::SmallVector<mlir::Value>(
      llvm::ArrayRef<mlir::Value>, mlir::ValueRange)>;
  llvm::SmallVector<mlir::Value> foldTaps(llvm::ArrayRef<int64_t> kernel,
                                          llvm::SmallVector<mlir::Value> &taps,
                                          mlir::ValueRange init,
                                          const TapBody &body);

  // Reductions (ReduceKernels.cpp).
  llvm::LogicalResult emitReductions();
  void emitReduce(ReduceOp op, const MemoryRef &target);
  mlir::Value reduceElement(ReduceOp op, Indices &indices, unsigned next,
                            mlir::Value sum);
  void emitSumSquares(SumSquaresOp op, const MemoryRef &target);
  void emitEmbeddingGrad(EmbeddingGradOp op, const MemoryRef &target);

  KernelSpec spec;
  std::string symbol;
  mlir::ImplicitLocOpBuilder b;
  ScalarMath math;
  LoopSpace space;
  llvm::SmallVector<mlir::Value> yields;
  llvm::SmallVector<MemoryRef> inputs, outputs;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Value>> scalars;
  /// Values already in memory where code is being emitted.
  llvm::DenseMap<mlir::Value, MemoryRef> stored;
  /// Values that a row op knows how to compute.
  llvm::DenseMap<mlir::Value, Computed> computed;
  /// Elements already computed, by open loop.
  using Memo =
      llvm::DenseMap<mlir::Value,
                     llvm::SmallVector<std::pair<Indices, mlir::Value>, 1>>;
  std::vector<Memo> memos;
  /// Bodies of loops with accesses that are not contiguous.
  llvm::SmallPtrSet<mlir::Block *, 8> strided;
  bool failed = false;

  // GPU: of the stage that is being emitted.
  KernelTarget target;
  EmittedKernel result;
  std::vector<mlir::func::FuncOp> functions; ///< of all stages so far
  mlir::func::FuncOp function;
  TeamShape team;
  mlir::Value scratch;
  mlir::Value threadOfTeam;          ///< PTX
  mlir::Value gridTeam, blockThread; ///< in gridStage()
  int64_t gridTeams = 0;             ///< in gridStage()
  int64_t sharedBytes = 0;
  bool inPhase = false, hasStored = false, needsBarrier = false;
  /// Results that earlier stages stored.
  llvm::SmallVector<unsigned> storedResults;
  struct Deferred {
    mlir::Value scalar;
    MemoryRef memory;
    Indices indices;
  };
  std::vector<Deferred> *deferred = nullptr;
};

/// The indices at position `linear` of a row-major `shape`.
Indices delinearize(mlir::ImplicitLocOpBuilder *b, const LoopSpace &space,
                    Index linear, llvm::ArrayRef<int64_t> shape);

/// The indices of the operand element that a data movement op reads, or
/// nullopt when `op` is none. Without `b` nothing is emitted.
std::optional<Indices> movedIndices(mlir::ImplicitLocOpBuilder *b,
                                    const LoopSpace &space, mlir::Operation *op,
                                    llvm::ArrayRef<Index> indices);

/// Loop indices moved to where a box begins.
Indices shifted(mlir::ImplicitLocOpBuilder *b, llvm::ArrayRef<Index> indices,
                llvm::ArrayRef<int64_t> begin);

/// The op of a kernel body that needs whole rows, or null.
mlir::Operation *findRowOp(KernelOp kernel);
/// True for reduce, sum_squares and embedding_grad.
bool isReduction(mlir::Operation *op);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_KERNELEMITTER_H
