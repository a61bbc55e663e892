//===- Factors.cpp - Which dimensions of a program belong together --------===//
#include "passes/shard/Factors.h"

#include <numeric>

using namespace mlir;
using namespace dpc;

/// The coarsest list that has the boundaries of both, or nullopt when those do
/// not divide each other.
static std::optional<SmallVector<int64_t, 2>> common(ArrayRef<int64_t> a,
                                                     ArrayRef<int64_t> b) {
  llvm::SmallVector<int64_t, 8> cuts;
  for (ArrayRef<int64_t> list : {a, b}) {
    int64_t product = 1;
    for (int64_t size : list)
      cuts.push_back(product *= size);
  }
  llvm::sort(cuts);
  SmallVector<int64_t, 2> result;
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

static SmallVector<int64_t, 2> initialFactors(int64_t size) {
  return size == 1 ? SmallVector<int64_t, 2>{} : SmallVector<int64_t, 2>{size};
}

FactorAnalysis::FactorAnalysis(func::FuncOp func) {
  Block &block = func.getBody().front();
  size_t numOps = block.getOperations().size();
  ops.reserve(numOps);
  opIndex.reserve(numOps);
  values.reserve(numOps + numOps / 4 + block.getNumArguments());
  valueIndex.reserve(values.capacity());
  for (BlockArgument arg : func.getArguments())
    addValue(arg);
  for (Operation &op : block) {
    for (Value result : op.getResults())
      addValue(result);
    if (auto iface = dyn_cast<ShardingRuleOpInterface>(op))
      addOp(op, iface.getShardingRule());
  }
  refineAll();
  numberAtoms();
}

void FactorAnalysis::addOp(Operation &op, ShardingRule made) {
  opIndex[&op] = ops.size();
  OpInfo &info = ops.emplace_back();
  info.op = &op;
  info.rule = std::move(made);
  const ShardingRule &rule = info.rule;
  for (const IterDim &dim : rule.dims)
    info.dims.push_back(initialFactors(dim.size));
  info.blocked.assign(rule.dims.size(), false);
  if (auto cuts = op.getAttrOfType<DenseI64ArrayAttr>(attr::kRingFactors))
    info.dims[rule.operands[0][2].front()].assign(cuts.asArrayRef().begin(),
                                                  cuts.asArrayRef().end());
  assert(rule.operands.size() == op.getNumOperands() &&
         rule.results.size() == op.getNumResults() && "a map per tensor");
  for (Value value : op.getOperands())
    info.values.push_back(valueIndex.lookup(value));
  for (Value value : op.getResults())
    info.values.push_back(valueIndex.lookup(value));
}

void FactorAnalysis::addValue(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  valueIndex[value] = values.size();
  ValueInfo &info = values.emplace_back();
  for (int64_t size : type.getShape())
    info.dims.push_back(initialFactors(size));
}

bool FactorAnalysis::isBlocked(const OpInfo &info, const DimMap &map) const {
  return llvm::any_of(map, [&](int64_t dim) { return info.blocked[dim]; });
}

//===----------------------------------------------------------------------===//
// Refinement to a fixed point: boundaries only ever get more, and a dimension
// has finitely many divisors.
//===----------------------------------------------------------------------===//

void FactorAnalysis::refineAll() {
  Worklist worklist;
  for (int32_t i = ops.size(); i-- > 0;) {
    ops[i].isQueued = true;
    worklist.push_back(i);
  }
  while (!worklist.empty()) {
    OpInfo &info = ops[worklist.pop_back_val()];
    info.isQueued = false;
    while (refine(info, worklist))
      ;
  }
}

bool FactorAnalysis::refine(OpInfo &info, Worklist &worklist) {
  bool changed = false;
  for (size_t tensor = 0; tensor < info.values.size(); ++tensor)
    changed |= refineTensor(info, tensor, worklist);
  return changed;
}

/// Whether the dimensions of `map`, one after the other, have the factors
/// `sizes`, which can be aligned with themselves.
static bool isAligned(ArrayRef<SmallVector<int64_t, 2>> dims, const DimMap &map,
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

void FactorAnalysis::queue(Operation *op, const OpInfo &from,
                           Worklist &worklist) {
  if (op == from.op)
    return;
  auto it = opIndex.find(op);
  if (it == opIndex.end() || ops[it->second].isQueued)
    return;
  ops[it->second].isQueued = true;
  worklist.push_back(it->second);
}

/// Aligns the factors of a value with those of the op's dimensions. Returns
/// whether either changed; puts the value's other neighbours on the list when
/// the value's did.
bool FactorAnalysis::refineTensor(OpInfo &info, size_t tensor,
                                  Worklist &worklist) {
  ValueInfo &valueInfo = values[info.values[tensor]];
  bool opChanged = false, valueChanged = false;
  for (auto [dimMap, sizes] : llvm::zip(mapOf(info, tensor), valueInfo.dims)) {
    if (dimMap.empty() || isBlocked(info, dimMap) ||
        isAligned(info.dims, dimMap, sizes))
      continue;
    Sizes own;
    for (int64_t dim : dimMap)
      own.append(info.dims[dim]);
    auto merged = common(own, sizes);
    if (!merged) {
      for (int64_t dim : dimMap)
        info.blocked[dim] = true;
      continue;
    }
    if (*merged != sizes) {
      sizes = *merged;
      valueChanged = true;
    }
    if (*merged == own)
      continue;
    opChanged = true;
    ArrayRef<int64_t> rest = *merged;
    for (int64_t dim : dimMap) {
      Sizes part;
      for (int64_t left = info.rule.dims[dim].size; left > 1;
           left /= part.back()) {
        part.push_back(rest.front());
        rest = rest.drop_front();
      }
      info.dims[dim] = part;
    }
  }
  if (valueChanged) {
    size_t operands = info.rule.operands.size();
    Value value = tensor < operands ? info.op->getOperand(tensor)
                                    : info.op->getResult(tensor - operands);
    if (Operation *producer = value.getDefiningOp())
      queue(producer, info, worklist);
    for (Operation *user : value.getUsers())
      queue(user, info, worklist);
  }
  // A value used twice by the op must agree with itself.
  return opChanged || valueChanged;
}

//===----------------------------------------------------------------------===//
// Classes
//===----------------------------------------------------------------------===//

int64_t FactorAnalysis::find(int64_t atom) const {
  while (parent[atom] != atom)
    atom = parent[atom] = parent[parent[atom]];
  return atom;
}

void FactorAnalysis::numberAtoms() {
  int64_t count = 0;
  for (ValueInfo &info : values) {
    info.firstAtom = count;
    for (const Sizes &sizes : info.dims)
      count += sizes.size();
  }
  for (OpInfo &info : ops)
    for (const Sizes &sizes : info.dims) {
      info.firstAtom.push_back(count);
      count += sizes.size();
    }
  parent.resize(count);
  std::iota(parent.begin(), parent.end(), 0);
  for (const OpInfo &info : ops)
    for (size_t tensor = 0; tensor < info.values.size(); ++tensor)
      joinTensor(info, tensor);
}

void FactorAnalysis::joinTensor(const OpInfo &info, size_t tensor) {
  const ValueInfo &valueInfo = values[info.values[tensor]];
  int64_t first = valueInfo.firstAtom;
  for (auto [dimMap, sizes] : llvm::zip(mapOf(info, tensor), valueInfo.dims)) {
    int64_t atom = first;
    first += sizes.size();
    if (dimMap.empty() || isBlocked(info, dimMap))
      continue;
    for (int64_t dim : dimMap)
      for (size_t i = 0; i < info.dims[dim].size(); ++i, ++atom)
        parent[find(info.firstAtom[dim] + i)] = find(atom);
  }
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> FactorAnalysis::factors(Operation *op, int64_t dim) const {
  return of(op).dims[dim];
}

int64_t FactorAnalysis::classOf(Operation *op, IterFactor factor) const {
  return find(of(op).firstAtom[factor.dim] + factor.factor);
}

/// The iteration dimension in which `op` looks places up, or -1. Ranks look up
/// in a range of places: in a dimension of several factors, as a table has that
/// was a grid, a shard may be none.
static int64_t lookupDim(Operation *op, const ShardingRule &rule) {
  const DimMap *map = nullptr;
  if (isa<EmbeddingOp>(op))
    map = &rule.operands[0][0];
  else if (isa<EmbeddingGradOp>(op))
    map = &rule.results[0][0];
  else if (isa<CrossEntropySumsOp, CrossEntropyGradOp>(op))
    map = &rule.operands[0][1];
  return map && map->size() == 1 ? map->front() : -1;
}

bool FactorAnalysis::canSplit(Operation *op, IterFactor factor) const {
  const OpInfo &info = of(op);
  return !info.rule.dims[factor.dim].whole && !info.blocked[factor.dim] &&
         (info.dims[factor.dim].size() == 1 ||
          factor.dim != lookupDim(op, info.rule));
}

SmallVector<IterFactor> FactorAnalysis::splittable(Operation *op) const {
  SmallVector<IterFactor> result;
  const OpInfo &info = of(op);
  for (int64_t dim = 0, e = info.dims.size(); dim < e; ++dim)
    for (int64_t i = 0, n = info.dims[dim].size(); i < n; ++i)
      if (canSplit(op, {dim, i}))
        result.push_back({dim, i});
  return result;
}

ArrayRef<int64_t> FactorAnalysis::factors(Value value, int64_t dim) const {
  return of(value).dims[dim];
}

int64_t FactorAnalysis::numFactors(Value value) const {
  int64_t count = 0;
  for (const Sizes &sizes : of(value).dims)
    count += sizes.size();
  return count;
}

int64_t FactorAnalysis::factorSize(Value value, int64_t index) const {
  for (const Sizes &sizes : of(value).dims) {
    if (index < static_cast<int64_t>(sizes.size()))
      return sizes[index];
    index -= sizes.size();
  }
  llvm_unreachable("factor index out of range");
}

int64_t FactorAnalysis::classOf(Value value, int64_t index) const {
  return find(of(value).firstAtom + index);
}

int64_t FactorAnalysis::positionIn(Operation *op, bool isResult, unsigned index,
                                   IterFactor factor) const {
  const OpInfo &info = of(op);
  size_t tensor = isResult ? info.rule.operands.size() + index : index;
  int64_t position = 0;
  for (auto [dimMap, sizes] :
       llvm::zip(mapOf(info, tensor), values[info.values[tensor]].dims)) {
    int64_t inner = position;
    for (int64_t dim : dimMap) {
      if (dim == factor.dim)
        return inner + factor.factor;
      inner += info.dims[dim].size();
    }
    position += sizes.size();
  }
  return -1;
}
