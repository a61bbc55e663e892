//===- FormKernels.cpp - dpc-form-kernels ---------------------------------===//
//
// Groups are formed (FormKernelsGroups.cpp), moved into dpc.kernel bodies and
// ordered here; then movers become views or kernels (FormKernelsViews.cpp).
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

/// Returns whether there were any.
bool eraseDeadOps(Block &block) {
  bool found = false;
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op)) {
      op.erase();
      found = true;
    }
  return found;
}

/// A chain of movers over a source, which is copied into kernels.
bool isSourceChain(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && kernelRole(op) == KernelRole::mover)
    op = op->getOperand(0).getDefiningOp();
  return op && kernelRole(op) == KernelRole::source;
}

/// Builds the body of one kernel.
class KernelBuilder {
public:
  /// `untimed`: takes phases and chunks away.
  KernelBuilder(ArrayRef<Operation *> ops, OpBuilder &builder,
                AttributeEdits &untimed)
      : ops(ops), members(ops.begin(), ops.end()), builder(builder),
        untimed(untimed) {}
  /// Creates the kernel and redirects outside uses to it.
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
  /// `value` inside the body: a member's clone, a copied source or an argument.
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

  /// Whether reshapes lead from `value` to an op of this kernel.
  bool reachesMember(Value value) const {
    Operation *op = value.getDefiningOp();
    while (isa_and_nonnull<ReshapeOp>(op))
      op = op->getOperand(0).getDefiningOp();
    return op && members.contains(op);
  }

  /// Whether anything but this kernel reads `value`; a reshape between members
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

/// Orders units so that operands come first and otherwise as before.
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
      // A reshape between two members reads and feeds its own kernel; the copy
      // inside the kernel makes it harmless there, so it waits, not the kernel.
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

/// The kernels of one function.
struct KernelFormer {
  AttributeEdits untimed;

  /// Constants that folding has made know no phase.
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
    // What is left of the groups has no users any more, nor have, after that,
    // the reshapes between its members, which stand behind them, and so on.
    while (eraseDeadOps(block)) {
    }
    markViews(block);
    wrapBuffered(block);
    eraseDeadOps(block);
  }

  /// Movers and sources that need a buffer become kernels that copy.
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
