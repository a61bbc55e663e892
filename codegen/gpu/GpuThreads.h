//===- GpuThreads.h - Teams of threads, phases and folds --------*- C++ -*-===//
//
// GpuKernel.h defines the terms and the invariants.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/kernel/ElementEmitter.h"

namespace dpc::codegen {

/// The number of threads in a warp. They exchange values without memory.
inline constexpr int64_t kWarp = 32;
/// The number of threads in a block that runs an elementwise stage or several
/// small teams.
inline constexpr int64_t kBlock = 256;
/// The maximum number of blocks of an elementwise stage, more than any device
/// runs at once. Larger stages loop.
inline constexpr int64_t kMaxBlocks = 2048;

/// The threads that work together on one row, or on one part of a reduction.
struct TeamShape {
  int64_t threads = kBlock; ///< per team: 1, kWarp, or a multiple of kWarp
  int64_t perBlock = 1;     ///< teams per block; 1 if a team has several warps
};

/// The largest team for `size` elements in which no thread is idle.
TeamShape teamFor(int64_t size, int64_t width);

/// Returns the number of elements per vector, which divides `size`.
int64_t vectorWidth(const KernelSpec &spec, int64_t size);

struct Team {
  TeamShape shape;
  int64_t sharedBytes = 0; ///< bytes per block, for folds
  bool inPhase = false;
  bool hasStored = false;    ///< a thread stored since the last barrier
  bool needsBarrier = false; ///< the next load needs a barrier first
};

/// A thread of an elementwise stage. Each team of this stage is a block.
struct GridThread {
  Value team, thread;
  int64_t teams = 0;
};

/// The virtual functions differ between PTX and its emulation.
class GpuThreads : public LoopTarget {
public:
  using ThreadBody = std::function<Values(Value)>;

  static std::unique_ptr<GpuThreads> create(ElementEmitter &b);

  Values rowFold(const RowFold &fold, int64_t size, Value limit,
                 const ColumnBody &body) override;
  void rowLoop(int64_t size, Value limit,
               const std::function<void(Index)> &body) override;
  void restLoop(int64_t size, Value limit, const LoopBody &body) override;
  void once(const std::function<void()> &body) override;
  void nest(const Nest &nest, const ElementsBody &elements) override;
  void beforeLoad() override;
  bool keepsStore(Value scalar, const MemoryRef &memory,
                  ArrayRef<Index> indices) override;

  /// Emits code in which threads differ; the argument of `body` is their index.
  void phase(const LoopBody &body);
  /// Emits a phase that combines the values computed by the threads.
  Values fold(ArrayRef<Type> types, const Combine &combine,
              const ThreadBody &body);
  /// Visits the columns of a row that belong to `thread`, in vectors.
  Values threadColumns(Value thread, int64_t size, Value limit, ValueRange init,
                       const ColumnBody &body);
  /// Emits the stores of `body` after all of its computations.
  void storeTogether(const std::function<void()> &body);
  virtual void forTeams(int64_t teams, const LoopBody &body) = 0;

  Team team;
  GridThread grid;

protected:
  explicit GpuThreads(ElementEmitter &b) : b(b) {}

  virtual void forThreads(const LoopBody &body) = 0;
  virtual void inFirstThread(const std::function<void()> &body) = 0;
  /// Makes the stores of each thread visible to the team.
  virtual void synchronize() = 0;
  /// Returns, for each type, the value of `body` in each thread: one SSA value
  /// in PTX, an array in the emulation.
  virtual Values partsOf(ArrayRef<Type> types, const ThreadBody &body) = 0;
  virtual Values combineParts(Values parts, ArrayRef<Type> types,
                              const Combine &combine) = 0;
  void barrier();

  ElementEmitter &b;

private:
  void enterPhase();
  void leavePhase();

  struct KeptStore {
    Value scalar;
    MemoryRef memory;
    Indices indices;
  };
  std::vector<KeptStore> *kept = nullptr; ///< in storeTogether()
};

std::unique_ptr<GpuThreads> createPtxThreads(ElementEmitter &b);
std::unique_ptr<GpuThreads> createEmulatedThreads(ElementEmitter &b);

} // namespace dpc::codegen
