//===- Factors.cpp - Which dimensions of a program belong together --------===//
#include "passes/shard/Factors.h"

#include "llvm/ADT/SetVector.h"

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
  for (BlockArgument arg : func.getArguments())
    addValue(arg);
  for (Operation &op : func.getBody().front()) {
    for (Value result : op.getResults())
      addValue(result);
    auto iface = dyn_cast<ShardingRuleOpInterface>(op);
    if (!iface)
      continue;
    OpInfo info;
    info.rule = iface.getShardingRule();
    for (const IterDim &dim : info.rule.dims)
      info.dims.push_back(initialFactors(dim.size));
    info.blocked.assign(info.rule.dims.size(), false);
    if (auto cuts = op.getAttrOfType<DenseI64ArrayAttr>(kRingFactors))
      info.dims[info.rule.operands[0][2].front()].assign(
          cuts.asArrayRef().begin(), cuts.asArrayRef().end());
    ops[&op] = std::move(info);
  }
  refineAll(func);
  numberAtoms(func);
}

void FactorAnalysis::addValue(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type)
    return;
  ValueInfo info;
  for (int64_t size : type.getShape())
    info.dims.push_back(initialFactors(size));
  values[value] = std::move(info);
}

bool FactorAnalysis::isBlocked(const OpInfo &info, const DimMap &map) const {
  return llvm::any_of(map, [&](int64_t dim) { return info.blocked[dim]; });
}

//===----------------------------------------------------------------------===//
// Refinement to a fixed point: boundaries only ever get more, and a dimension
// has finitely many divisors.
//===----------------------------------------------------------------------===//

void FactorAnalysis::refineAll(func::FuncOp func) {
  llvm::SetVector<Operation *> todo;
  for (Operation &op : llvm::reverse(func.getBody().front()))
    if (ops.count(&op))
      todo.insert(&op);
  while (!todo.empty()) {
    Operation *op = todo.pop_back_val();
    while (refine(op, todo))
      ;
  }
}

bool FactorAnalysis::refine(Operation *op, llvm::SetVector<Operation *> &todo) {
  const ShardingRule &rule = ops.find(op)->second.rule;
  bool changed = false;
  for (auto [map, value] : llvm::zip(rule.operands, op->getOperands()))
    changed |= refineTensor(op, map, value, todo);
  for (auto [map, value] : llvm::zip(rule.results, op->getResults()))
    changed |= refineTensor(op, map, value, todo);
  return changed;
}

/// Aligns the factors of `value` with those of the op's dimensions. Returns
/// whether the op's own factors changed; puts the value's other neighbours on
/// the list when the value's did.
bool FactorAnalysis::refineTensor(Operation *op, const TensorMap &map,
                                  Value value,
                                  llvm::SetVector<Operation *> &todo) {
  OpInfo &info = ops.find(op)->second;
  ValueInfo &valueInfo = values.find(value)->second;
  bool opChanged = false, valueChanged = false;
  for (auto [dimMap, sizes] : llvm::zip(map, valueInfo.dims)) {
    if (dimMap.empty() || isBlocked(info, dimMap))
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
    if (Operation *producer = value.getDefiningOp())
      if (producer != op && ops.count(producer))
        todo.insert(producer);
    for (Operation *user : value.getUsers())
      if (user != op && ops.count(user))
        todo.insert(user);
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

void FactorAnalysis::numberAtoms(func::FuncOp func) {
  auto number = [&](std::vector<Sizes> &dims, std::vector<int64_t> &first) {
    for (const Sizes &sizes : dims) {
      first.push_back(parent.size());
      for (size_t i = 0; i < sizes.size(); ++i)
        parent.push_back(parent.size());
    }
  };
  for (auto &[value, info] : values)
    number(info.dims, info.firstAtom);
  for (auto &[op, info] : ops)
    number(info.dims, info.firstAtom);
  for (Operation &op : func.getBody().front()) {
    auto it = ops.find(&op);
    if (it == ops.end())
      continue;
    for (auto [map, value] :
         llvm::zip(it->second.rule.operands, op.getOperands()))
      joinTensor(&op, map, value);
    for (auto [map, value] :
         llvm::zip(it->second.rule.results, op.getResults()))
      joinTensor(&op, map, value);
  }
}

void FactorAnalysis::joinTensor(Operation *op, const TensorMap &map,
                                Value value) {
  const OpInfo &info = ops.find(op)->second;
  const ValueInfo &valueInfo = values.find(value)->second;
  for (auto [d, dimMap] : llvm::enumerate(map)) {
    if (dimMap.empty() || isBlocked(info, dimMap))
      continue;
    int64_t atom = valueInfo.firstAtom[d];
    for (int64_t dim : dimMap)
      for (size_t i = 0; i < info.dims[dim].size(); ++i, ++atom)
        parent[find(info.firstAtom[dim] + i)] = find(atom);
  }
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

ArrayRef<int64_t> FactorAnalysis::factors(Operation *op, int64_t dim) const {
  return ops.find(op)->second.dims[dim];
}

int64_t FactorAnalysis::classOf(Operation *op, IterFactor factor) const {
  return find(ops.find(op)->second.firstAtom[factor.dim] + factor.factor);
}

bool FactorAnalysis::canSplit(Operation *op, IterFactor factor) const {
  const OpInfo &info = ops.find(op)->second;
  return !info.rule.dims[factor.dim].whole && !info.blocked[factor.dim];
}

SmallVector<IterFactor> FactorAnalysis::splittable(Operation *op) const {
  SmallVector<IterFactor> result;
  const OpInfo &info = ops.find(op)->second;
  for (int64_t dim = 0, e = info.dims.size(); dim < e; ++dim)
    for (int64_t i = 0, n = info.dims[dim].size(); i < n; ++i)
      if (canSplit(op, {dim, i}))
        result.push_back({dim, i});
  return result;
}

ArrayRef<int64_t> FactorAnalysis::factors(Value value, int64_t dim) const {
  return values.find(value)->second.dims[dim];
}

int64_t FactorAnalysis::numFactors(Value value) const {
  int64_t count = 0;
  for (const Sizes &sizes : values.find(value)->second.dims)
    count += sizes.size();
  return count;
}

int64_t FactorAnalysis::factorSize(Value value, int64_t index) const {
  for (const Sizes &sizes : values.find(value)->second.dims) {
    if (index < static_cast<int64_t>(sizes.size()))
      return sizes[index];
    index -= sizes.size();
  }
  llvm_unreachable("factor index out of range");
}

int64_t FactorAnalysis::classOf(Value value, int64_t index) const {
  const ValueInfo &info = values.find(value)->second;
  for (auto [sizes, first] : llvm::zip(info.dims, info.firstAtom)) {
    if (index < static_cast<int64_t>(sizes.size()))
      return find(first + index);
    index -= sizes.size();
  }
  llvm_unreachable("factor index out of range");
}

int64_t FactorAnalysis::positionIn(Operation *op, bool isResult, unsigned index,
                                   IterFactor factor) const {
  const OpInfo &info = ops.find(op)->second;
  Value value = isResult ? op->getResult(index) : op->getOperand(index);
  const TensorMap &map =
      isResult ? info.rule.results[index] : info.rule.operands[index];
  int64_t position = 0;
  for (auto [d, dimMap] : llvm::enumerate(map)) {
    int64_t inner = position;
    for (int64_t dim : dimMap) {
      if (dim == factor.dim)
        return inner + factor.factor;
      inner += info.dims[dim].size();
    }
    position += values.find(value)->second.dims[d].size();
  }
  return -1;
}
