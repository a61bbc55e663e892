//===- StageDemand.cpp - Places of ops in a pipeline ----------------------===//
#include "ir/Attributes.h"
#include "passes/local/Partition.h"
#include "passes/local/SplitStages.h"
#include "passes/shard/Passes.h"

using namespace mlir;

namespace dpc {

/// Returns the lowest and the highest stage on which `value` depends through
/// ops without a stage. If its own op has a stage, both are this stage.
static std::optional<std::pair<int64_t, int64_t>> stagesBehind(Value value) {
  std::optional<std::pair<int64_t, int64_t>> found;
  SmallVector<Value> stack = {value};
  DenseSet<Operation *> seen;
  while (!stack.empty()) {
    Operation *op = stack.pop_back_val().getDefiningOp();
    if (!op || isa<ConstantOp>(op) || !seen.insert(op).second)
      continue;
    if (auto stage = stageOf(op))
      found = found ? std::pair{std::min(found->first, *stage),
                                std::max(found->second, *stage)}
                    : std::pair{*stage, *stage};
    else
      llvm::append_range(stack, op->getOperands());
  }
  return found;
}

std::optional<int64_t> homeOf(Value value) {
  auto stages = stagesBehind(value);
  return stages ? std::optional<int64_t>(stages->first) : std::nullopt;
}

StageDemand::Place StageDemand::placeFor(const Info &info, Place reader) const {
  if (info.home)
    return {isInLoop(info.phase) ? *info.home : kNoStage, *info.home % ranks};
  if (!isInLoop(info.phase))
    return {kNoStage, reader.rank};
  // A sum is complete only after its pass.
  if (reader.stage != kNoStage && reader.stage / stages == info.pass)
    return reader;
  // The op runs with its last producer: stages run in ascending order in the
  // forward phase and in descending order in the backward phase.
  auto behind = stagesBehind(info.op->getResult(0));
  if (!behind)
    return {info.pass * stages + reader.rank, reader.rank};
  int64_t last = info.phase == Phase::forward ? behind->second : behind->first;
  return {info.pass * stages + last % stages, last % ranks};
}

void StageDemand::want(Value value, Place reader) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    isHeldMore |= holders[argument.getArgNumber()].insert(reader.rank).second;
    return;
  }
  Info &info = infos[indices.find(value.getDefiningOp())->second];
  wantOp(info, placeFor(info, reader));
}

static bool isOverStages(Operation *op) {
  return isa<AllReduceOp>(op) &&
         cast<CollectiveOpInterface>(op).isOver(kPipelineAxis);
}

void StageDemand::wantOp(Info &info, Place place) {
  auto at = llvm::lower_bound(info.places, place);
  if (at != info.places.end() && *at == place)
    return;
  info.places.insert(at, place);
  if (isOverStages(info.op))
    for (int64_t rank = 0; rank < ranks; ++rank)
      wantOp(info, placeFor(info, {kNoStage, rank}));
  if (auto own = dyn_cast<StageValueOp>(info.op)) {
    want(own.getValues()[place.rank], place);
    return;
  }
  for (Value operand : info.op->getOperands())
    want(operand, place);
}

/// Returns true if one more rank stage now holds an argument.
bool StageDemand::wantResults(func::FuncOp step, bool alsoUnread) {
  isHeldMore = false;
  Operation *end = step.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(end->getOperands())) {
    auto tied = step.getResultAttrOfType<IntegerAttr>(i, attr::kTies);
    if (tied) {
      std::set<int64_t> &owners = holders[tied.getInt()];
      if (owners.empty() && alsoUnread)
        isHeldMore |= owners.insert(0).second;
      results[i] = owners;
    } else {
      // If all stages have the value (a norm), the last stage returns it.
      Operation *op = value.getDefiningOp();
      auto stage = op ? of(op).home : std::nullopt;
      results[i] = {stage ? *stage % ranks : ranks - 1};
    }
    for (int64_t rank : results[i])
      want(value, {kNoStage, rank});
  }
  return isHeldMore;
}

StageDemand::StageDemand(func::FuncOp step, int64_t ranks, int64_t stages)
    : ranks(ranks), stages(stages), holders(step.getNumArguments()),
      results(step.getNumResults()) {
  for (Operation &op : step.getBody().front().without_terminator()) {
    indices[&op] = infos.size();
    Info &info = infos.emplace_back();
    info.op = &op;
    if (!isa<ConstantOp>(op)) // A constant is wherever it is read.
      info.home = stageOf(&op);
    info.phase = dpc::phaseOf(&op);
    info.pass = chunkOf(&op);
  }
  for (Info &info : infos)
    if (info.home)
      wantOp(info, placeFor(info, {}));
  // A demanded result may need an argument on one more stage, which then also
  // has to return the next value of the argument.
  for (bool alsoUnread : {false, true})
    while (wantResults(step, alsoUnread)) {
    }
  // Every plan of a model has the same inputs.
  for (unsigned i = 0; i < step.getNumArguments(); ++i)
    if (holders[i].empty() && roleOfArgument(step, i) == role::kInput)
      holders[i].insert(0);
}

} // namespace dpc
