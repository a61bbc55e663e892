//===- Offload.cpp - dpc-offload ------------------------------------------===//
//
// Divides the ops that read offloaded arguments in a phase and chunk into
// *units* of consecutive ops. The arguments of a unit have at most as many
// bytes as the largest set of arguments that a single op needs. They are
// fetched when the previous unit begins, so the device has the arguments of at
// most two units: the one that runs and the one that is being fetched. Readers
// in both units share a fetch.
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

class Units {
public:
  struct Fetch {
    Value argument;
    Operation *place;
    llvm::SmallVector<OpOperand *> readers;
  };

  Units(Operation *begin, int64_t limit) : limit(limit), starts{begin} {}

  void add(Operation *op, ArrayRef<OpOperand *> operands) {
    int64_t missing = missingBytes(operands);
    if (missing > 0 && (unit < 0 || bytes + missing > limit)) {
      ++unit;
      starts.push_back(op);
      bytes = 0;
      missing = missingBytes(operands); // copies of old units are released
    }
    bytes += missing;
    for (OpOperand *operand : operands) {
      Value root = withoutViews(operand->get());
      if (!isHere(root)) {
        last[root] = {fetches.size(), unit};
        // starts[unit] is the first op of the previous unit.
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
  /// The first op of the phase, followed by the first op of each unit.
  llvm::SmallVector<Operation *> starts;
  llvm::DenseMap<Value, Last> last;
  llvm::SmallVector<Fetch> fetches;
};

} // namespace

/// Clones the views between an argument and `value` for `fetched`.
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
  /// Makes each phase recompute the values that setup derives from offloaded
  /// parameters. Otherwise, they would stay on the device for the whole step.
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

  Value remake(Value value, Operation *reader) {
    if (!derived.contains(value))
      return value;
    Operation *op = value.getDefiningOp();
    // Readers come in order, so the first one in a phase creates the clone.
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

  /// Stores the next values after the last readers of the current values.
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
               << " is an argument, but also the next value of an offloaded "
                  "argument; expected a computed value";
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
  /// Results of setup that depend only on offloaded parameters.
  llvm::SetVector<Value> derived;
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
