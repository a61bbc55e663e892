//===- Factors.cpp - Factors of dimensions and their classes --------------===//
#include "passes/shard/Factors.h"

#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;
using namespace dpc;

using Sizes = SmallVector<int64_t, 2>;

void dpc::separateConstants(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(func.getBody().front())) {
    auto constant = dyn_cast<ConstantOp>(op);
    if (!isa<IotaOp>(op) && !(constant && constant.getValue().isSplat()))
      continue;
    OpBuilder builder(&op);
    for (OpOperand &use : llvm::make_early_inc_range(op.getUses()))
      if (!op.hasOneUse())
        use.set(builder.clone(op)->getResult(0));
  }
}

// Factors are refined until nothing changes. Refinement ends, because it only
// adds boundaries, and the divisors of a dimension limit their number.

static Sizes initialFactors(int64_t size) {
  return size == 1 ? Sizes{} : Sizes{size};
}

static void addValue(FactorTables &tables, Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  tables.valueIndex[value] = tables.values.size();
  ValueFactors &factors = tables.values.emplace_back();
  for (int64_t size : type.getShape())
    factors.dims.push_back(initialFactors(size));
}

static void addOp(FactorTables &tables, Operation &op, ShardingRule made) {
  tables.opIndex[&op] = tables.ops.size();
  OpFactors &factors = tables.ops.emplace_back();
  factors.op = &op;
  factors.rule = std::move(made);
  const ShardingRule &rule = factors.rule;
  for (const IterDim &dim : rule.dims)
    factors.dims.push_back(initialFactors(dim.size));
  factors.blocked.assign(rule.dims.size(), false);
  if (auto cuts = op.getAttrOfType<DenseI64ArrayAttr>(attr::kRingFactors))
    factors.dims[rule.operands[0][2].front()].assign(cuts.asArrayRef().begin(),
                                                     cuts.asArrayRef().end());
  assert(rule.operands.size() == op.getNumOperands() &&
         rule.results.size() == op.getNumResults() && "a map per tensor");
  for (ValueRange range :
       {ValueRange(op.getOperands()), ValueRange(op.getResults())})
    for (Value value : range)
      factors.values.push_back(tables.valueIndex.lookup(value));
}

/// Returns the coarsest factors that have the boundaries of both `a` and `b`,
/// or nullopt if these boundaries do not divide each other.
static std::optional<Sizes> common(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  llvm::SmallVector<int64_t, 8> cuts;
  for (ArrayRef<int64_t> list : {a, b}) {
    int64_t product = 1;
    for (int64_t size : list)
      cuts.push_back(product *= size);
  }
  llvm::sort(cuts);
  Sizes result;
  int64_t before = 1;
  for (int64_t cut : cuts) {
    if (before == 0 || cut % before != 0)
      return std::nullopt;
    if (cut != before)
      result.push_back(cut / before);
    before = cut;
  }
  return result;
}

/// Returns true if the factors of the dimensions in `map`, one dimension after
/// the other, are `sizes`, and no size is 0.
static bool isAligned(ArrayRef<Sizes> dims, const DimMap &map,
                      ArrayRef<int64_t> sizes) {
  if (llvm::is_contained(sizes, 0))
    return false;
  for (int64_t dim : map) {
    if (!sizes.take_front(dims[dim].size()).equals(dims[dim]))
      return false;
    sizes = sizes.drop_front(dims[dim].size());
  }
  return sizes.empty();
}

static bool isBlocked(const OpFactors &factors, const DimMap &map) {
  return llvm::any_of(map, [&](int64_t dim) { return factors.blocked[dim]; });
}

/// Indices of ops to refine. The last one is refined next.
using Worklist = llvm::SetVector<int32_t>;

/// Aligns the factors of an operand or result with the factors of the op's
/// dimensions. Returns true if either changed. If the factors of the value
/// changed, adds its producer and its users to the worklist, except this op.
static bool refineTensor(FactorTables &tables, OpFactors &op, size_t tensor,
                         Worklist &worklist) {
  ValueFactors &factors = tables.values[op.values[tensor]];
  bool opChanged = false, valueChanged = false;
  for (auto [map, sizes] : llvm::zip(op.mapOf(tensor), factors.dims)) {
    if (map.empty() || isBlocked(op, map) || isAligned(op.dims, map, sizes))
      continue;
    Sizes own;
    for (int64_t dim : map)
      own.append(op.dims[dim]);
    auto merged = common(own, sizes);
    if (!merged) {
      for (int64_t dim : map)
        op.blocked[dim] = true;
      continue;
    }
    valueChanged |= *merged != sizes;
    sizes = *merged;
    if (*merged == own)
      continue;
    opChanged = true;
    ArrayRef<int64_t> rest = *merged;
    for (int64_t dim : map) {
      Sizes part;
      for (int64_t left = op.rule.dims[dim].size; left > 1;
           left /= part.back()) {
        part.push_back(rest.front());
        rest = rest.drop_front();
      }
      op.dims[dim] = part;
    }
  }
  if (valueChanged) {
    auto add = [&](Operation *neighbour) {
      auto it = tables.opIndex.find(neighbour);
      if (neighbour != op.op && it != tables.opIndex.end())
        worklist.insert(it->second);
    };
    size_t operands = op.rule.operands.size();
    Value value = tensor < operands ? op.op->getOperand(tensor)
                                    : op.op->getResult(tensor - operands);
    if (Operation *producer = value.getDefiningOp())
      add(producer);
    llvm::for_each(value.getUsers(), add);
  }
  return opChanged || valueChanged;
}

static void refineAll(FactorTables &tables) {
  Worklist worklist;
  for (int32_t i = tables.ops.size(); i-- > 0;)
    worklist.insert(i);
  while (!worklist.empty()) {
    OpFactors &op = tables.ops[worklist.pop_back_val()];
    // Repeats the alignment, because an op may use a value twice.
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t tensor = 0; tensor < op.values.size(); ++tensor)
        changed |= refineTensor(tables, op, tensor, worklist);
    }
  }
}

/// Numbers all factors, and joins connected factors (see Factors.h) to classes
/// by union-find. Each class is identified by its representative.
static void joinClasses(FactorTables &tables) {
  int64_t count = 0;
  for (ValueFactors &value : tables.values) {
    value.first = count;
    for (const Sizes &sizes : value.dims)
      count += sizes.size();
  }
  for (OpFactors &op : tables.ops)
    for (const Sizes &sizes : op.dims) {
      op.first.push_back(count);
      count += sizes.size();
    }
  std::vector<int64_t> &parent = tables.classes;
  parent.resize(count);
  std::iota(parent.begin(), parent.end(), 0);
  auto find = [&](int64_t factor) {
    while (parent[factor] != factor)
      factor = parent[factor] = parent[parent[factor]];
    return factor;
  };
  for (const OpFactors &op : tables.ops)
    for (size_t tensor = 0; tensor < op.values.size(); ++tensor) {
      const ValueFactors &value = tables.values[op.values[tensor]];
      int64_t first = value.first;
      for (auto [map, sizes] : llvm::zip(op.mapOf(tensor), value.dims)) {
        int64_t factor = first;
        first += sizes.size();
        if (map.empty() || isBlocked(op, map))
          continue;
        for (int64_t dim : map)
          for (size_t i = 0; i < op.dims[dim].size(); ++i, ++factor)
            parent[find(op.first[dim] + i)] = find(factor);
      }
    }
  for (int64_t factor = 0; factor < count; ++factor)
    parent[factor] = find(factor);
}

FactorAnalysis::FactorAnalysis(func::FuncOp func) {
  Block &block = func.getBody().front();
  size_t numOps = block.getOperations().size();
  tables.ops.reserve(numOps);
  tables.opIndex.reserve(numOps);
  tables.values.reserve(numOps + numOps / 4 + block.getNumArguments());
  tables.valueIndex.reserve(tables.values.capacity());
  for (BlockArgument arg : func.getArguments())
    addValue(tables, arg);
  for (Operation &op : block) {
    for (Value result : op.getResults())
      addValue(tables, result);
    if (auto iface = dyn_cast<ShardingRuleOpInterface>(op))
      addOp(tables, op, iface.getShardingRule());
  }
  refineAll(tables);
  joinClasses(tables);
}

/// Returns the iteration dimension in which `op` looks up indices, or -1. Each
/// rank must look up a contiguous range, but a shard of a dimension with
/// several factors may not be contiguous.
static int64_t lookupDim(Operation *op, const ShardingRule &rule) {
  if (isa<CrossEntropySumsOp, CrossEntropyGradOp>(op)) {
    const DimMap &map = rule.operands[0][1];
    return map.size() == 1 ? map.front() : -1;
  }
  return rule.experts;
}

bool FactorAnalysis::canSplit(Operation *op, IterFactor factor) const {
  const OpFactors &factors = of(op);
  return !factors.rule.dims[factor.dim].whole && !factors.blocked[factor.dim] &&
         (factors.dims[factor.dim].size() == 1 ||
          factor.dim != lookupDim(op, factors.rule));
}

SmallVector<IterFactor> FactorAnalysis::splittable(Operation *op) const {
  SmallVector<IterFactor> result;
  for (auto [dim, sizes] : llvm::enumerate(of(op).dims))
    for (size_t i = 0; i < sizes.size(); ++i)
      if (IterFactor factor{int64_t(dim), int64_t(i)}; canSplit(op, factor))
        result.push_back(factor);
  return result;
}

std::optional<IterFactor> FactorAnalysis::splittable(Operation *op,
                                                     int64_t cls) const {
  for (IterFactor factor : splittable(op))
    if (classOf(op, factor) == cls)
      return factor;
  return std::nullopt;
}

bool FactorAnalysis::needsWhole(Operation *op, int64_t cls) const {
  for (auto [dim, sizes] : llvm::enumerate(of(op).dims))
    for (size_t i = 0; i < sizes.size(); ++i)
      if (IterFactor factor{int64_t(dim), int64_t(i)};
          classOf(op, factor) == cls && !canSplit(op, factor))
        return true;
  return false;
}

int64_t FactorAnalysis::numFactors(Value value,
                                   std::optional<int64_t> dims) const {
  ArrayRef<Sizes> all = of(value).dims;
  return llvm::sum_of(llvm::map_range(all.take_front(dims.value_or(all.size())),
                                      std::mem_fn(&Sizes::size)),
                      int64_t(0));
}

int64_t FactorAnalysis::factorSize(Value value, int64_t index) const {
  for (const Sizes &sizes : of(value).dims) {
    if (index < static_cast<int64_t>(sizes.size()))
      return sizes[index];
    index -= sizes.size();
  }
  llvm_unreachable("factor index out of range");
}

int64_t FactorAnalysis::indexOf(Value value, int64_t cls) const {
  for (int64_t i = 0, e = numFactors(value); i < e; ++i)
    if (classOf(value, i) == cls)
      return i;
  return -1;
}

int64_t FactorAnalysis::positionIn(Operation *op, bool isResult, unsigned index,
                                   IterFactor factor) const {
  const OpFactors &factors = of(op);
  size_t tensor = isResult ? factors.rule.operands.size() + index : index;
  int64_t position = 0;
  for (auto [map, sizes] : llvm::zip(
           factors.mapOf(tensor), tables.values[factors.values[tensor]].dims)) {
    int64_t inner = position;
    for (int64_t dim : map) {
      if (dim == factor.dim)
        return inner + factor.factor;
      inner += factors.dims[dim].size();
    }
    position += sizes.size();
  }
  return -1;
}
