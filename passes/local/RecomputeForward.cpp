//===- RecomputeForward.cpp - Ops and values of the forward phase ---------===//
#include "ir/TensorUtils.h"
#include "passes/local/Recompute.h"
#include "passes/shard/Passes.h"

using namespace mlir;
using namespace dpc;

/// A collective's result is kept if it is at least this many times smaller than
/// the largest value of its run.
static constexpr int64_t kSmallShare = 64;

bool dpc::isForward(Operation *op) {
  return op && markedPhase(op) == Phase::forward;
}

bool dpc::isBackward(Operation *op) {
  Phase phase = phaseOf(op);
  return phase == Phase::backward || phase == Phase::weight;
}

bool dpc::isRepeatable(Operation *op) {
  return !isa<AccumulateOp>(op) &&
         (isMemoryEffectFree(op) || isa<CollectiveOpInterface>(op));
}

ForwardPhase::ForwardPhase(func::FuncOp func) {
  findOps(func);
  findValues();
}

void ForwardPhase::findOps(func::FuncOp func) {
  auto isFreeValue = [&](Value value) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      StringRef role = roleOfArgument(func, argument.getArgNumber());
      return !role.empty() && role != role::kInput;
    }
    Operation *op = value.getDefiningOp();
    return phaseOf(op) == Phase::setup || freeOps.contains(op);
  };
  std::pair<Attribute, Attribute> where;
  for (auto [i, op] : llvm::enumerate(func.getBody().front())) {
    if (!isForward(&op))
      continue;
    positions[&op] = i;
    if (isRepeatable(&op) && llvm::all_of(op.getOperands(), isFreeValue)) {
      freeOps.insert(&op);
      continue;
    }
    std::pair<Attribute, Attribute> here{op.getAttr(attr::kStage),
                                         op.getAttr(attr::kChunk)};
    if (runs.empty() || here != where)
      runs.emplace_back();
    where = here;
    placeInRun[&op] = {runs.size() - 1, runs.back().ops.size()};
    runs.back().ops.push_back(&op);
  }
}

void ForwardPhase::describe(Run &run, size_t at, Value result) {
  Made made{result, sizeInBytes(result), at, at, false};
  SmallVector<Value> names = {result};
  while (!names.empty()) {
    Value name = names.pop_back_val();
    for (Operation *user : name.getUsers()) {
      made.crosses |= isBackward(user);
      if (isBackward(user))
        continue;
      auto place = placeInRun.find(user);
      // A reader outside the run needs the original value.
      if (place == placeInRun.end() || &runs[place->second.first] != &run) {
        fixed.insert(result);
        continue;
      }
      made.last = std::max(made.last, place->second.second);
      if (isa<ReshapeOp>(user))
        names.push_back(user->getResult(0));
    }
  }
  if (!isRepeatable(run.ops[at]) && made.crosses)
    fixed.insert(result);
  if (!fixed.contains(result))
    run.values.push_back(made);
}

void ForwardPhase::findValues() {
  for (Run &run : runs) {
    for (auto [at, op] : llvm::enumerate(run.ops))
      if (!isa<ReshapeOp>(op))
        for (Value result : op->getResults())
          describe(run, at, result);
    int64_t largest = 0;
    for (const Made &made : run.values)
      largest = std::max(largest, made.bytes);
    llvm::erase_if(run.values, [&](const Made &made) {
      bool small = isa<CollectiveOpInterface>(made.value.getDefiningOp()) &&
                   made.bytes * kSmallShare <= largest;
      if (small)
        fixed.insert(made.value);
      return small;
    });
  }
}

Operation *dpc::twinOf(Operation *op, ValueRange operands) {
  if (operands.empty())
    return nullptr;
  for (Operation *user : operands.front().getUsers())
    if (isBackward(user) && user->getName() == op->getName() &&
        user->getOperands() == operands &&
        user->getResultTypes() == op->getResultTypes() &&
        user->getPropertiesAsAttribute() == op->getPropertiesAsAttribute())
      return user;
  return nullptr;
}
