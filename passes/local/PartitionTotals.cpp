//===- PartitionTotals.cpp - Sums that the loop over micro-batches reads --===//
//
// A *total* is a sum over all micro-batches, or a function of such sums. It is
// complete only after the last micro-batch. An op of the loop may read one: the
// loss S / N of two sums has the gradient 1 / N for every term of S, and the
// balance loss sum_e F_e P_e of experts has the gradient F_e for P_e. Such a
// total is computed by a *pass* of its own, which runs the forward ops on which
// the total depends for all micro-batches, before the loop that reads it:
//
//   pass 0      sums = clones of forward ops and of dpc.accumulate
//   pass 1      the program. Ops that read the sums of pass 0, and functions of
//               these sums, which each micro-batch computes from them
//
// If a sum itself needs an op that reads a total (x / sum(x) and its gradient),
// more passes precede the last one. The pass of an op is the smallest number
// that satisfies
//   (P1) an op of the loop runs no earlier than the operands that it computes,
//   (P2) an op of the loop that reads a total runs in a later pass than every
//        sum on which the total depends.
// The last pass contains all ops of the loop. An earlier pass contains only
// clones of ops on which its sums depend. Totals that no op of the loop reads
// are computed in the update phase, from the sums of the last pass.
//
// No total is approximated: gradients are those of the whole batch.
//
// A chain of sums that depend on each other (each layer divides by a sum over
// the batch) takes a pass per sum, and each pass repeats the ones before. There
// are at most kMostPasses, so that programs and step times stay below
// kMostPasses + 1 times those of one pass.
//
//===----------------------------------------------------------------------===//
#include "ir/NodeName.h"
#include "passes/local/Partition.h"
#include "passes/shard/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <set>

using namespace mlir;

namespace dpc {

MicroBatchSplits::MicroBatchSplits(func::FuncOp step) : step(step) {}

bool MicroBatchSplits::differs(BlockArgument argument) const {
  func::FuncOp func = step; // its accessors are not const
  auto global =
      func.getArgAttrOfType<TypeAttr>(argument.getArgNumber(), attr::kGlobal);
  auto spec = ShardingSpec::get(cast<RankedTensorType>(global.getValue()));
  std::optional<int64_t> mb = spec->mesh.findAxis(kMicroBatchAxis);
  return mb && spec->usesAxis(*mb);
}

bool MicroBatchSplits::isSplit(Type type) {
  auto [it, isNew] = splits.try_emplace(type, false);
  if (isNew) {
    auto spec = ShardingSpec::get(cast<RankedTensorType>(type));
    std::optional<int64_t> mb = spec->mesh.findAxis(kMicroBatchAxis);
    it->second = mb && spec->splitsAxis(*mb);
  }
  return it->second;
}

bool MicroBatchSplits::differs(Operation *op) {
  if (auto slice = dyn_cast<RankSliceOp>(op))
    return llvm::is_contained(slice.getAxes().getAsValueRange<StringAttr>(),
                              kMicroBatchAxis);
  auto global = op->getAttrOfType<TypeAttr>("global");
  return global && isSplit(global.getValue());
}

namespace {

/// The most passes that compute only sums.
constexpr int64_t kMostPasses = 8;

/// How the value of an op depends on micro-batches.
enum class Kind {
  fixed,  ///< Known before the loop.
  pinned, ///< Fixed, but computed where it is used (dpc.at_use).
  own,    ///< Each micro-batch has its own value.
  total,  ///< A function of sums over all micro-batches.
};

struct Role {
  Kind kind = Kind::fixed;
  /// Of an own value, the first pass that can compute it. Of a total, the last
  /// pass that one of its sums needs.
  int64_t pass = 0;
};

class TotalsPasses {
public:
  explicit TotalsPasses(func::FuncOp step) : step(step), splits(step) {}

  FailureOr<LoopPasses> run() {
    Block &body = step.getBody().front();
    for (Operation &op : body.without_terminator())
      findRole(&op);
    if (passes.last == 0)
      return std::move(passes);
    if (failed(checkCount()))
      return failure();
    remark();
    for (Operation *op : readers)
      for (Value operand : op->getOperands())
        if (roleOf(operand).kind == Kind::total)
          want(operand, passes.last);
    while (!work.empty()) {
      auto [op, pass] = work.pop_back_val();
      for (Value operand : op->getOperands())
        want(operand, pass);
    }
    if (failed(checkStages()))
      return failure();
    for (Operation &op : llvm::make_early_inc_range(body.without_terminator()))
      cloneInto(&op);
    for (Operation *op : readers)
      for (OpOperand &operand : op->getOpOperands())
        operand.set(valueIn(passes.last, operand.get()));
    return std::move(passes);
  }

private:
  /// The role of the value that a reader sees.
  Role roleOf(Value value) const {
    Operation *op = value.getDefiningOp();
    if (!op)
      return {splits.differs(cast<BlockArgument>(value)) ? Kind::own
                                                         : Kind::fixed};
    Role role = roles.lookup(op);
    if (isa<AccumulateOp>(op))
      role.kind = Kind::total;
    return role;
  }

  void findRole(Operation *op) {
    Role role;
    int64_t complete = 0; // all totals that `op` reads are complete before
    bool isOwn = isa<AccumulateOp>(op) || splits.differs(op);
    bool isPinned = op->hasAttr(attr::kAtUse);
    for (Value operand : op->getOperands()) {
      Role from = roleOf(operand);
      isOwn |= from.kind == Kind::own;
      isPinned |= from.kind == Kind::pinned;
      if (from.kind == Kind::total)
        complete = std::max(complete, from.pass + 1);
      else
        role.pass = std::max(role.pass, from.pass);
    }
    if (isOwn) {
      role = {Kind::own, std::max(role.pass, complete)};
      passes.last = std::max(passes.last, role.pass);
      if (complete > 0)
        readers.push_back(op);
    } else if (complete > 0) {
      role = {Kind::total, complete - 1};
    } else {
      role.kind = isPinned ? Kind::pinned : Kind::fixed;
    }
    roles[op] = role;
  }

  /// The pass whose instance of `op` a reader in `pass` reads.
  int64_t passFor(Operation *op, int64_t pass) const {
    return isa<AccumulateOp>(op) ? roles.lookup(op).pass : pass;
  }

  /// Requests the instance of `value` that a reader in `pass` reads, unless the
  /// op itself is this instance.
  void want(Value value, int64_t pass) {
    Operation *op = value.getDefiningOp();
    Kind kind = roleOf(value).kind;
    if (!op || kind == Kind::fixed)
      return;
    if (pass == passes.last && kind != Kind::total)
      return;
    pass = passFor(op, pass);
    if (wanted[op].insert(pass).second)
      work.push_back({op, pass});
  }

  Value valueIn(int64_t pass, Value value) const {
    Operation *op = value.getDefiningOp();
    auto it = op ? clones.find({value, passFor(op, pass)}) : clones.end();
    return it == clones.end() ? value : it->second;
  }

  void cloneInto(Operation *op) {
    auto it = wanted.find(op);
    if (it == wanted.end())
      return;
    OpBuilder builder(op);
    for (int64_t pass : it->second) {
      Operation *clone = builder.clone(*op);
      for (OpOperand &operand : clone->getOpOperands())
        operand.set(valueIn(pass, operand.get()));
      for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
        clones[{from, pass}] = to;
      passes.passOf[clone] = pass;
    }
  }

  /// Returns "FILE: node 'NAME' ", or without FILE if it is unknown.
  std::string subject(Operation *op) {
    auto file = step.getLoc()->findInstanceOf<FileLineColLoc>();
    return (file ? file.getFilename().str() + ": " : "") + nodeOf(op) + " ";
  }

  /// Adds the nodes of the sums on which the total `value` depends.
  void addSums(Value value, llvm::SmallPtrSetImpl<Operation *> &seen,
               std::vector<std::string> &nodes) const {
    Operation *op = value.getDefiningOp();
    if (!op || roleOf(value).kind != Kind::total || !seen.insert(op).second)
      return;
    if (isa<AccumulateOp>(op)) {
      if (std::string node = nodeOf(op); !llvm::is_contained(nodes, node))
        nodes.push_back(std::move(node));
      return;
    }
    for (Value operand : op->getOperands())
      addSums(operand, seen, nodes);
  }

  /// Names the nodes whose sums the loop reads, in program order.
  void remark() {
    llvm::SmallPtrSet<Operation *, 8> seen;
    std::vector<std::string> nodes;
    for (Operation *op : readers)
      for (Value operand : op->getOperands())
        addSums(operand, seen, nodes);
    constexpr size_t kMostNamed = 3;
    std::string named = nodes.front();
    for (size_t i = 1; i < std::min(nodes.size(), kMostNamed); ++i)
      named += ", " + nodes[i];
    if (nodes.size() > kMostNamed)
      named += " and " + std::to_string(nodes.size() - kMostNamed) + " more";
    readers.front()->emitRemark()
        << subject(readers.front())
        << "reads a sum over the whole batch, as the gradient of a ratio or "
           "product of sums does (all such sums: "
        << named << "); such sums are computed first, by " << passes.last
        << " more pass" << (passes.last > 1 ? "es" : "")
        << " over the micro-batches, each of which takes up to the time of a "
           "forward pass";
  }

  LogicalResult checkCount() {
    if (passes.last <= kMostPasses)
      return success();
    Operation *first = *llvm::find_if(readers, [&](Operation *op) {
      return roles.lookup(op).pass > kMostPasses;
    });
    return first->emitError()
           << subject(first)
           << "reads a sum over the whole batch that depends on a chain of "
              "other such sums; the chain takes "
           << passes.last
           << " more passes over the micro-batches, expected at most "
           << kMostPasses << ", or one micro-batch";
  }

  /// A pass takes the stages of a pipeline from the first to the last. So it
  /// cannot contain ops of the backward pass, which takes them in reverse. A
  /// sum is read only by later passes, at whose begin it is sent to any stage.
  LogicalResult checkStages() {
    llvm::DenseMap<Value, int64_t> last; // the last stage behind a value
    for (Operation &op : step.getBody().front().without_terminator()) {
      int64_t behind = 0;
      for (Value operand : op.getOperands())
        if (!operand.getDefiningOp<AccumulateOp>())
          behind = std::max(behind, last.lookup(operand));
      int64_t stage = stageOf(&op).value_or(behind);
      for (Value result : op.getResults())
        last[result] = stage;
      auto it = wanted.find(&op);
      if (it != wanted.end() && *it->second.begin() < passes.last &&
          stage < behind)
        return op.emitError()
               << subject(&op)
               << "is part of a gradient that must be summed over all "
                  "micro-batches before any micro-batch can use it, because "
                  "the forward pass of an earlier stage reads a sum over the "
                  "whole batch; a pipeline cannot run it ahead: expected pp=1 "
                  "or one micro-batch";
    }
    return success();
  }

  func::FuncOp step;
  MicroBatchSplits splits;
  llvm::DenseMap<Operation *, Role> roles;
  SmallVector<Operation *> readers; ///< Ops of the loop that read totals.
  /// The passes for which an op is cloned.
  llvm::MapVector<Operation *, std::set<int64_t>> wanted;
  SmallVector<std::pair<Operation *, int64_t>> work;
  /// By original value and pass.
  llvm::DenseMap<std::pair<Value, int64_t>, Value> clones;
  LoopPasses passes;
};

} // namespace

FailureOr<LoopPasses> addTotalsPasses(func::FuncOp step) {
  return TotalsPasses(step).run();
}

} // namespace dpc
