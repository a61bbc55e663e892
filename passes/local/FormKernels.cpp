//===- FormKernels.cpp - dpc-form-kernels ---------------------------------===//
#include "passes/local/FormKernels.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

#include <queue>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCFORMKERNELS
#include "passes/local/Passes.h.inc"

namespace {

/// True if `value` comes from a source (for example, a constant) through movers
/// only. Kernels clone these ops.
bool isSourceChain(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && kernelRole(op) == KernelRole::mover)
    op = op->getOperand(0).getDefiningOp();
  return op && kernelRole(op) == KernelRole::source;
}

class KernelBuilder {
public:
  KernelBuilder(ArrayRef<Operation *> ops, OpBuilder &builder,
                AttributeEdits &untimed)
      : ops(ops), members(ops.begin(), ops.end()), builder(builder),
        untimed(untimed) {}
  KernelOp build() {
    OpBuilder::InsertionGuard guard(builder);
    auto place = builder.saveInsertionPoint();
    body = new Block;
    for (Operation *op : ops) {
      for (Value operand : op->getOperands())
        import(operand);
      builder.setInsertionPointToEnd(body);
      Operation *inner = builder.clone(*op, map);
      untimed.apply(inner, {}, [](NamedAttrList &list) {
        list.erase(attr::kPhase);
        list.erase(attr::kChunk);
      });
    }
    SmallVector<Value> escaping, yielded;
    for (Operation *op : ops)
      for (Value result : op->getResults())
        if (isReadOutside(result)) {
          escaping.push_back(result);
          yielded.push_back(map.lookup(result));
        }
    Location loc = ops.back()->getLoc();
    builder.setInsertionPointToEnd(body);
    YieldOp::create(builder, loc, yielded);
    builder.restoreInsertionPoint(place);
    auto kernel =
        KernelOp::create(builder, loc, TypeRange(ValueRange(escaping)), inputs);
    kernel.getBody().push_back(body);
    copyAttributes(ops.front(), kernel, {attr::kPhase, attr::kChunk});
    for (auto [value, result] : llvm::zip_equal(escaping, kernel.getOutputs()))
      value.replaceUsesWithIf(result, [&](OpOperand &use) {
        return !members.contains(use.getOwner());
      });
    return kernel;
  }

private:
  /// Returns the value in the body for `value`: a clone or a block argument.
  Value import(Value value) {
    if (Value known = map.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (op && (isSourceChain(value) || reachesMember(value))) {
      for (Value operand : op->getOperands())
        import(operand);
      builder.setInsertionPointToEnd(body);
      builder.clone(*op, map);
      return map.lookup(value);
    }
    Value argument = body->addArgument(value.getType(), value.getLoc());
    inputs.push_back(value);
    map.map(value, argument);
    return argument;
  }

  bool reachesMember(Value value) const {
    Operation *op = withoutReshapes(value).getDefiningOp();
    return op && members.contains(op);
  }

  /// Skips reshapes between members, because they are cloned into the kernel.
  bool isReadOutside(Value value) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (members.contains(user))
        return false;
      return !isa<ReshapeOp>(user) || isReadOutside(user->getResult(0));
    });
  }

  ArrayRef<Operation *> ops;
  llvm::SmallPtrSet<Operation *, 16> members;
  OpBuilder &builder;
  AttributeEdits &untimed;
  Block *body = nullptr;
  SmallVector<Value> inputs;
  IRMapping map;
};

/// Returns `units`, and each other op of the block as a unit, in topological
/// order. Ready units are sorted by phase and position.
std::vector<SmallVector<Operation *>>
inOrder(Block &block, std::vector<SmallVector<Operation *>> units) {
  DenseMap<Operation *, int64_t> unitOf, position;
  unitOf.reserve(block.getOperations().size());
  position.reserve(block.getOperations().size());
  for (auto [i, unit] : llvm::enumerate(units))
    for (Operation *op : unit)
      unitOf[op] = i;
  for (auto [i, op] : llvm::enumerate(block)) {
    position[&op] = i;
    if (&op != block.getTerminator() &&
        unitOf.try_emplace(&op, units.size()).second)
      units.push_back({&op});
  }
  // A kernel clones the reshapes between its members. It must not wait for the
  // original reshapes, because these wait for the kernel.
  auto isInner = [&](ArrayRef<Operation *> unit, size_t reader) {
    if (unit.size() > 1 || !isa<ReshapeOp>(unit.front()))
      return false;
    Operation *op = withoutReshapes(unit.front()->getResult(0)).getDefiningOp();
    return op && unitOf[op] == static_cast<int64_t>(reader);
  };
  RunOrders orders(block.getParentOp()->getContext());
  std::vector<SmallVector<int64_t>> users(units.size());
  std::vector<int64_t> missing(units.size());
  using Entry = std::tuple<int64_t, int64_t, int64_t>;
  std::vector<Entry> entries;
  for (auto [i, unit] : llvm::enumerate(units)) {
    entries.push_back({orders.of(unit.front()), position[unit.front()], i});
    llvm::SmallDenseSet<int64_t> needed;
    for (Operation *op : unit)
      for (Value operand : op->getOperands())
        if (Operation *def = operand.getDefiningOp())
          if (size_t other = unitOf.find(def)->second; other != i)
            needed.insert(other);
    for (int64_t other : needed)
      if (!isInner(units[other], i)) {
        users[other].push_back(i);
        ++missing[i];
      }
  }
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  for (const Entry &entry : entries)
    if (missing[std::get<2>(entry)] == 0)
      ready.push(entry);
  std::vector<SmallVector<Operation *>> result;
  while (!ready.empty()) {
    int64_t i = std::get<2>(ready.top());
    ready.pop();
    result.push_back(units[i]);
    for (int64_t user : users[i])
      if (--missing[user] == 0)
        ready.push(entries[user]);
  }
  assert(result.size() == units.size() && "kernels must not form a cycle");
  return result;
}

void wrapBuffered(Block &block, AttributeEdits &untimed) {
  SmallVector<Operation *> copies;
  for (Operation &op : block) {
    KernelRole role = kernelRole(&op);
    bool mover = role == KernelRole::mover && !isa<ReshapeOp>(op) &&
                 !op.hasAttr(attr::kView);
    bool stored =
        isa<ConstantOp>(op) && !cast<ConstantOp>(op).getValue().isSplat();
    if (mover || (role == KernelRole::source && !stored))
      copies.push_back(&op);
  }
  for (Operation *op : copies) {
    OpBuilder builder(op);
    KernelBuilder(op, builder, untimed).build();
  }
}

void formKernels(Block &block) {
  AttributeEdits untimed;
  eraseDeadOps(block);
  // Folding creates constants without a phase.
  for (auto constant : block.getOps<ConstantOp>())
    if (!constant->hasAttr(attr::kPhase))
      setPhase(constant, Phase::setup);
  OpBuilder builder(block.getTerminator());
  for (ArrayRef<Operation *> unit : inOrder(block, groupKernels(block))) {
    KernelRole role = kernelRole(unit.front());
    if (role == KernelRole::none || role == KernelRole::mover ||
        role == KernelRole::source)
      unit.front()->moveBefore(block.getTerminator());
    else
      KernelBuilder(unit, builder, untimed).build();
  }
  // Each round can make reshapes between the cloned ops dead.
  while (eraseDeadOps(block)) {
  }
  markViews(block);
  wrapBuffered(block, untimed);
  eraseDeadOps(block);
}

struct FormKernelsPass : impl::DpcFormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    onEachStep(getOperation(), [](func::FuncOp step) {
      Block &block = step.getBody().front();
      formKernels(block);
      for (auto tiles : block.getOps<ExpertTilesOp>())
        formKernels(tiles.getBody().front());
    });
  }
};

} // namespace

} // namespace dpc
