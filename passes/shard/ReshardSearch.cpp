//===- ReshardSearch.cpp - Dijkstra over shardings ------------------------===//
#include "passes/shard/DimTable.h"
#include "passes/shard/ReshardPlan.h"

#include <queue>

namespace dpc {

// Costs of a step in addition to its bytes. They are small compared with real
// traffic, and decide between plans that send about the same number of bytes.
static constexpr double kStepPrice = 512;
static constexpr double kLocalStepPrice = 1;
static constexpr double kCopyPricePerByte = 1e-3;
/// The cost per byte, multiplied by the distance from the innermost axis,
/// because outer axes usually cross slower links.
static constexpr double kOuterPrice = 0.01;
/// After this many states, the best path found so far is returned.
static constexpr size_t kMaxStates = 20000;
/// Makes the factors canonical and removes axes of size 1.
static void normalize(ShardingSpec &spec) {
  llvm::ArrayRef<int64_t> sizes = spec.mesh.getSizes();
  for (DimFactors &dim : spec.dims) {
    for (Factor &factor : dim)
      llvm::erase_if(factor.axes,
                     [&](int64_t axis) { return sizes[axis] == 1; });
    dim = normalize(spec.mesh, dim);
  }
  llvm::erase_if(spec.partial, [&](const PartialAxis &partial) {
    return sizes[partial.axis] == 1;
  });
  llvm::sort(spec.partial, [](const PartialAxis &a, const PartialAxis &b) {
    return a.axis < b.axis;
  });
}

static Factor &factorAt(ShardingSpec &spec, int64_t position) {
  for (DimFactors &dim : spec.dims) {
    if (position < static_cast<int64_t>(dim.size()))
      return dim[position];
    position -= dim.size();
  }
  llvm_unreachable("factor position out of range");
}

/// Returns the range of factor `position`, counted over all dimensions.
static FactorRange rangeAt(const ShardingSpec &spec, int64_t position) {
  for (auto [d, dim] : llvm::enumerate(spec.dims)) {
    int64_t outer = sizeOf(dim);
    for (const Factor &factor : dim) {
      if (position-- == 0)
        return {static_cast<int64_t>(d), outer, outer / factor.size};
      outer /= factor.size;
    }
  }
  llvm_unreachable("factor position out of range");
}

/// Merges consecutive slices of one factor, which saves a buffer. Slices over
/// micro-batches are not merged, because they run later.
static void mergeSlices(std::vector<ReshardStep> &steps, int64_t microBatch) {
  std::vector<ReshardStep> merged;
  for (ReshardStep &step : steps) {
    ReshardStep *last = merged.empty() ? nullptr : &merged.back();
    if (!last || step.kind != ReshardStepKind::rankSlice ||
        last->kind != ReshardStepKind::rankSlice ||
        llvm::is_contained(last->axes, microBatch) ||
        llvm::is_contained(step.axes, microBatch) ||
        rangeAt(last->before, last->target) !=
            rangeAt(step.before, step.target)) {
      merged.push_back(std::move(step));
      continue;
    }
    last->axes.append(step.axes);
    factorAt(last->after, last->target).axes.append(step.axes);
  }
  steps = std::move(merged);
}

namespace {

/// A state of the search is a list of ids: one for the factors of each
/// dimension (see DimTable), and one for the partial axes. A step changes one
/// or two of them.
class ReshardSearch {
public:
  ReshardSearch(const ShardingSpec &from, const ShardingSpec &to,
                int64_t elementBytes)
      : mesh(from.mesh), start(from), goal(to), elementBytes(elementBytes),
        dims(from.mesh) {
    normalize(start);
    normalize(goal);
    goalState = stateOf(goal);
    for (DimTable::Id id : llvm::ArrayRef(goalState).drop_back())
      goalAxes |= dims.axes(id);
    if (std::optional<int64_t> axis = mesh.findAxis(kMicroBatchAxis))
      microBatch = *axis;
    collectFixedAxes();
    collectRanges(start);
    collectRanges(goal);
    llvm::sort(ranges);
    ranges.erase(std::unique(ranges.begin(), ranges.end()), ranges.end());
  }

  std::optional<std::vector<ReshardStep>> run(std::string &why) {
    for (const PartialAxis &partial : goal.partial) {
      if (start.partialOver(partial.axis) != partial.kind) {
        why = "the result is partial over '" +
              mesh.getNames()[partial.axis].str() + "' and the operand is not";
        return std::nullopt;
      }
    }
    nodes.push_back({stateOf(start)});
    known[nodes.front().state] = 0;
    queue.push({0, 0});
    while (!queue.empty()) {
      int64_t id = queue.top().second;
      queue.pop();
      if (nodes[id].done)
        continue;
      nodes[id].done = true;
      if (nodes[id].state == goalState)
        return stepsTo(id);
      expand(id);
    }
    why = microBatch >= 0 && start.splitsAxis(microBatch)
              ? "a split over micro-batches ('mb') can only end in a sum over "
                "them (not supported)"
              : "no sequence of collectives converts one sharding to the other";
    return std::nullopt;
  }

private:
  using Axes = llvm::SmallVector<int64_t, 2>;
  using Partials = llvm::SmallVector<PartialAxis, 2>;
  /// The ids of the dimensions, then an index of `partials`.
  using State = llvm::SmallVector<DimTable::Id, 6>;

  /// A ReshardStep on ids.
  struct Step {
    ReshardStepKind kind;
    Axes axes;
    ReduceKind reduction = ReduceKind::sum;
    int64_t source = -1, target = -1;
    State before = {}, after = {};
    double sentBytes = 0;
  };
  /// A normalized state that the search has reached, and the last step to it.
  struct Node {
    State state;
    double price = 0;
    int64_t parent = -1;
    Step step = {};
    bool done = false;
  };

  State stateOf(const ShardingSpec &spec) {
    State state;
    for (const DimFactors &dim : spec.dims)
      state.push_back(dims.add(dim));
    state.push_back(addPartials(spec.partial));
    return state;
  }

  ShardingSpec specOf(const State &state) const {
    ShardingSpec spec;
    spec.mesh = mesh;
    for (DimTable::Id id : llvm::ArrayRef(state).drop_back())
      spec.dims.push_back(dims[id]);
    spec.partial = partialsOf(state);
    spec.routed = start.routed;
    return spec;
  }

  ReshardStep stepOf(const Step &step) const {
    return {step.kind,          step.axes,     step.reduction,
            step.source,        step.target,   specOf(step.before),
            specOf(step.after), step.sentBytes};
  }

  int32_t addPartials(const Partials &list) {
    auto it = llvm::find(partials, list);
    if (it == partials.end())
      it = partials.insert(it, list);
    return it - partials.begin();
  }

  const Partials &partialsOf(const State &state) const {
    return partials[state.back()];
  }
  /// An axis that splits the same factor in both shardings is not moved.
  void collectFixedAxes() {
    for (auto [a, b] : llvm::zip(start.dims, goal.dims)) {
      int64_t outerA = 1, sizeA = sizeOf(a);
      for (const Factor &fa : a) {
        int64_t outerB = 1;
        for (const Factor &fb : b) {
          if (outerA == outerB && fa == fb && sizeA == sizeOf(b))
            for (int64_t axis : fa.axes)
              fixedAxes |= bitOf(axis);
          outerB *= fb.size;
        }
        outerA *= fa.size;
      }
    }
  }

  /// Adds the factors of `spec` and whole dimensions, which steps may split.
  void collectRanges(const ShardingSpec &spec) {
    for (auto [d, dim] : llvm::enumerate(spec.dims)) {
      int64_t outer = sizeOf(dim);
      if (outer == 0) // without elements
        continue;
      if (dim.size() < 2 && outer > 1)
        ranges.push_back({static_cast<int64_t>(d), outer, 1});
      for (const Factor &factor : dim) {
        ranges.push_back({static_cast<int64_t>(d), outer, outer / factor.size});
        outer /= factor.size;
      }
    }
  }

  double localBytes(const State &state) const {
    double bytes = static_cast<double>(elementBytes);
    for (DimTable::Id id : llvm::ArrayRef(state).drop_back())
      bytes *= dims.localSize(id);
    return bytes;
  }

  /// Converts factor `index` of `dim` to an index over all dimensions.
  int64_t flatPosition(const State &state, int64_t dim, int64_t index) const {
    for (int64_t d = 0; d < dim; ++d)
      index += dims[state[d]].size();
    return index;
  }

  /// `before` and `after` are the bytes of a rank's shards.
  double bytesSent(const Step &step, double before, double after) const {
    double pieces = static_cast<double>(productOfAxes(mesh, step.axes));
    double share = (pieces - 1) / pieces;
    switch (step.kind) {
    case ReshardStepKind::accumulate:
    case ReshardStepKind::rankSlice:
      return 0;
    case ReshardStepKind::allReduce:
      return 2 * share * before;
    case ReshardStepKind::allGather:
      return share * (pieces * before);
    case ReshardStepKind::reduceScatter:
      return share * (pieces * after);
    case ReshardStepKind::allToAll:
      return share * (before * allToAllPadding(step));
    }
    llvm_unreachable("unknown step");
  }

  /// Returns the ratio by which the step enlarges its input. Padding fills the
  /// factor that gains axes, up to a multiple of the number of parts.
  double allToAllPadding(const Step &step) const {
    int64_t position = step.target;
    size_t dim = 0;
    while (position >= static_cast<int64_t>(dims[step.after[dim]].size()))
      position -= dims[step.after[dim++]].size();
    const Factor &gained = dims[step.after[dim]][position];
    const Factor &lost = dims[step.before[dim]][position];
    return static_cast<double>(productOfAxes(mesh, step.axes)) *
           localFactorSize(mesh, gained.size, gained.axes) /
           static_cast<double>(localFactorSize(mesh, lost.size, lost.axes));
  }

  void expand(int64_t id) {
    std::optional<ReduceKind> pending;
    for (const PartialAxis &partial : partialsOf(nodes[id].state))
      if (partial.axis == microBatch)
        pending = partial.kind;
    bool accumulates =
        microBatch >= 0 && pending && pending != goal.partialOver(microBatch);
    expandReductions(id);
    if (accumulates)
      return;
    expandSlices(id);
    expandFactors(id);
  }

  void expandReductions(int64_t id) {
    State state = nodes[id].state;
    Partials all = partialsOf(state);
    Partials open;
    for (const PartialAxis &partial : all) {
      if (goal.partialOver(partial.axis) == partial.kind)
        continue;
      if (partial.axis == microBatch) {
        // Accumulation comes first, so that the rest of the reshard runs once
        // per training step instead of once per micro-batch.
        Step step{ReshardStepKind::accumulate, {partial.axis}, partial.kind};
        step.before = step.after = state;
        llvm::erase(all, PartialAxis(partial));
        step.after.back() = addPartials(all);
        return visit(id, std::move(step));
      }
      open.push_back(partial);
    }
    for (unsigned mask = 1; mask < (1u << open.size()); ++mask) {
      Axes axes;
      Partials left = all;
      std::optional<ReduceKind> kind;
      bool mixed = false;
      for (auto [i, partial] : llvm::enumerate(open)) {
        if (!(mask >> i & 1))
          continue;
        mixed |= kind && *kind != partial.kind;
        kind = partial.kind;
        axes.push_back(partial.axis);
        llvm::erase(left, partial);
      }
      if (mixed)
        continue;
      int32_t reduced = addPartials(left);
      Step step{ReshardStepKind::allReduce, axes, *kind};
      step.before = step.after = state;
      step.after.back() = reduced;
      visit(id, std::move(step));
      do {
        for (const FactorRange &range : ranges)
          split(id, Step{ReshardStepKind::reduceScatter, axes, *kind}, range,
                reduced);
      } while (std::next_permutation(axes.begin(), axes.end()));
    }
  }

  void expandSlices(int64_t id) {
    State state = nodes[id].state;
    for (int64_t axis = 0, e = mesh.getSizes().size(); axis < e; ++axis) {
      // A split over an axis that the goal does not have would be undone.
      if (!(goalAxes & bitOf(axis)) || !isFree(state, axis))
        continue;
      for (const FactorRange &range : ranges)
        split(id, Step{ReshardStepKind::rankSlice, {axis}}, range,
              state.back());
    }
  }

  void expandFactors(int64_t id) {
    State state = nodes[id].state;
    for (auto [d, dim] : llvm::enumerate(llvm::ArrayRef(state).drop_back())) {
      int64_t outer = dims.size(dim);
      for (size_t i = 0; i < dims[dim].size(); ++i) {
        // a copy, because `dims` grows
        Factor factor = dims[dim][i];
        FactorRange source{static_cast<int64_t>(d), outer, outer / factor.size};
        outer /= factor.size;
        for (size_t count = 1; count <= factor.axes.size(); ++count) {
          int64_t axis = factor.axes[factor.axes.size() - count];
          if (axis == microBatch || (fixedAxes & bitOf(axis)))
            break;
          gather(id, d, i, count);
          for (const FactorRange &target : ranges)
            allToAll(id, source, target, count);
        }
      }
    }
  }

  /// Adds the state in which the axes of `step` also split `range`.
  void split(int64_t id, Step step, const FactorRange &range,
             int32_t partialsAfter) {
    step.before = nodes[id].state;
    DimTable::Cut cut =
        dims.isolate(step.before[range.dim], range.outer, range.inner);
    if (cut.index < 0)
      return;
    step.before[range.dim] = cut.id;
    step.target = flatPosition(step.before, range.dim, cut.index);
    step.after = step.before;
    step.after.back() = partialsAfter;
    step.after[range.dim] = dims.withAxes(cut, step.axes);
    visit(id, std::move(step));
  }

  void gather(int64_t id, int64_t dim, int64_t index, size_t count) {
    Step step{ReshardStepKind::allGather, {}};
    step.before = step.after = nodes[id].state;
    DimTable::Cut cut{step.before[dim], index};
    const auto &axes = dims[cut.id][index].axes;
    step.axes.assign(axes.end() - count, axes.end());
    step.after[dim] = dims.withoutAxes(cut, count);
    step.source = flatPosition(step.before, dim, index);
    visit(id, std::move(step));
  }

  void allToAll(int64_t id, const FactorRange &source,
                const FactorRange &target, size_t count) {
    Step step{ReshardStepKind::allToAll, {}};
    step.before = nodes[id].state;
    DimTable::Cut to =
        dims.isolate(step.before[target.dim], target.outer, target.inner);
    if (to.index < 0)
      return;
    step.before[target.dim] = to.id;
    // Isolating the target may have cut the source, so find the source again.
    DimTable::Cut from{step.before[source.dim], -1};
    int64_t outer = dims.size(from.id);
    for (auto [i, factor] : llvm::enumerate(dims[from.id])) {
      if (outer == source.outer && outer / factor.size == source.inner)
        from.index = i;
      outer /= factor.size;
    }
    if (from.index < 0 || (source.dim == target.dim && to.index == from.index))
      return;
    const auto &lost = dims[from.id][from.index].axes;
    if (lost.size() < count)
      return;
    step.source = flatPosition(step.before, source.dim, from.index);
    step.target = flatPosition(step.before, target.dim, to.index);
    step.axes.assign(lost.end() - count, lost.end());
    step.after = step.before;
    step.after[source.dim] = dims.withoutAxes(from, count);
    to.id = step.after[target.dim];
    step.after[target.dim] = dims.withAxes(to, step.axes);
    visit(id, std::move(step));
  }

  void visit(int64_t parent, Step step) {
    double before = localBytes(step.before);
    double after = localBytes(step.after);
    step.sentBytes = bytesSent(step, before, after);
    double outer = 0;
    for (int64_t axis : step.axes)
      outer = std::max(outer, double(mesh.getSizes().size() - axis));
    double price = nodes[parent].price +
                   step.sentBytes * (1 + kOuterPrice * outer) +
                   (step.sentBytes > 0 ? kStepPrice : kLocalStepPrice) +
                   kCopyPricePerByte * (before + after);
    State next = step.after;
    for (DimTable::Id &id : llvm::MutableArrayRef(next).drop_back())
      id = dims.normalized(id);
    auto [it, inserted] = known.try_emplace(next, nodes.size());
    if (inserted) {
      if (nodes.size() >= kMaxStates && it->first != goalState) {
        known.erase(it);
        return;
      }
      nodes.push_back({std::move(next), price, parent, std::move(step)});
    } else {
      Node &node = nodes[it->second];
      if (node.done || node.price <= price)
        return;
      node.price = price;
      node.parent = parent;
      node.step = std::move(step);
    }
    queue.push({price, it->second});
  }

  std::vector<ReshardStep> stepsTo(int64_t id) const {
    std::vector<ReshardStep> steps;
    for (; nodes[id].parent >= 0; id = nodes[id].parent)
      steps.push_back(stepOf(nodes[id].step));
    std::reverse(steps.begin(), steps.end());
    mergeSlices(steps, microBatch);
    return steps;
  }

  /// Returns true if `axis` neither splits the state nor is partial.
  bool isFree(const State &state, int64_t axis) const {
    uint64_t bit = bitOf(axis);
    return llvm::none_of(
               llvm::ArrayRef(state).drop_back(),
               [&](DimTable::Id id) { return (dims.axes(id) & bit) != 0; }) &&
           llvm::none_of(partialsOf(state), [&](const PartialAxis &partial) {
             return partial.axis == axis;
           });
  }

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

} // namespace

std::optional<std::vector<ReshardStep>> searchReshard(const ShardingSpec &from,
                                                      const ShardingSpec &to,
                                                      int64_t elementBytes,
                                                      std::string &why) {
  return ReshardSearch(from, to, elementBytes).run(why);
}

} // namespace dpc
