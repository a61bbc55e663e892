//===- PartitionPhases.cpp - The phase of each op -------------------------===//
//
// Assigns each op to a phase of execution and sorts the ops by phase:
//
//   phase      runs                        ops
//   setup      once, first                 that no micro-batch changes
//   forward    per micro-batch             of the forward pass
//   backward   per micro-batch             of the backward pass, accumulations
//   update     once, last                  that read accumulated values
//
// An op varies with the micro-batch if one of its operands does. Arguments that
// `mb` splits and slices along `mb` vary. Accumulated values do not vary.
//
//   mesh        op                        phase of execution
//   with mb     varies                    its graph phase, forward or backward
//               reads accumulated values  update
//               other                     setup
//   without mb  forward, reads no input   setup
//               other                     its graph phase
//
// Ops with dpc.at_use (which gather a parameter for one phase) and their
// readers stay in their graph phase instead of moving to setup.
//
// No op is in an earlier phase than its operands. Ops of a phase stay in order.
//
//===----------------------------------------------------------------------===//
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/shard/Passes.h"

using namespace mlir;

namespace dpc {

static constexpr size_t kPhases = getMaxEnumValForPhase() + 1;

int64_t runOrder(Phase phase, int64_t chunk) {
  constexpr int64_t kMostChunks = 1 << 20;
  return static_cast<int64_t>(phase) * kMostChunks +
         (phase <= Phase::forward ? chunk : -chunk);
}

namespace {

struct Facts {
  Phase phase = Phase::setup; ///< Of its producer.
  bool varies = false;        ///< Differs between micro-batches.
  bool accumulated = false;   ///< Complete only after the last micro-batch.
  bool fromInput = false;     ///< Depends on the data of the step.
  bool pinned = false; ///< Computed in the phase that uses it (dpc.at_use).
};

static bool slicesMicroBatches(Operation *op) {
  auto slice = dyn_cast<RankSliceOp>(op);
  return slice &&
         llvm::is_contained(slice.getAxes().getAsValueRange<StringAttr>(),
                            kMicroBatchAxis);
}

class PhaseAssigner {
public:
  explicit PhaseAssigner(func::FuncOp step) : step(step) {
    MLIRContext *context = step.getContext();
    phaseName = StringAttr::get(context, attr::kPhase);
    atUseName = StringAttr::get(context, attr::kAtUse);
    for (size_t i = 0; i < kPhases; ++i)
      phases[i] = phaseAttr(context, static_cast<Phase>(i));
    auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
    std::optional<int64_t> mb = mesh.findAxis(kMicroBatchAxis);
    hasMicroBatches = mesh.axisSize(kMicroBatchAxis) > 1;
    for (BlockArgument argument : step.getArguments()) {
      Facts facts;
      unsigned i = argument.getArgNumber();
      facts.fromInput = roleOfArgument(step, i) == role::kInput;
      auto global = step.getArgAttrOfType<TypeAttr>(i, attr::kGlobal);
      auto spec = ShardingSpec::get(cast<RankedTensorType>(global.getValue()));
      facts.varies = mb && spec->usesAxis(*mb);
      known[argument] = facts;
    }
  }

  LogicalResult run() {
    Block &body = step.getBody().front();
    SmallVector<SmallVector<Operation *>, 5> byPhase(kPhases);
    for (Operation &op : body.without_terminator()) {
      FailureOr<Phase> phase = visit(&op);
      if (failed(phase))
        return failure();
      byPhase[static_cast<size_t>(*phase)].push_back(&op);
    }
    for (ArrayRef<Operation *> ops : byPhase)
      for (Operation *op : ops)
        op->moveBefore(body.getTerminator());
    return success();
  }

private:
  Phase phaseFor(Operation *op, const Facts &facts) const {
    std::optional<Phase> graph;
    if (auto phase =
            dyn_cast_or_null<StringAttr>(op->getDiscardableAttr(phaseName)))
      graph = symbolizePhase(phase.getValue());
    Phase least = facts.phase;
    if (!hasMicroBatches) {
      Phase wanted = graph.value_or(std::max(least, Phase::forward));
      if (wanted == Phase::forward && !facts.fromInput && !facts.pinned)
        wanted = Phase::setup;
      return std::max(least, wanted);
    }
    if (facts.accumulated)
      return Phase::update;
    if (!facts.varies && !facts.pinned)
      return Phase::setup;
    // An op with graph phase `update` that varies (a clip factor per
    // micro-batch) runs in the loop.
    Phase wanted = std::clamp(graph.value_or(Phase::forward), Phase::forward,
                              Phase::backward);
    return std::max(least, wanted);
  }

  /// True if micro-batches split `type`. The offset and padding of a shard then
  /// depend on the micro-batch.
  bool isSplitByTime(Type type) {
    auto [it, isNew] = isSplit.try_emplace(type, false);
    if (isNew) {
      auto spec = ShardingSpec::get(cast<RankedTensorType>(type));
      std::optional<int64_t> mb = spec->mesh.findAxis(kMicroBatchAxis);
      it->second = mb && spec->splitsAxis(*mb);
    }
    return it->second;
  }

  FailureOr<Phase> visit(Operation *op) {
    Facts facts;
    for (Value operand : op->getOperands()) {
      const Facts &from = known.find(operand)->second;
      facts.phase = std::max(facts.phase, from.phase);
      facts.varies |= from.varies;
      facts.accumulated |= from.accumulated;
      facts.fromInput |= from.fromInput;
      facts.pinned |= from.pinned;
    }
    facts.pinned |= static_cast<bool>(op->getDiscardableAttr(atUseName));
    facts.varies |= slicesMicroBatches(op);
    if (auto global = op->getAttrOfType<TypeAttr>("global"))
      facts.varies |= isSplitByTime(global.getValue());
    // Accumulations run in every micro-batch, whether or not operands vary.
    facts.varies |= isa<AccumulateOp>(op);
    if (facts.varies && facts.accumulated)
      return op->emitError("reads a value of one micro-batch together with a "
                           "sum over all of them (not supported)");
    facts.phase = phaseFor(op, facts);
    StringAttr phase = phases[static_cast<size_t>(facts.phase)];
    edits.apply(op, {phase},
                [&](NamedAttrList &list) { list.set(phaseName, phase); });
    if (isa<AccumulateOp>(op)) {
      facts.varies = false;
      facts.accumulated = true;
    }
    for (Value result : op->getResults())
      known[result] = facts;
    return facts.phase;
  }

  func::FuncOp step;
  bool hasMicroBatches;
  llvm::DenseMap<Value, Facts> known;
  llvm::DenseMap<Type, bool> isSplit;
  StringAttr phaseName, atUseName;
  std::array<StringAttr, kPhases> phases;
  AttributeEdits edits;
};

} // namespace

LogicalResult assignPhases(func::FuncOp step) {
  return PhaseAssigner(step).run();
}

} // namespace dpc
