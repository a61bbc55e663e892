//===- PartitionPhases.cpp - When an op runs ------------------------------===//
//
//   phase      runs                        holds
//   setup      once, first                 what no micro-batch changes
//   forward    per micro-batch             forward ops
//   backward   per micro-batch             gradients; ends in accumulate
//   update     once, last                  what reads accumulated values
//
// An op varies with the micro-batch when an operand does, where arguments split
// over `mb` and slices by `mb` do, and accumulated values do not.
//
//   mesh has mb   varies                    graph phase, forward or backward
//                 reads accumulated values  update
//                 else                      setup
//   no mb         forward, reads no input   setup
//                 else                      graph phase
//
// Ops marked dpc.at_use (a parameter gathered for one phase), and what reads
// them, stay in their graph phase instead of going to setup.
//
// An op never runs before what it reads: its phase is at least its operands'.
// Ops are sorted by phase, else they keep their order.
//
//===----------------------------------------------------------------------===//
#include "passes/local/Partition.h"

using namespace mlir;

namespace dpc {

static constexpr llvm::StringLiteral kPhases[] = {
    "setup", "forward", "backward", "weight", "update"};
enum Phase { kSetup, kForward, kBackward, kWeight, kUpdate };

std::optional<int> phaseRank(StringRef phase) {
  for (auto [i, name] : llvm::enumerate(kPhases))
    if (name == phase)
      return i;
  return std::nullopt;
}

int64_t runOrder(StringRef phase, int64_t chunk) {
  constexpr int64_t kMostChunks = 1 << 20;
  int64_t rank = phaseRank(phase).value_or(kForward);
  return rank * kMostChunks + (rank <= kForward ? chunk : -chunk);
}

int64_t runOrder(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(attr::kPhase);
  auto chunk = op->getAttrOfType<IntegerAttr>(attr::kChunk);
  return runOrder(phase ? phase.getValue() : "forward",
                  chunk ? chunk.getInt() : 0);
}

namespace {

/// What phases depend on, per value.
struct Facts {
  int phase = kSetup;       ///< Phase of the op that makes it.
  bool varies = false;      ///< With the micro-batch.
  bool accumulated = false; ///< Known only after the last micro-batch.
  bool fromInput = false;   ///< Depends on the step's data.
  bool pinned = false;      ///< Made where it is used (dpc.at_use).
};

class PhaseAssigner {
public:
  explicit PhaseAssigner(func::FuncOp step);
  LogicalResult run();

private:
  int phaseOf(Operation *op, const Facts &facts) const;
  LogicalResult visit(Operation *op);

  func::FuncOp step;
  bool hasMicroBatches;
  llvm::DenseMap<Value, Facts> known;
};

PhaseAssigner::PhaseAssigner(func::FuncOp step) : step(step) {
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  std::optional<int64_t> mb = mesh.findAxis(kMicroBatchAxis);
  hasMicroBatches = mesh.axisSize(kMicroBatchAxis) > 1;
  for (BlockArgument argument : step.getArguments()) {
    Facts facts;
    unsigned i = argument.getArgNumber();
    auto role = step.getArgAttrOfType<StringAttr>(i, attr::kRole);
    facts.fromInput = role && role.getValue() == role::kInput;
    auto global = step.getArgAttrOfType<TypeAttr>(i, attr::kGlobal);
    auto spec = ShardingSpec::get(cast<RankedTensorType>(global.getValue()));
    facts.varies = mb && spec->usesAxis(*mb);
    known[argument] = facts;
  }
}

int PhaseAssigner::phaseOf(Operation *op, const Facts &facts) const {
  std::optional<int> graph;
  if (auto phase = op->getAttrOfType<StringAttr>(attr::kPhase))
    graph = phaseRank(phase.getValue());
  int least = facts.phase;
  if (!hasMicroBatches) {
    int wanted = graph.value_or(std::max<int>(least, kForward));
    if (wanted == kForward && !facts.fromInput && !facts.pinned)
      wanted = kSetup;
    return std::max(least, wanted);
  }
  if (facts.accumulated)
    return kUpdate;
  if (!facts.varies && !facts.pinned)
    return kSetup;
  // A graph phase `update` inside the loop (a clip factor per micro-batch)
  // still has to run inside it.
  int wanted = std::clamp<int>(graph.value_or(kForward), kForward, kBackward);
  return std::max(least, wanted);
}

static bool slicesMicroBatches(Operation *op) {
  auto slice = dyn_cast<RankSliceOp>(op);
  return slice && llvm::any_of(slice.getAxes(), [](Attribute axis) {
           return cast<StringAttr>(axis).getValue() == kMicroBatchAxis;
         });
}

LogicalResult PhaseAssigner::visit(Operation *op) {
  Facts facts;
  for (Value operand : op->getOperands()) {
    const Facts &from = known[operand];
    facts.phase = std::max(facts.phase, from.phase);
    facts.varies |= from.varies;
    facts.accumulated |= from.accumulated;
    facts.fromInput |= from.fromInput;
    facts.pinned |= from.pinned;
  }
  facts.pinned |= op->hasAttr(attr::kAtUse);
  if (slicesMicroBatches(op))
    facts.varies = true;
  if (auto global = op->getAttrOfType<TypeAttr>("global")) {
    // Where a shard lies, and its padding, may depend on the micro-batch.
    auto spec = ShardingSpec::get(cast<RankedTensorType>(global.getValue()));
    std::optional<int64_t> mb = spec->mesh.findAxis(kMicroBatchAxis);
    facts.varies |= mb && spec->splitsAxis(*mb);
  }
  if (isa<AccumulateOp>(op))
    facts.varies = true; // also a value that does not vary is added each time
  if (facts.varies && facts.accumulated)
    return op->emitError("reads a value of one micro-batch together with a "
                         "sum over all of them (not supported)");
  facts.phase = phaseOf(op, facts);
  op->setAttr(attr::kPhase,
              StringAttr::get(op->getContext(), kPhases[facts.phase]));
  if (isa<AccumulateOp>(op)) {
    facts.varies = false;
    facts.accumulated = true;
  }
  for (Value result : op->getResults())
    known[result] = facts;
  return success();
}

LogicalResult PhaseAssigner::run() {
  Block &body = step.getBody().front();
  SmallVector<SmallVector<Operation *>, 5> byPhase(kUpdate + 1);
  for (Operation &op : body.without_terminator()) {
    if (failed(visit(&op)))
      return failure();
    StringRef phase = op.getAttrOfType<StringAttr>(attr::kPhase).getValue();
    byPhase[*phaseRank(phase)].push_back(&op);
  }
  for (ArrayRef<Operation *> ops : byPhase)
    for (Operation *op : ops)
      op->moveBefore(body.getTerminator());
  return success();
}

} // namespace

LogicalResult assignPhases(func::FuncOp step) {
  return PhaseAssigner(step).run();
}

} // namespace dpc
