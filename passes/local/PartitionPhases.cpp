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
// With passes of totals (see below), these phases run in this order:
//
//   setup      once, first
//   forward    per pass and micro-batch    of passes 0 .. last - 1
//   forward    per micro-batch             of the last pass
//   backward   per micro-batch             of the last pass
//   update     once, last
//
// An op varies with the micro-batch if one of its operands does. Arguments that
// `mb` splits and slices along `mb` vary. Accumulated values do not vary.
//
//   mesh        op                        phase of execution
//   with mb     varies                    its graph phase, forward or backward
//               reads accumulated values  update
//               other                     setup
//   without mb  forward, reads no input   setup
//               reads a gathered value    its graph phase
//               other                     its graph phase
//
// If an op of the loop reads accumulated values, several passes run over all
// micro-batches (PartitionTotals.cpp). All but the last one are forward phases.
// `dpc.chunk` is the pass of an op, and `dpc.schedule` runs one pass after the
// other.
//
// Ops with dpc.at_use (which gather a parameter for one phase) and their
// readers stay in their graph phase instead of moving to setup. So do all
// gathers of a step without micro-batches: if they were in setup, the kernels
// that arrange what they gather would wait there for all gathers, before the
// first kernel of the forward pass.
//
// No op is in an earlier phase than its operands. Ops of a phase stay in order.
//
//===----------------------------------------------------------------------===//
#include "passes/local/CopyAttributes.h"
#include "passes/local/Partition.h"
#include "passes/local/ScheduleTable.h"
#include "passes/shard/Passes.h"

#include <map>

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
  bool pinned = false;        ///< Computed in the phase that uses it.
};

class PhaseAssigner {
public:
  PhaseAssigner(func::FuncOp step, LoopPasses passes)
      : step(step), splits(step), passes(std::move(passes)) {
    MLIRContext *context = step.getContext();
    chunkName = StringAttr::get(context, attr::kChunk);
    phaseName = StringAttr::get(context, attr::kPhase);
    atUseName = StringAttr::get(context, attr::kAtUse);
    for (size_t i = 0; i < kPhases; ++i)
      phases[i] = phaseAttr(context, static_cast<Phase>(i));
    auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
    hasMicroBatches = mesh.axisSize(kMicroBatchAxis) > 1;
    for (BlockArgument argument : step.getArguments()) {
      Facts facts;
      unsigned i = argument.getArgNumber();
      facts.fromInput = roleOfArgument(step, i) == role::kInput;
      facts.varies = splits.differs(argument);
      known[argument] = facts;
    }
  }

  LogicalResult run() {
    Block &body = step.getBody().front();
    std::map<int64_t, SmallVector<Operation *>> byOrder;
    for (Operation &op : body.without_terminator()) {
      Phase phase = visit(&op);
      byOrder[runOrder(phase, isInLoop(phase) ? passOf(&op) : 0)].push_back(
          &op);
    }
    for (const auto &[order, ops] : byOrder)
      for (Operation *op : ops)
        op->moveBefore(body.getTerminator());
    if (passes.last > 0)
      markPasses();
    return failure(hasFailed);
  }

private:
  int64_t passOf(Operation *op) const {
    auto copy = passes.passOf.find(op);
    return copy == passes.passOf.end() ? passes.last : copy->second;
  }

  /// The stages of a pipeline get their tables from dpc-split-stages.
  void markPasses() {
    Builder builder(step.getContext());
    step->setAttr(attr::kTotalsPasses, builder.getI64IntegerAttr(passes.last));
    auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
    if (mesh.axisSize(kPipelineAxis) > 1)
      return;
    bool trains = llvm::any_of(step.getOps(), [](Operation &op) {
      return phaseOf(&op) == Phase::backward;
    });
    std::vector<cost::ScheduleStep> table;
    for (int64_t m = 0; m < mesh.axisSize(kMicroBatchAxis); ++m) {
      table.push_back({cost::SchedulePhase::Forward, 0, m});
      if (trains)
        table.push_back({cost::SchedulePhase::Backward, 0, m});
    }
    setTable(step, cost::afterPasses(table, passes.last, /*chunks=*/1));
  }

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

  Phase visit(Operation *op) {
    bool isCopy = passes.passOf.contains(op);
    Facts facts;
    for (Value operand : op->getOperands()) {
      const Facts &from = known.find(operand)->second;
      facts.phase = std::max(facts.phase, from.phase);
      facts.varies |= from.varies;
      facts.accumulated |= from.accumulated;
      facts.fromInput |= from.fromInput;
      facts.pinned |= from.pinned;
    }
    facts.pinned |= static_cast<bool>(op->getDiscardableAttr(atUseName)) ||
                    (!hasMicroBatches && isa<AllGatherOp>(op));
    // Accumulations run in every micro-batch, whether or not operands vary. A
    // copy runs in the loop, whose later passes read its sums.
    facts.varies |= splits.differs(op) || isa<AccumulateOp>(op) || isCopy;
    if (facts.varies && facts.accumulated) {
      op->emitError()
          << "'" << op->getName()
          << "' runs in every micro-batch, but reads a sum over all "
             "micro-batches that is not complete (not supported)";
      hasFailed = true;
    }
    facts.phase =
        passOf(op) < passes.last ? Phase::forward : phaseFor(op, facts);
    mark(op, facts.phase);
    if (isa<AccumulateOp>(op) && !isCopy) {
      facts.varies = false;
      facts.accumulated = true;
    }
    for (Value result : op->getResults())
      known[result] = facts;
    return facts.phase;
  }

  void mark(Operation *op, Phase inPhase) {
    StringAttr phase = phases[static_cast<size_t>(inPhase)];
    int64_t pass = isInLoop(inPhase) ? passOf(op) : 0;
    Attribute chunk;
    if (pass > 0)
      chunk = IntegerAttr::get(IntegerType::get(op->getContext(), 64), pass);
    edits.apply(op, {phase, chunk}, [&](NamedAttrList &list) {
      list.set(phaseName, phase);
      if (chunk)
        list.set(chunkName, chunk);
    });
  }

  func::FuncOp step;
  MicroBatchSplits splits;
  LoopPasses passes;
  bool hasMicroBatches;
  bool hasFailed = false; ///< An op reads an incomplete sum.
  llvm::DenseMap<Value, Facts> known;
  StringAttr phaseName, chunkName, atUseName;
  std::array<StringAttr, kPhases> phases;
  AttributeEdits edits;
};

} // namespace

LogicalResult assignPhases(func::FuncOp step) {
  LoopPasses passes;
  auto mesh = step->getAttrOfType<MeshAttr>(attr::kMesh);
  if (mesh.axisSize(kMicroBatchAxis) > 1) {
    FailureOr<LoopPasses> found = addTotalsPasses(step);
    if (failed(found))
      return failure();
    passes = std::move(*found);
    // Functions of totals that only the loop reads are now in the loop.
    if (passes.last > 0)
      eraseDeadOps(step.getBody().front());
  }
  return PhaseAssigner(step, std::move(passes)).run();
}

} // namespace dpc
