//===- CutRepeats.cpp - Cutting repeated layers ---------------------------===//
#include "ir/TensorUtils.h"
#include "passes/shrink/Shrink.h"

using namespace mlir;
using namespace dpc;

namespace {

/// `count` repeats of a layer of `period` ops, from op `begin` on.
struct Run {
  int64_t begin = 0, period = 0, count = 0;
};

/// The ops of a function in order, without constants.
class Layers {
public:
  explicit Layers(func::FuncOp func);
  /// Returns the repeats from which a cut to `keep` removes the most ops; on
  /// ties, the repeats of the shortest layer. Nullopt if no layer repeats.
  std::optional<Run> findRun(int64_t keep) const;
  void cut(const Run &run, int64_t keep);

private:
  SmallVector<Operation *> ops;
  SmallVector<size_t> kinds; ///< hashes of ops, equal for ops that match
  DenseMap<Operation *, int64_t> position;
  mutable func::FuncOp func; // mutable, because FuncOp has no const methods

  bool isSameValue(Value a, Value b, int64_t distance) const;
  bool matches(int64_t at, int64_t distance) const;
  bool readsParameter(const Run &run) const;
};

} // namespace

Layers::Layers(func::FuncOp func) : func(func) {
  for (Operation &op : func.getBody().front().without_terminator())
    if (!isa<ConstantOp>(op)) {
      position[&op] = ops.size();
      ops.push_back(&op);
      kinds.push_back(OperationEquivalence::computeHash(
          &op, OperationEquivalence::ignoreHashValue,
          OperationEquivalence::ignoreHashValue,
          OperationEquivalence::IgnoreLocations));
    }
}

/// True if `a` in one repeat corresponds to `b`, which is `distance` ops later.
bool Layers::isSameValue(Value a, Value b, int64_t distance) const {
  if (a == b)
    return true;
  if (a.getType() != b.getType())
    return false;
  auto first = dyn_cast<OpResult>(a), second = dyn_cast<OpResult>(b);
  if (!first && !second)
    return true; // parameters of different repeats
  if (!first || !second || first.getResultNumber() != second.getResultNumber())
    return false;
  auto one = dyn_cast<ConstantOp>(first.getOwner());
  auto other = dyn_cast<ConstantOp>(second.getOwner());
  if (one && other)
    return one.getValue() == other.getValue();
  return !one && !other &&
         position.lookup(first.getOwner()) + distance ==
             position.lookup(second.getOwner());
}

bool Layers::matches(int64_t at, int64_t distance) const {
  return kinds[at] == kinds[at + distance] &&
         OperationEquivalence::isEquivalentTo(
             ops[at], ops[at + distance],
             [&](Value a, Value b) {
               return success(isSameValue(a, b, distance));
             },
             /*markEquivalent=*/nullptr, OperationEquivalence::IgnoreLocations);
}

/// Distinguishes layers from other repeats, for example an unrolled loop.
bool Layers::readsParameter(const Run &run) const {
  for (int64_t i = run.begin; i < run.begin + run.period; ++i)
    for (Value operand : ops[i]->getOperands())
      if (roleOf(operand) == role::kParameter)
        return true;
  return false;
}

std::optional<Run> Layers::findRun(int64_t keep) const {
  Run best;
  int64_t most = 0, size = ops.size();
  for (int64_t period = 1; period <= size / (keep + 1); ++period) {
    // Cuts of longer layers cannot remove more ops.
    if (size - keep * period <= most)
      break;
    int64_t length = 0;
    for (int64_t i = 0; i + period <= size; ++i) {
      if (i + period < size && matches(i, period)) {
        ++length;
        continue;
      }
      Run run{i - length, period, length / period + 1};
      length = 0;
      int64_t removed = (run.count - keep) * period;
      if (removed > most && readsParameter(run)) {
        best = run;
        most = removed;
      }
    }
  }
  return most > 0 ? std::optional<Run>(best) : std::nullopt;
}

/// Makes users of removed repeats read the last kept repeat.
void Layers::cut(const Run &run, int64_t keep) {
  int64_t end = run.begin + run.count * run.period;
  int64_t last = run.begin + (keep - 1) * run.period;
  for (int64_t i = last + run.period; i < end; ++i) {
    Operation *stays = ops[last + (i - run.begin) % run.period];
    for (auto [later, earlier] :
         llvm::zip(ops[i]->getResults(), stays->getResults()))
      later.replaceUsesWithIf(earlier, [&](OpOperand &use) {
        auto at = position.find(use.getOwner());
        return at == position.end() || at->second >= end;
      });
  }
}

static void removeDead(func::FuncOp func) {
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (!op.hasTrait<mlir::OpTrait::IsTerminator>() && op.use_empty())
      op.erase();
  BitVector dead(func.getNumArguments());
  for (BlockArgument argument : func.getArguments()) {
    StringRef role = roleOf(argument);
    if (argument.use_empty() && !role.empty() && role != role::kInput)
      dead.set(argument.getArgNumber());
  }
  (void)func.eraseArguments(dead);
}

static bool replacesArguments(func::FuncOp forward) {
  return llvm::any_of(llvm::seq(forward.getNumResults()), [&](unsigned i) {
    return forward.getResultAttr(i, attr::kTies) != nullptr;
  });
}

SmallVector<ShrinkSummary::Repeat> dpc::cutRepeats(func::FuncOp forward,
                                                   int64_t layers) {
  SmallVector<ShrinkSummary::Repeat> repeats;
  if (replacesArguments(forward))
    return repeats;
  while (true) {
    Layers found(forward);
    std::optional<Run> run = found.findRun(layers);
    if (!run)
      return repeats;
    found.cut(*run, layers);
    repeats.push_back({run->period, run->count, layers});
    removeDead(forward);
  }
}

std::optional<ShrinkSummary::Repeat> dpc::cutLayers(func::FuncOp forward,
                                                    int64_t layers) {
  if (replacesArguments(forward) || layers < 1)
    return std::nullopt;
  Layers found(forward);
  // Always 1, so that the choice of the layer does not depend on `layers`.
  std::optional<Run> run = found.findRun(1);
  if (!run || run->count <= layers)
    return std::nullopt;
  found.cut(*run, layers);
  removeDead(forward);
  return ShrinkSummary::Repeat{run->period, run->count, layers};
}
