//===- ReshardSearch.h - Dijkstra over shardings ----------------*- C++ -*-===//
//
// Private to ReshardPlan.cpp. A state of the search is a list of numbers: one
// for the factors of each dimension (see DimTable), and one for the partial
// axes. A step changes one or two of them.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_SHARD_RESHARDSEARCH_H
#define DPC_PASSES_SHARD_RESHARDSEARCH_H

#include "passes/shard/ReshardPlan.h"

#include <map>
#include <queue>

namespace dpc {

/// The factor of a dimension that has `inner` elements inside it; size * inner
/// = `outer`.
struct FactorRange {
  int64_t dim, outer, inner;
  auto operator<=>(const FactorRange &) const = default;
};

/// Numbers lists of factors, and keeps their properties.
class DimTable {
public:
  using Id = int32_t;
  explicit DimTable(MeshAttr mesh) : mesh(mesh) {}

  /// The number of `factors`; equal lists have equal numbers.
  Id add(const DimFactors &factors);
  const DimFactors &operator[](Id id) const { return entries[id].factors; }
  /// Elements of the whole dimension, and of one rank.
  int64_t size(Id id) const { return entries[id].size; }
  double localSize(Id id) const { return entries[id].localSize; }
  /// A bit for each axis that splits one of the factors.
  uint64_t axes(Id id) const { return entries[id].axes; }

  /// The canonical form; a dimension of one element has no factors.
  Id normalized(Id id);

  /// A list and the place of a factor in it; -1 if there is none.
  struct Cut {
    Id id = -1;
    int64_t index = -1;
  };
  /// `id` with a factor of its own for outer / inner, if that is possible.
  Cut isolate(Id id, int64_t outer, int64_t inner);
  /// `cut.id` with `axes` appended to the axes of factor `cut.index`.
  Id withAxes(Cut cut, llvm::ArrayRef<int64_t> axes);
  /// `cut.id` without the innermost `count` axes of factor `cut.index`.
  Id withoutAxes(Cut cut, size_t count);

private:
  struct Entry {
    DimFactors factors;
    int64_t size = 1;
    double localSize = 1;
    uint64_t axes = 0;
    Id normalized = -1;
  };
  Cut makeCut(Id id, int64_t outer, int64_t inner);

  MeshAttr mesh;
  std::vector<Entry> entries;
  std::map<llvm::SmallVector<int64_t, 8>, Id> known;
  std::map<std::tuple<Id, int64_t, int64_t>, Cut> cuts;
};

/// The search of planReshard.
class ReshardSearch {
public:
  ReshardSearch(const ShardingSpec &from, const ShardingSpec &to,
                int64_t elementBytes);
  /// May be called once.
  std::optional<std::vector<ReshardStep>> run(std::string &why);

private:
  using Axes = llvm::SmallVector<int64_t, 2>;
  using Partials = llvm::SmallVector<PartialAxis, 2>;
  /// Numbers of the dimensions, then an index of `partials`.
  using State = llvm::SmallVector<DimTable::Id, 6>;

  /// A ReshardStep in numbers.
  struct Step {
    ReshardStepKind kind;
    Axes axes;
    ReduceKind reduction = ReduceKind::sum;
    int64_t source = -1, target = -1;
    State before = {}, after = {};
    double fullBytes = 0, sentBytes = 0;
  };
  /// A normalized state that the search has reached, and the step to it.
  struct Node {
    State state;
    double price = 0;
    int64_t parent = -1;
    Step step = {};
    bool done = false;
  };

  State stateOf(const ShardingSpec &spec);
  ShardingSpec specOf(const State &state) const;
  ReshardStep stepOf(const Step &step) const;
  int32_t addPartials(const Partials &list);
  const Partials &partialsOf(const State &state) const {
    return partials[state.back()];
  }
  void collectFixedAxes();
  void collectRanges(const ShardingSpec &spec);
  double localBytes(const State &state) const;
  /// The index among all factors of factor `index` of dimension `dim`.
  int64_t flatPosition(const State &state, int64_t dim, int64_t index) const;
  void countBytes(Step &step, double before, double after) const;
  double allToAllPadding(const Step &step) const;
  void expand(int64_t id);
  void expandReductions(int64_t id);
  void expandSlices(int64_t id);
  void expandFactors(int64_t id);
  void split(int64_t id, Step step, const FactorRange &range,
             int32_t partialsAfter);
  void gather(int64_t id, int64_t dim, int64_t index, size_t count);
  void allToAll(int64_t id, const FactorRange &source,
                const FactorRange &target, size_t count);
  void scatter(int64_t id, int32_t reduced, const Axes &axes, ReduceKind kind);
  void visit(int64_t parent, Step step);
  std::vector<ReshardStep> stepsTo(int64_t id) const;
  bool isFree(const State &state, int64_t axis) const;

  MeshAttr mesh;
  ShardingSpec start, goal;
  int64_t elementBytes;
  int64_t microBatch = -1;
  DimTable dims;
  std::vector<Partials> partials;
  State goalState;
  uint64_t fixedAxes = 0, goalAxes = 0;
  std::vector<FactorRange> ranges; ///< Sorted.
  std::vector<Node> nodes;
  std::map<State, int64_t> known;
  std::priority_queue<std::pair<double, int64_t>,
                      std::vector<std::pair<double, int64_t>>, std::greater<>>
      queue;
};

} // namespace dpc

#endif // DPC_PASSES_SHARD_RESHARDSEARCH_H
