//===- FormKernels.cpp - dpc-form-kernels ---------------------------------===//
//
// Forms groups (FormKernelsGroups.cpp), moves them into dpc.kernel bodies in a
// valid order, and turns movers into views or kernels (FormKernelsViews.cpp).
//
//===----------------------------------------------------------------------===//
#include "passes/local/FormKernels.h"
#include "passes/local/CopyAttributes.h"
#include "passes/local/EachStep.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

#include <queue>

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCFORMKERNELS
#include "passes/local/Passes.h.inc"

namespace {

/// Returns true if there were dead ops.
bool eraseDeadOps(Block &block) {
  bool found = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) {
      op.erase();
      found = true;
    }
  return found;
}

/// True for a chain of movers over a source, which is copied into kernels.
bool isSourceChain(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && kernelRole(op) == KernelRole::mover)
    op = op->getOperand(0).getDefiningOp();
  return op && kernelRole(op) == KernelRole::source;
}

class KernelBuilder {
public:
  /// `untimed` removes phases and chunks.
  KernelBuilder(ArrayRef<Operation *> ops, OpBuilder &builder,
                AttributeEdits &untimed)
      : ops(ops), members(ops.begin(), ops.end()), builder(builder),
        untimed(untimed) {}
  /// Creates the kernel and replaces uses outside it.
  KernelOp build() {
    OpBuilder::InsertionGuard guard(builder);
    auto place = builder.saveInsertionPoint();
    auto region = std::make_unique<Region>();
    body = new Block;
    region->push_back(body);
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
    OperationState state(loc, KernelOp::getOperationName());
    state.addOperands(inputs);
    state.addTypes(TypeRange(ValueRange(escaping)));
    state.addRegion(std::move(region));
    copyAttributes(ops.front(), state.attributes, {attr::kPhase, attr::kChunk});
    auto kernel = cast<KernelOp>(builder.create(state));
    for (auto [value, result] : llvm::zip_equal(escaping, kernel.getOutputs()))
      value.replaceUsesWithIf(result, [&](OpOperand &use) {
        return !members.contains(use.getOwner());
      });
    return kernel;
  }

private:
  /// `value` inside the body: the clone of a member, a copied source or an
  /// argument.
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

  /// True if `value` is a result of a member, perhaps reshaped.
  bool reachesMember(Value value) const {
    Operation *op = value.getDefiningOp();
    while (isa_and_nonnull<ReshapeOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return op && members.contains(op);
  }

  /// True if an op outside the kernel reads `value`. A reshape between members
  /// is copied into the kernel.
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

/// Orders units topologically; otherwise they keep their order.
class UnitScheduler {
public:
  UnitScheduler(Block &block, ArrayRef<SmallVector<Operation *>> groups)
      : units(groups.begin(), groups.end()) {
    size_t numOps = block.getOperations().size();
    DenseMap<Operation *, int64_t> unitOf, position;
    unitOf.reserve(numOps);
    position.reserve(numOps);
    for (auto [i, unit] : llvm::enumerate(units))
      for (Operation *op : unit)
        unitOf[op] = i;
    for (Operation &op : block.without_terminator())
      if (unitOf.try_emplace(&op, units.size()).second)
        units.push_back({&op});
    for (auto [i, op] : llvm::enumerate(block))
      position[&op] = i;
    RunOrders orders(block.getParentOp()->getContext());
    users.resize(units.size());
    missing.resize(units.size());
    for (auto [i, unit] : llvm::enumerate(units)) {
      priority.push_back({orders.of(unit.front()), position[unit.front()]});
      llvm::SmallDenseSet<int64_t> needed;
      for (Operation *op : unit)
        for (Value operand : op->getOperands())
          if (Operation *def = operand.getDefiningOp())
            if (int64_t other = unitOf.find(def)->second;
                other != static_cast<int64_t>(i))
              needed.insert(other);
      // A reshape between two members reads its kernel and feeds it. The kernel
      // contains a copy, so only the reshape waits.
      for (int64_t other : needed) {
        bool inner = units[other].size() == 1 &&
                     isa<ReshapeOp>(units[other].front()) && [&] {
                       Operation *op = units[other].front();
                       while (isa_and_nonnull<ReshapeOp>(op))
                         op = op->getOperand(0).getDefiningOp();
                       return op && unitOf[op] == static_cast<int64_t>(i);
                     }();
        if (inner)
          continue;
        users[other].push_back(i);
        ++missing[i];
      }
    }
  }

  std::vector<SmallVector<Operation *>> order() {
    using Entry = std::pair<std::pair<int64_t, int64_t>, int64_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (size_t i = 0; i < units.size(); ++i)
      if (missing[i] == 0)
        ready.push({priority[i], i});
    std::vector<SmallVector<Operation *>> result;
    while (!ready.empty()) {
      int64_t i = ready.top().second;
      ready.pop();
      result.push_back(units[i]);
      for (int64_t user : users[i])
        if (--missing[user] == 0)
          ready.push({priority[user], user});
    }
    assert(result.size() == units.size() && "kernels must not form a cycle");
    return result;
  }

private:
  std::vector<SmallVector<Operation *>> units;
  std::vector<std::pair<int64_t, int64_t>> priority;
  std::vector<SmallVector<int64_t>> users;
  std::vector<int64_t> missing;
};

struct KernelFormer {
  AttributeEdits untimed;

  /// Folding creates constants without a phase.
  void timeConstants(Block &block) {
    for (auto constant : block.getOps<ConstantOp>())
      if (!constant->hasAttr(attr::kPhase))
        setPhase(constant, Phase::setup);
  }

  void formKernels(Block &block) {
    eraseDeadOps(block);
    timeConstants(block);
    KernelGroups groups(block);
    groups.form();
    auto units = UnitScheduler(block, groups.groups()).order();
    OpBuilder builder(block.getTerminator());
    for (ArrayRef<Operation *> unit : units) {
      KernelRole role = kernelRole(unit.front());
      bool isKernel = role != KernelRole::none && role != KernelRole::mover &&
                      role != KernelRole::source;
      if (!isKernel) {
        unit.front()->moveBefore(block.getTerminator());
        continue;
      }
      KernelBuilder(unit, builder, untimed).build();
    }
    // The ops of the groups have no users now. Erasing them makes the reshapes
    // between them dead, which come after them.
    while (eraseDeadOps(block)) {
    }
    markViews(block);
    wrapBuffered(block);
    eraseDeadOps(block);
  }

  /// Turns movers and sources that need a buffer into kernels.
  void wrapBuffered(Block &block) {
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
};

struct FormKernelsPass : impl::DpcFormKernelsBase<FormKernelsPass> {
  void runOnOperation() override {
    onEachStep(getOperation(), [](func::FuncOp step) {
      KernelFormer().formKernels(step.getBody().front());
    });
  }
};

} // namespace

} // namespace dpc
