//===- Experts.cpp - The experts of a program ----------------------------===//
#include "passes/shard/Experts.h"

#include "ir/TensorUtils.h"
#include "passes/shard/ExpertRows.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

namespace {

/// The ops and values that depend on a parameter through values with a factor
/// of one class.
struct Reach {
  DenseMap<Operation *, IterFactor> ops;
  DenseSet<Value> values;
  /// True if an op needs a whole dimension of the class.
  bool isGate = false;
};

class ExpertFinder {
public:
  ExpertFinder(const ProgramFacts &facts, int64_t ep) : facts(facts), ep(ep) {}
  Experts run() {
    for (BlockArgument arg : facts.func->getRegion(0).getArguments()) {
      auto type = dyn_cast<RankedTensorType>(arg.getType());
      for (int64_t d = 0; type && d < type.getRank(); ++d) {
        if (!isCandidate(arg, d))
          continue;
        int64_t cls =
            facts.factors.classOf(arg, facts.factors.numFactors(arg, d));
        Reach reach = reachOf(arg, cls);
        if (!reach.isGate &&
            (meetsGate(reach, cls, type.getDimSize(d)) || looksUp(reach, cls)))
          classes.insert(cls);
      }
    }
    addParameters();
    addRows();
    pullProducers();
    return std::move(experts);
  }

private:
  const ProgramFacts &facts;
  int64_t ep;
  Experts experts;
  DenseSet<int64_t> classes;
  /// Values that depend on a TopK or Softmax, keyed by the length of
  /// the rows of that op.
  DenseMap<int64_t, DenseSet<Value>> routed;

  /// (E1) of the header.
  bool isCandidate(BlockArgument arg, int64_t dim) const {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type || type.getRank() < 3 || !facts.stored.contains(arg) ||
        facts.factors.factors(arg, dim).size() != 1)
      return false;
    int64_t cls =
        facts.factors.classOf(arg, facts.factors.numFactors(arg, dim));
    return cls != facts.batchClass && !facts.sequenceClasses.contains(cls) &&
           !facts.hiddenClasses.contains(cls);
  }

  const DenseSet<Value> &routedBy(int64_t size) {
    auto [it, isNew] = routed.try_emplace(size);
    DenseSet<Value> &values = it->second;
    if (!isNew)
      return values;
    for (Operation &op : facts.func->getRegion(0).front()) {
      bool chooses = isa<TopKOp, SoftmaxOp>(op) &&
                     shapeOf(op.getOperand(0)).back() == size;
      if (chooses || llvm::any_of(op.getOperands(), [&](Value operand) {
            return values.contains(operand);
          }))
        values.insert(op.result_begin(), op.result_end());
    }
    return values;
  }

  /// (E2) of the header.
  bool meetsGate(const Reach &reach, int64_t cls, int64_t size) {
    const DenseSet<Value> &choices = routedBy(size);
    return llvm::any_of(reach.ops, [&](const auto &entry) {
      return llvm::any_of(entry.first->getOperands(), [&](Value operand) {
        return !reach.values.contains(operand) && choices.contains(operand) &&
               facts.factors.indexOf(operand, cls) >= 0;
      });
    });
  }

  /// Returns whether a product looks up the experts of rows in the class.
  bool looksUp(const Reach &reach, int64_t cls) const {
    return llvm::any_of(reach.ops, [&](const auto &entry) {
      return isa<ExpertMatmulOp>(entry.first) &&
             entry.second.dim == facts.factors.rule(entry.first).experts;
    });
  }

  Reach reachOf(Value parameter, int64_t cls) const {
    Reach reach;
    SmallVector<Value> worklist{parameter};
    reach.values.insert(parameter);
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val().getUsers()) {
        if (!facts.isForward(user))
          continue;
        reach.isGate |= facts.factors.needsWhole(user, cls);
        std::optional<IterFactor> factor = facts.factors.splittable(user, cls);
        if (!factor)
          continue;
        reach.ops[user] = *factor;
        for (Value result : user->getResults())
          if (facts.factors.indexOf(result, cls) >= 0 &&
              reach.values.insert(result).second)
            worklist.push_back(result);
      }
    return reach;
  }

  void addParameters() {
    for (BlockArgument arg : facts.func->getRegion(0).getArguments())
      for (int64_t cls : classes) {
        int64_t position =
            facts.stored.contains(arg) ? facts.factors.indexOf(arg, cls) : -1;
        if (position < 0)
          continue;
        Reach reach = reachOf(arg, cls);
        if (reach.isGate)
          continue;
        experts.parameters[arg] = position;
        for (const auto &[op, factor] : reach.ops)
          experts.ops[op] = {AxisChoice::split, factor};
      }
  }

  /// Adds the ops on routed rows, the lookups of biases of experts, and the
  /// linear ops after products.
  void addRows() {
    SmallVector<Operation *> readers;
    for (Operation &op : facts.func->getRegion(0).front()) {
      if (!facts.isForward(&op))
        continue;
      bool isRouted = op.hasAttr(attr::kRouted);
      auto product = dyn_cast<ExpertMatmulOp>(op);
      if (product && !experts.ops.contains(product))
        continue;
      if (product && !isRouted)
        addSums(product);
      else if (isRouted && isa<EmbeddingOp>(op))
        addBias(cast<EmbeddingOp>(op));
      else if (isRouted && !product)
        experts.ops[&op] = {AxisChoice::routed};
      if (product || isRouted)
        readers.push_back(&op);
    }
    llvm::for_each(readers, [&](Operation *op) { gatherFor(op); });
  }

  /// Splits a lookup of biases by expert.
  void addBias(EmbeddingOp op) {
    Value table = op.getTable();
    auto factor =
        facts.factors.splittable(op, facts.factors.classOf(table, /*index=*/0));
    if (!factor || !facts.stored.contains(table))
      return;
    experts.ops[op] = {AxisChoice::split, *factor};
    if (isa<BlockArgument>(table))
      experts.parameters[table] = 0;
  }

  /// Adds the ops that sum the choices of the rows of `product`: those up to
  /// the smallest value that is linear in its result, the last one of equal
  /// values.
  void addSums(ExpertMatmulOp product) {
    SmallVector<Operation *> chain;
    double least = sizeInBytes(product.getResult());
    size_t kept = 0;
    Value value = product.getResult();
    while (Operation *user = onlyReader(value)) {
      if (user->getNumResults() != 1 || !isLinear(user, value, product))
        break;
      chain.push_back(user);
      value = user->getResult(0);
      if (double bytes = sizeInBytes(value); bytes <= least) {
        least = bytes;
        kept = chain.size();
      }
    }
    chain.resize(kept);
    for (Operation *op : chain)
      experts.ops[op] = {AxisChoice::gradPartial};
    llvm::for_each(chain, [&](Operation *op) { gatherFor(op); });
  }

  /// Lets the ops that only move or look up data for `op` handle whole batches
  /// of tokens.
  void gatherFor(Operation *op) {
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || experts.ops.contains(producer) ||
          !facts.isForward(producer) || !feedsExpertsOnly(producer))
        continue;
      if (auto bias = dyn_cast<EmbeddingOp>(producer)) {
        addBias(bias);
      } else if (isa<BroadcastOp, ReshapeOp>(producer)) {
        experts.ops[producer] = {AxisChoice::gradPartial};
        gatherFor(producer);
      }
    }
  }

  /// Returns the only forward op that reads `value`, or null.
  Operation *onlyReader(Value value) const {
    Operation *reader = nullptr;
    for (Operation *user : value.getUsers()) {
      if (!facts.isForward(user) || user == reader)
        continue;
      if (reader)
        return nullptr;
      reader = user;
    }
    return reader;
  }

  /// Returns whether `op` adds a bias of the experts of `product`, which is a
  /// partial sum too.
  static bool addsBias(Operation *op, Value value, ExpertMatmulOp product) {
    auto add = dyn_cast<BinaryOp>(op);
    if (!add || add.getKind() != BinaryKind::add)
      return false;
    Value other = add.getA() == value ? add.getB() : add.getA();
    auto lookup = other.getDefiningOp<EmbeddingOp>();
    return lookup &&
           looksUpBias(lookup, product.getIds(), shapeOf(product.getW())[0]);
  }

  /// Returns whether partial sums of `value` give partial sums of the result.
  bool isLinear(Operation *op, Value value, ExpertMatmulOp product) const {
    const ShardingRule &rule = facts.factors.rule(op);
    int64_t index = -1;
    for (OpOperand &operand : op->getOpOperands())
      if (operand.get() == value)
        index = operand.getOperandNumber();
    if (rule.movesData)
      return index == 0;
    auto isAlone = [&](const auto &group) {
      return group.size() == 1 && group.front() == index;
    };
    return addsBias(op, value, product) || llvm::any_of(rule.linear, isAlone);
  }

  /// Adds ops that precede the ops on experts if splitting them by expert sends
  /// no more bytes than splitting the batch.
  void pullProducers() {
    for (Operation &op : llvm::reverse(facts.func->getRegion(0).front())) {
      if (!facts.isForward(&op) || experts.ops.contains(&op) ||
          !feedsExpertsOnly(&op))
        continue;
      for (int64_t cls : classes) {
        std::optional<IterFactor> factor = facts.factors.splittable(&op, cls);
        if (!factor || facts.factors.indexOf(op.getResult(0), cls) < 0)
          continue;
        double early = 0;
        for (Value operand : op.getOperands())
          if (facts.hasBatch(operand))
            early += gatherBytes(operand, cls);
        if (early <= gatherBytes(op.getResults(), cls))
          experts.ops[&op] = {AxisChoice::split, *factor};
        break;
      }
    }
  }

  /// Returns the bytes per rank, times ep / (ep - 1), for a reshard of `values`
  /// between the batch and the experts. A value with both dimensions needs an
  /// all_to_all, other values a gather or a reduction of all elements.
  double gatherBytes(ValueRange values, int64_t cls) const {
    double bytes = 0;
    for (Value value : values) {
      double all = sizeInBytes(value);
      bool both =
          facts.hasBatch(value) && facts.factors.indexOf(value, cls) >= 0;
      bytes += both ? all / ep : all;
    }
    return bytes;
  }

  bool feedsExpertsOnly(Operation *op) const {
    bool any = false;
    for (Operation *user : op->getUsers()) {
      if (!facts.isForward(user))
        continue;
      any = true;
      if (!experts.ops.contains(user))
        return false;
    }
    return any;
  }
};

} // namespace

Experts dpc::findExperts(const ProgramFacts &facts, int64_t ep) {
  return ExpertFinder(facts, ep).run();
}

/// For an op that is not on experts, `ep` splits the batch.
static AxisChoice batchChoice(const ProgramFacts &facts, Operation *op) {
  auto factor = facts.factors.splittable(op, facts.batchClass);
  return factor ? AxisChoice{AxisChoice::split, *factor}
                : AxisChoice{AxisChoice::gradPartial};
}

/// Returns whether an op on experts, or a gradient of one, reads the constant
/// `op` with all tokens.
static bool isReadWhole(const ProgramFacts &facts, const Experts &experts,
                        Operation *op) {
  return op->getNumOperands() == 0 &&
         llvm::any_of(op->getUsers(), [&](Operation *user) {
           auto forward = facts.forwardOf.find(user);
           auto found = experts.ops.find(
               forward == facts.forwardOf.end() ? user : forward->second);
           return found != experts.ops.end() &&
                  found->second.kind != AxisChoice::split;
         });
}

/// For an argument that is not a parameter of experts, `ep` splits the batch.
static AxisState batchState(const ProgramFacts &facts, BlockArgument arg) {
  if (roleOfArgument(facts.func, arg.getArgNumber()) != role::kInput)
    return axis::replicated;
  int64_t index = facts.factors.indexOf(arg, facts.batchClass);
  return index < 0 ? axis::replicated : axis::firstSplit + index;
}

void dpc::chooseExperts(const ProgramFacts &facts, const Experts &experts,
                        const MeshAxis &axis, ShardChoices &choices) {
  Block &block = facts.func->getRegion(0).front();
  for (BlockArgument arg : block.getArguments()) {
    if (!isa<RankedTensorType>(arg.getType()))
      continue;
    auto found = experts.parameters.find(arg);
    choices.arguments[arg].push_back(found != experts.parameters.end()
                                         ? axis::firstSplit + found->second
                                         : batchState(facts, arg));
  }
  for (Operation &op : block) {
    if (!facts.isForward(&op))
      continue;
    auto found = experts.ops.find(&op);
    choices.ops[&op].push_back(found != experts.ops.end() ? found->second
                               : isReadWhole(facts, experts, &op)
                                   ? AxisChoice{AxisChoice::gradPartial}
                                   : batchChoice(facts, &op));
  }
  choices.axes.push_back(axis);
}
