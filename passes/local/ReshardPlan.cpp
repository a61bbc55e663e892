//===- ReshardPlan.cpp - Cheapest way between two shardings ---------------===//
#include "passes/local/ReshardPlan.h"

#include <map>
#include <mutex>
#include <queue>
#include <set>

namespace dpc {
namespace {

// Prices of a step besides its bytes. Small against any real traffic; they
// only order plans that send (nearly) the same.
constexpr double kStepPrice = 512;
constexpr double kLocalStepPrice = 1;
constexpr double kCopyPricePerByte = 1e-3;
/// Outer axes tend to cross slower links: of plans that send the same, the one
/// that sends more over inner axes. Per byte and axis that is further out.
constexpr double kOuterPrice = 0.01;
/// More states than this and the search settles for the best seen chain.
constexpr size_t kMaxStates = 20000;

using Axes = llvm::SmallVector<int64_t, 2>;
/// A piece of a dimension as digits of its index: the factor with `inner`
/// elements inside it and size * inner = `outer`.
struct Range {
  int64_t dim, outer, inner;
  bool operator==(const Range &) const = default;
  bool operator<(const Range &o) const {
    return std::tie(dim, outer, inner) < std::tie(o.dim, o.outer, o.inner);
  }
};

int64_t sizeOf(const DimFactors &factors) {
  int64_t size = 1;
  for (const Factor &factor : factors)
    size *= factor.size;
  return size;
}

/// The canonical form, in which a dimension of one element has no factors.
DimFactors normalize(MeshAttr mesh, const DimFactors &factors) {
  DimFactors result = canonicalize(mesh, factors);
  if (result.front() == Factor{1, {}})
    result.clear();
  return result;
}

/// Also drops axes of size 1, which place nothing.
void normalize(ShardingSpec &spec) {
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

/// A value that is equal exactly when two normalized specs are.
std::vector<int64_t> keyOf(const ShardingSpec &spec) {
  std::vector<int64_t> key;
  for (const DimFactors &dim : spec.dims) {
    key.push_back(-1);
    for (const Factor &factor : dim) {
      key.push_back(factor.size);
      key.push_back(-2 - static_cast<int64_t>(factor.axes.size()));
      key.insert(key.end(), factor.axes.begin(), factor.axes.end());
    }
  }
  for (const PartialAxis &partial : spec.partial) {
    key.push_back(-100 - partial.axis);
    key.push_back(static_cast<int64_t>(partial.kind));
  }
  return key;
}

double localBytes(const ShardingSpec &spec, int64_t elementBytes) {
  double bytes = static_cast<double>(elementBytes);
  for (const DimFactors &dim : spec.dims)
    for (const Factor &factor : dim)
      bytes *= static_cast<double>(
          localFactorSize(spec.mesh, factor.size, factor.axes));
  return bytes;
}

/// Position of factor `index` of dimension `dim` among all factors.
int64_t flatPosition(const ShardingSpec &spec, int64_t dim, int64_t index) {
  int64_t position = index;
  for (int64_t d = 0; d < dim; ++d)
    position += spec.dims[d].size();
  return position;
}

Factor &factorAt(ShardingSpec &spec, int64_t position) {
  for (DimFactors &dim : spec.dims) {
    if (position < static_cast<int64_t>(dim.size()))
      return dim[position];
    position -= dim.size();
  }
  llvm_unreachable("factor position out of range");
}

/// Cuts `spec` so that `range` is a factor of its own; returns the factor's
/// index in its dimension, or nullopt when that is not possible.
std::optional<int64_t> isolate(ShardingSpec &spec, const Range &range) {
  DimFactors &dim = spec.dims[range.dim];
  int64_t size = sizeOf(dim);
  if (size % range.outer || range.outer % range.inner)
    return std::nullopt;
  auto parts = splitFactors(
      spec.mesh, dim,
      {size / range.outer, range.outer / range.inner, range.inner});
  if (!parts)
    return std::nullopt;
  DimFactors middle = normalize(spec.mesh, (*parts)[1]);
  if (middle.size() > 1)
    return std::nullopt;
  if (middle.empty())
    middle.push_back({range.outer / range.inner, {}});
  DimFactors outer = normalize(spec.mesh, (*parts)[0]);
  DimFactors inner = normalize(spec.mesh, (*parts)[2]);
  dim = outer;
  int64_t index = dim.size();
  dim.push_back(middle.front());
  dim.append(inner.begin(), inner.end());
  return index;
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Where the search stands: a normalized spec, and the step that led there.
struct Node {
  ShardingSpec spec;
  double price = 0;
  int64_t parent = -1;
  std::optional<ReshardStep> step = std::nullopt;
  bool done = false;
};

class Planner {
public:
  Planner(const ShardingSpec &from, const ShardingSpec &to,
          int64_t elementBytes);
  std::optional<std::vector<ReshardStep>> run(std::string &why);

private:
  void collectFixedAxes();
  void collectRanges(const ShardingSpec &spec);
  void expand(int64_t id);
  void expandReductions(int64_t id);
  void expandSlices(int64_t id);
  void expandFactors(int64_t id);
  void gather(int64_t id, const ShardingSpec &spec, int64_t dim, int64_t index,
              size_t count);
  void allToAll(int64_t id, const Range &source, const Range &target,
                size_t count);
  void scatter(int64_t id, const ShardingSpec &reduced, const Axes &axes,
               ReduceKind kind);
  void visit(int64_t parent, ReshardStep step);
  bool isRank(int64_t axis) const { return axis != microBatch; }

  MeshAttr mesh;
  ShardingSpec start, goal;
  std::vector<int64_t> goalKey;
  int64_t elementBytes;
  int64_t microBatch = -1;
  std::set<int64_t> fixed;
  std::set<Range> ranges;
  std::vector<Node> nodes;
  std::map<std::vector<int64_t>, int64_t> known;
  std::priority_queue<std::pair<double, int64_t>,
                      std::vector<std::pair<double, int64_t>>, std::greater<>>
      queue;
};

Planner::Planner(const ShardingSpec &from, const ShardingSpec &to,
                 int64_t elementBytes)
    : mesh(from.mesh), start(from), goal(to), elementBytes(elementBytes) {
  normalize(start);
  normalize(goal);
  goalKey = keyOf(goal);
  if (std::optional<int64_t> axis = mesh.findAxis(kMicroBatchAxis))
    microBatch = *axis;
  collectFixedAxes();
  collectRanges(start);
  collectRanges(goal);
}

/// Axes that split the same factors in the same order in both stay put.
void Planner::collectFixedAxes() {
  for (auto [a, b] : llvm::zip(start.dims, goal.dims)) {
    int64_t outerA = 1, sizeA = sizeOf(a);
    for (const Factor &fa : a) {
      int64_t outerB = 1;
      for (const Factor &fb : b) {
        if (outerA == outerB && fa == fb && sizeA == sizeOf(b))
          fixed.insert(fa.axes.begin(), fa.axes.end());
        outerB *= fb.size;
      }
      outerA *= fa.size;
    }
  }
}

/// Factors that some state may split: those of both ends, whole dimensions.
void Planner::collectRanges(const ShardingSpec &spec) {
  for (auto [d, dim] : llvm::enumerate(spec.dims)) {
    int64_t outer = sizeOf(dim);
    if (dim.size() < 2 && outer > 1)
      ranges.insert({static_cast<int64_t>(d), outer, 1});
    for (const Factor &factor : dim) {
      ranges.insert({static_cast<int64_t>(d), outer, outer / factor.size});
      outer /= factor.size;
    }
  }
}

/// Fills in the step's bytes.
void countBytes(ReshardStep &step, double before, double after) {
  double pieces = static_cast<double>(numPieces(step.before.mesh, step.axes));
  double share = (pieces - 1) / pieces;
  switch (step.kind) {
  case ReshardStepKind::accumulate:
  case ReshardStepKind::rankSlice:
    return;
  case ReshardStepKind::allReduce:
    step.fullBytes = before;
    step.sentBytes = 2 * share * before;
    return;
  case ReshardStepKind::allGather:
    step.fullBytes = pieces * before;
    break;
  case ReshardStepKind::reduceScatter:
    step.fullBytes = pieces * after;
    break;
  case ReshardStepKind::allToAll: {
    // The factor that gains axes is padded to a multiple of the pieces.
    const Factor &gained = factorAt(step.after, step.target);
    const Factor &lost = factorAt(step.before, step.target);
    MeshAttr mesh = step.before.mesh;
    double padded =
        pieces * localFactorSize(mesh, gained.size, gained.axes) /
        static_cast<double>(localFactorSize(mesh, lost.size, lost.axes));
    step.fullBytes = before * padded;
    break;
  }
  }
  step.sentBytes = share * step.fullBytes;
}

void Planner::visit(int64_t parent, ReshardStep step) {
  double before = localBytes(step.before, elementBytes);
  double after = localBytes(step.after, elementBytes);
  countBytes(step, before, after);
  double outer = 0;
  for (int64_t axis : step.axes)
    outer = std::max(outer, double(mesh.getSizes().size() - axis));
  double price = nodes[parent].price +
                 step.sentBytes * (1 + kOuterPrice * outer) +
                 (step.sentBytes > 0 ? kStepPrice : kLocalStepPrice) +
                 kCopyPricePerByte * (before + after);
  ShardingSpec next = step.after;
  normalize(next);
  auto [it, inserted] = known.try_emplace(keyOf(next), nodes.size());
  if (inserted) {
    if (nodes.size() >= kMaxStates && it->first != goalKey) {
      known.erase(it);
      return;
    }
    nodes.push_back({next, price, parent, std::move(step)});
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

/// Partial axes turned into a split of each possible factor.
void Planner::scatter(int64_t id, const ShardingSpec &reduced, const Axes &axes,
                      ReduceKind kind) {
  ShardingSpec original = nodes[id].spec;
  for (const Range &range : ranges) {
    ReshardStep step{ReshardStepKind::reduceScatter, axes, kind};
    step.before = original;
    std::optional<int64_t> index = isolate(step.before, range);
    if (!index)
      continue;
    step.target = flatPosition(step.before, range.dim, *index);
    step.after = step.before;
    step.after.partial = reduced.partial;
    factorAt(step.after, step.target).axes.append(axes.begin(), axes.end());
    visit(id, std::move(step));
  }
}

void Planner::expandReductions(int64_t id) {
  ShardingSpec spec = nodes[id].spec;
  llvm::SmallVector<PartialAxis> open;
  for (const PartialAxis &partial : spec.partial) {
    if (goal.partialOver(partial.axis) == partial.kind)
      continue;
    if (partial.axis == microBatch) {
      // Summing over time comes first: what follows runs once a step.
      ReshardStep step{
          ReshardStepKind::accumulate, {partial.axis}, partial.kind};
      step.before = step.after = spec;
      llvm::erase(step.after.partial, partial);
      return visit(id, std::move(step));
    }
    open.push_back(partial);
  }
  for (unsigned mask = 1; mask < (1u << open.size()); ++mask) {
    Axes axes;
    ShardingSpec reduced = spec;
    std::optional<ReduceKind> kind;
    bool mixed = false;
    for (auto [i, partial] : llvm::enumerate(open)) {
      if (!(mask >> i & 1))
        continue;
      mixed |= kind && *kind != partial.kind;
      kind = partial.kind;
      axes.push_back(partial.axis);
      llvm::erase(reduced.partial, partial);
    }
    if (mixed)
      continue;
    ReshardStep step{ReshardStepKind::allReduce, axes, *kind};
    step.before = spec;
    step.after = reduced;
    visit(id, std::move(step));
    do {
      scatter(id, reduced, axes, *kind);
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
}

void Planner::expandSlices(int64_t id) {
  ShardingSpec spec = nodes[id].spec;
  for (int64_t axis = 0, e = mesh.getSizes().size(); axis < e; ++axis) {
    // Splitting only pays for axes that the goal splits (normalized: none of
    // size 1).
    if (spec.usesAxis(axis) || !goal.splitsAxis(axis))
      continue;
    for (const Range &range : ranges) {
      ReshardStep step{ReshardStepKind::rankSlice, {axis}};
      step.before = spec;
      std::optional<int64_t> index = isolate(step.before, range);
      if (!index)
        continue;
      step.target = flatPosition(step.before, range.dim, *index);
      step.after = step.before;
      factorAt(step.after, step.target).axes.push_back(axis);
      visit(id, std::move(step));
    }
  }
}

void Planner::gather(int64_t id, const ShardingSpec &spec, int64_t dim,
                     int64_t index, size_t count) {
  ReshardStep step{ReshardStepKind::allGather, {}};
  step.before = step.after = spec;
  Axes &axes = step.after.dims[dim][index].axes;
  step.axes.assign(axes.end() - count, axes.end());
  axes.truncate(axes.size() - count);
  step.source = flatPosition(spec, dim, index);
  visit(id, std::move(step));
}

void Planner::allToAll(int64_t id, const Range &source, const Range &target,
                       size_t count) {
  ReshardStep step{ReshardStepKind::allToAll, {}};
  step.before = nodes[id].spec;
  std::optional<int64_t> to = isolate(step.before, target);
  // Isolating the target may have cut the source: look it up after it.
  std::optional<int64_t> from;
  int64_t outer = sizeOf(step.before.dims[source.dim]);
  for (auto [i, factor] : llvm::enumerate(step.before.dims[source.dim])) {
    if (outer == source.outer && outer / factor.size == source.inner)
      from = i;
    outer /= factor.size;
  }
  if (!to || !from || (source.dim == target.dim && *to == *from))
    return;
  step.source = flatPosition(step.before, source.dim, *from);
  step.target = flatPosition(step.before, target.dim, *to);
  step.after = step.before;
  Axes &lost = factorAt(step.after, step.source).axes;
  if (lost.size() < count)
    return;
  step.axes.assign(lost.end() - count, lost.end());
  lost.truncate(lost.size() - count);
  factorAt(step.after, step.target)
      .axes.append(step.axes.begin(), step.axes.end());
  visit(id, std::move(step));
}

/// Gathers and moves of the innermost axes of every factor.
void Planner::expandFactors(int64_t id) {
  ShardingSpec spec = nodes[id].spec;
  for (auto [d, dim] : llvm::enumerate(spec.dims)) {
    int64_t outer = sizeOf(dim);
    for (auto [i, factor] : llvm::enumerate(dim)) {
      Range source{static_cast<int64_t>(d), outer, outer / factor.size};
      outer /= factor.size;
      for (size_t count = 1; count <= factor.axes.size(); ++count) {
        int64_t axis = factor.axes[factor.axes.size() - count];
        if (!isRank(axis) || fixed.count(axis))
          break;
        gather(id, spec, d, i, count);
        for (const Range &target : ranges)
          allToAll(id, source, target, count);
      }
    }
  }
}

void Planner::expand(int64_t id) {
  ShardingSpec spec = nodes[id].spec;
  bool accumulates =
      microBatch >= 0 && spec.partialOver(microBatch) &&
      spec.partialOver(microBatch) != goal.partialOver(microBatch);
  expandReductions(id);
  if (accumulates)
    return;
  expandSlices(id);
  expandFactors(id);
}

/// The digits of factor `position` among all factors.
Range rangeAt(const ShardingSpec &spec, int64_t position) {
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

/// Slices of one factor that follow each other become one: no buffer between.
/// Not those of micro-batches, which run later than the rest.
void mergeSlices(std::vector<ReshardStep> &steps, int64_t microBatch) {
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

std::optional<std::vector<ReshardStep>> Planner::run(std::string &why) {
  for (const PartialAxis &partial : goal.partial) {
    if (start.partialOver(partial.axis) != partial.kind) {
      why = "the result is partial over '" +
            mesh.getNames()[partial.axis].str() + "' and the operand is not";
      return std::nullopt;
    }
  }
  nodes.push_back({start});
  known[keyOf(start)] = 0;
  queue.push({0, 0});
  while (!queue.empty()) {
    auto [price, id] = queue.top();
    queue.pop();
    if (nodes[id].done)
      continue;
    nodes[id].done = true;
    if (keyOf(nodes[id].spec) != goalKey) {
      expand(id);
      continue;
    }
    std::vector<ReshardStep> steps;
    for (int64_t at = id; nodes[at].step; at = nodes[at].parent)
      steps.push_back(*nodes[at].step);
    std::reverse(steps.begin(), steps.end());
    mergeSlices(steps, microBatch);
    return steps;
  }
  why = microBatch >= 0 && start.splitsAxis(microBatch)
            ? "a split over micro-batches ('mb') can only end in a sum over "
              "them (not supported)"
            : "no chain of collectives leads there";
  return std::nullopt;
}

} // namespace

llvm::StringRef stringifyReshardStepKind(ReshardStepKind kind) {
  switch (kind) {
  case ReshardStepKind::accumulate:
    return "accumulate";
  case ReshardStepKind::rankSlice:
    return "rank_slice";
  case ReshardStepKind::allReduce:
    return "all_reduce";
  case ReshardStepKind::reduceScatter:
    return "reduce_scatter";
  case ReshardStepKind::allGather:
    return "all_gather";
  case ReshardStepKind::allToAll:
    return "all_to_all";
  }
  llvm_unreachable("unknown step");
}

int64_t numPieces(MeshAttr mesh, llvm::ArrayRef<int64_t> axes) {
  return productOfAxes(mesh, axes);
}

std::optional<std::vector<ReshardStep>> planReshard(const ShardingSpec &from,
                                                    const ShardingSpec &to,
                                                    int64_t elementBytes,
                                                    std::string &why) {
  return Planner(from, to, elementBytes).run(why);
}

const std::vector<ReshardStep> *ReshardPlans::find(const ShardingSpec &from,
                                                   const ShardingSpec &to,
                                                   int64_t elementBytes,
                                                   std::string &why) {
  std::vector<int64_t> key = keyOf(from), toKey = keyOf(to);
  key.push_back(-1000);
  key.insert(key.end(), toKey.begin(), toKey.end());
  key.push_back(elementBytes);
  auto [it, isNew] = plans.try_emplace(std::move(key));
  if (isNew)
    it->second = planReshard(from, to, elementBytes, why);
  return it->second ? &*it->second : nullptr;
}

double ReshardCost::sentBytes() const {
  double bytes = 0;
  for (const ReshardTraffic &item : traffic)
    bytes += item.sentBytes;
  return bytes;
}

ReshardCost reshardTraffic(const ShardingSpec &from, const ShardingSpec &to,
                           int64_t elementBytes) {
  static std::mutex mutex;
  static std::map<std::vector<int64_t>, ReshardCost> cache;
  std::vector<int64_t> key = keyOf(from), toKey = keyOf(to);
  key.push_back(-1000);
  key.insert(key.end(), toKey.begin(), toKey.end());
  key.push_back(elementBytes);
  key.insert(key.end(), from.mesh.getSizes().begin(),
             from.mesh.getSizes().end());
  key.push_back(from.mesh.findAxis(kMicroBatchAxis).value_or(-1));
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = cache.find(key);
    if (it != cache.end())
      return it->second;
  }
  ReshardCost cost;
  std::string why;
  auto steps = planReshard(from, to, elementBytes, why);
  cost.feasible = steps.has_value();
  if (steps)
    for (const ReshardStep &step : *steps)
      if (step.fullBytes > 0)
        cost.traffic.push_back(
            {step.kind, step.axes, step.fullBytes, step.sentBytes});
  std::lock_guard<std::mutex> lock(mutex);
  return cache.try_emplace(std::move(key), cost).first->second;
}

ReshardCost reshardTraffic(ShardingAttr from, ShardingAttr to,
                           llvm::ArrayRef<int64_t> shape,
                           int64_t elementBytes) {
  return reshardTraffic(ShardingSpec::get(from, shape),
                        ShardingSpec::get(to, shape), elementBytes);
}

} // namespace dpc
