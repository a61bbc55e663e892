//===- Offload.cpp - dpc-offload ------------------------------------------===//
//
// In one phase and chunk, the ops that read offloaded arguments form *units*:
// sequences of ops whose arguments together are no larger than the largest set
// of arguments that one op needs. The arguments of a unit are fetched when the
// previous unit begins, so that the arguments of at most two units are on the
// device: one unit that runs and one that is being fetched. A later reader
// shares a fetch while its unit is one of the two.
//
//===----------------------------------------------------------------------===//
#include "ir/TensorUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/local/Partition.h"
#include "passes/local/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace dpc {

#define GEN_PASS_DEF_DPCOFFLOAD
#include "passes/local/Passes.h.inc"

namespace {

/// Divides the readers of a phase into units.
class Units {
public:
  /// A copy of an argument to the device, for readers of one or two units.
  struct Fetch {
    Value argument;
    Operation *place; ///< The copy starts before this op.
    llvm::SmallVector<OpOperand *> readers;
  };

  Units(Operation *begin, int64_t limit) : limit(limit), starts{begin} {}

  /// Adds the next op of the phase that reads offloaded arguments.
  void add(Operation *op, ArrayRef<OpOperand *> operands) {
    int64_t missing = missingBytes(operands);
    if (missing > 0 && (unit < 0 || bytes + missing > limit)) {
      ++unit;
      starts.push_back(op);
      bytes = 0;
      missing = missingBytes(operands); // older copies must be fetched again
    }
    bytes += missing;
    for (OpOperand *operand : operands) {
      Value root = withoutViews(operand->get());
      if (!isHere(root)) {
        last[root] = {fetches.size(), unit};
        // The unit before this one begins at starts[unit].
        fetches.push_back({root, starts[unit], {}});
      }
      last[root].unit = unit;
      fetches[last[root].fetch].readers.push_back(operand);
    }
  }

  ArrayRef<Fetch> all() const { return fetches; }

private:
  struct Last {
    size_t fetch;
    int64_t unit;
  };
  bool isHere(Value argument) const {
    auto it = last.find(argument);
    return it != last.end() && it->second.unit + 1 >= unit;
  }
  int64_t missingBytes(ArrayRef<OpOperand *> operands) const {
    llvm::SetVector<Value> missing;
    for (OpOperand *operand : operands)
      if (Value root = withoutViews(operand->get()); !isHere(root))
        missing.insert(root);
    return sizeInBytes(missing.getArrayRef());
  }

  int64_t limit;
  int64_t unit = -1, bytes = 0;
  /// The first op of the phase, then the first ops of the units.
  llvm::SmallVector<Operation *> starts;
  llvm::DenseMap<Value, Last> last;
  llvm::SmallVector<Fetch> fetches;
};

} // namespace

/// Clones the view `value` of an argument for `fetched`.
static Value viewOfFetched(OpBuilder &builder, Value value, Value fetched,
                           Operation *phase) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return fetched;
  IRMapping map;
  map.map(op->getOperand(0),
          viewOfFetched(builder, op->getOperand(0), fetched, phase));
  Operation *clone = builder.clone(*op, map);
  moveToPhase(clone, phase);
  return clone->getResult(0);
}

namespace {

class Offloader {
public:
  explicit Offloader(func::FuncOp func)
      : func(func), block(func.getBody().front()), builder(func.getContext()) {}
  LogicalResult run() {
    if (llvm::none_of(func.getArguments(),
                      [&](Value value) { return isOffloaded(value); }))
      return success();
    sinkSetup();
    if (failed(storeResults()))
      return failure();
    std::vector<SmallVector<Operation *>> phases;
    for (Operation &op : block.without_terminator()) {
      if (phases.empty() || !isSamePhase(phases.back().front(), &op))
        phases.emplace_back();
      phases.back().push_back(&op);
    }
    for (ArrayRef<Operation *> ops : phases)
      fetchPhase(ops);
    eraseDead([](Operation *op) { return isMovedView(op); });
    return success();
  }

private:
  bool isOffloaded(Value value) {
    auto arg = dyn_cast<BlockArgument>(value);
    return arg && arg.getOwner() == &block &&
           func.getArgAttr(arg.getArgNumber(), attr::kSpace);
  }
  bool isMadeAtUse(Value value) {
    return isOffloaded(value) &&
           func.getArgAttr(cast<BlockArgument>(value).getArgNumber(),
                           attr::kAtUse);
  }
  /// Results that setup derives from parameters would stay on the device for
  /// the whole step. Each phase that reads them recomputes them instead.
  void sinkSetup() {
    auto isKnown = [&](Value value) {
      return isMadeAtUse(value) || derived.contains(value);
    };
    SmallVector<Operation *> readers;
    for (Operation &op : block.without_terminator())
      if (phaseOf(&op) != Phase::setup)
        readers.push_back(&op);
      else if (op.getNumOperands() > 0 &&
               llvm::all_of(op.getOperands(), isKnown))
        derived.insert(op.result_begin(), op.result_end());
    for (Operation *reader : readers)
      for (OpOperand &operand : reader->getOpOperands())
        operand.set(remake(operand.get(), reader));
    eraseDead([&](Operation *op) {
      return phaseOf(op) == Phase::setup && op->getNumResults() > 0 &&
             derived.contains(op->getResult(0));
    });
  }

  /// Recomputes `value` in the phase of `reader`.
  Value remake(Value value, Operation *reader) {
    if (!derived.contains(value))
      return value;
    Operation *op = value.getDefiningOp();
    // Readers come in order, so the clone is created at the first reader of a
    // phase.
    PhaseKey phase = phaseKey(reader);
    if (Value made = remade.lookup({value, phase}))
      return made;
    IRMapping map;
    for (Value operand : op->getOperands())
      map.map(operand, remake(operand, reader));
    builder.setInsertionPoint(reader);
    Operation *clone = builder.clone(*op, map);
    moveToPhase(clone, reader);
    for (auto [old, fresh] : llvm::zip(op->getResults(), clone->getResults()))
      remade[{old, phase}] = fresh;
    return remade[{value, phase}];
  }

  /// Stores the next value of an argument after the last reader of its current
  /// value.
  LogicalResult storeResults() {
    llvm::DenseMap<Value, Operation *> lastReader;
    for (Operation &op : block.without_terminator())
      if (!isMovedView(&op))
        for (Value operand : op.getOperands())
          lastReader[withoutViews(operand)] = &op;
    Operation *end = block.getTerminator();
    for (OpOperand &result : end->getOpOperands()) {
      auto ties = func.getResultAttrOfType<IntegerAttr>(
          result.getOperandNumber(), attr::kTies);
      if (!ties || ties.getInt() < 0 || ties.getInt() >= func.getNumArguments())
        continue;
      Value target = func.getArgument(ties.getInt());
      if (!isOffloaded(target) || withoutViews(result.get()) == target ||
          result.get().getDefiningOp<StoreOp>())
        continue;
      Operation *after = result.get().getDefiningOp();
      if (!after)
        return func.emitError("result ")
               << result.getOperandNumber()
               << " is the next value of an offloaded argument and an argument "
                  "itself; expected a computed value";
      if (Operation *reader = lastReader.lookup(target);
          reader && after->isBeforeInBlock(reader))
        after = reader;
      builder.setInsertionPointAfter(after);
      auto store = StoreOp::create(builder, after->getLoc(), target.getType(),
                                   result.get(), target);
      moveToPhase(store, after);
      result.set(store.getResult());
    }
    return success();
  }

  /// The operands of `op` that need a fetch.
  SmallVector<OpOperand *> offloadedOperands(Operation *op) {
    SmallVector<OpOperand *> operands;
    if (isMovedView(op) || isa<FetchOp>(op))
      return operands;
    for (OpOperand &operand : op->getOpOperands()) {
      bool isTarget = isa<StoreOp>(op) && operand.getOperandNumber() == 1;
      if (!isTarget && isOffloaded(withoutViews(operand.get())))
        operands.push_back(&operand);
    }
    return operands;
  }

  /// `ops`: all ops of one phase and chunk.
  void fetchPhase(ArrayRef<Operation *> ops) {
    llvm::MapVector<Operation *, SmallVector<OpOperand *>> readers;
    int64_t limit = 0;
    for (Operation *op : ops) {
      SmallVector<OpOperand *> operands = offloadedOperands(op);
      if (operands.empty())
        continue;
      llvm::SetVector<Value> arguments;
      for (OpOperand *operand : operands)
        arguments.insert(withoutViews(operand->get()));
      limit = std::max(limit, sizeInBytes(arguments.getArrayRef()));
      readers.insert({op, std::move(operands)});
    }
    if (readers.empty())
      return;
    Units units(ops.front(), limit);
    for (auto &[op, operands] : readers)
      units.add(op, operands);
    for (const Units::Fetch &fetch : units.all()) {
      builder.setInsertionPoint(fetch.place);
      auto made = FetchOp::create(builder, fetch.place->getLoc(),
                                  fetch.argument.getType(), fetch.argument);
      moveToPhase(made, fetch.place);
      for (OpOperand *operand : fetch.readers)
        operand->set(viewOfFetched(builder, operand->get(), made.getValue(),
                                   fetch.place));
    }
  }

  void eraseDead(llvm::function_ref<bool(Operation *)> mayErase) {
    auto ops =
        llvm::to_vector(llvm::make_pointer_range(block.without_terminator()));
    for (Operation *op : llvm::reverse(ops))
      if (op->use_empty() && mayErase(op))
        op->erase();
  }

  func::FuncOp func;
  Block &block;
  OpBuilder builder;
  /// Values of setup that depend only on offloaded parameters.
  llvm::SetVector<Value> derived;
  /// Clones of `remake` by value, phase and chunk.
  llvm::DenseMap<std::pair<Value, std::pair<Attribute, Attribute>>, Value>
      remade;
};

struct OffloadPass : impl::DpcOffloadBase<OffloadPass> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<func::FuncOp>())
      if (func->hasAttr(attr::kMesh) && failed(Offloader(func).run()))
        return signalPassFailure();
  }
};
} // namespace

} // namespace dpc
