//===- StepSchedule.cpp - Phases of a step and their order ----------------===//
#include "codegen/plan/StepSchedule.h"
#include "ir/Attributes.h"
#include "ir/Dialect.h"

using namespace mlir;

namespace dpc::codegen {

static StepPhase stepPhaseOf(Operation *op) {
  auto kind = static_cast<rt::PhaseKind>(dpc::phaseOf(op));
  return {kind, isInLoop(dpc::phaseOf(op)) ? chunkOf(op) : 0};
}

int StepSchedule::phaseOf(Operation *op) const {
  auto it = llvm::find(phases, stepPhaseOf(op));
  return it == phases.end() ? -1 : static_cast<int>(it - phases.begin());
}

static StepSchedule defaultSchedule(func::FuncOp step, const rt::Mesh &mesh) {
  std::vector<StepPhase> found = {{rt::PhaseKind::Forward, 0}};
  for (Operation &op : step.getBody().front().without_terminator())
    if (!llvm::is_contained(found, stepPhaseOf(&op)))
      found.push_back(stepPhaseOf(&op));
  llvm::sort(found, [](const StepPhase &a, const StepPhase &b) {
    int64_t sign = a.kind == rt::PhaseKind::Forward ? 1 : -1;
    return a.kind != b.kind ? a.kind < b.kind : a.chunk * sign < b.chunk * sign;
  });
  StepSchedule result;
  std::vector<StepPhase> &phases = result.phases;
  phases = {{rt::PhaseKind::Setup, 0}};
  for (const StepPhase &phase : found)
    if (phase.kind != rt::PhaseKind::Setup &&
        phase.kind != rt::PhaseKind::Update)
      phases.push_back(phase);
  phases.push_back({rt::PhaseKind::Update, 0});
  for (int64_t mb = 0; mb < mesh.mostMicroBatches(); ++mb)
    for (int phase = 1; phase < result.update(); ++phase)
      result.loop.push_back({phase, mb});
  return result;
}

// Lists phases in the order in which the schedule first runs them. Data flows
// from earlier to later phases in this list.
FailureOr<StepSchedule> scheduleOf(func::FuncOp step, const rt::Mesh &mesh) {
  auto schedule = step->getAttrOfType<DenseI64ArrayAttr>(attr::kSchedule);
  if (!schedule)
    return defaultSchedule(step, mesh);
  StepSchedule result;
  std::vector<StepPhase> &phases = result.phases;
  ArrayRef<int64_t> words = schedule.asArrayRef();
  if (words.size() % 3 != 0)
    return step.emitError() << attr::kSchedule << " has " << words.size()
                            << " numbers, expected triples of phase, chunk "
                               "and micro-batch";
  phases = {{rt::PhaseKind::Setup, 0}, {rt::PhaseKind::Update, 0}};
  for (; !words.empty(); words = words.drop_front(3)) {
    int64_t kind = words[0], chunk = words[1], microBatch = words[2];
    if (kind < 1 || kind > 3 || chunk < 0 || microBatch < 0 ||
        microBatch >= mesh.mostMicroBatches())
      return step.emitError()
             << attr::kSchedule << " has the entry (" << kind << ", " << chunk
             << ", " << microBatch
             << "), expected a phase from 1 to 3, a chunk and one of "
             << mesh.mostMicroBatches() << " micro-batches";
    StepPhase phase{static_cast<rt::PhaseKind>(kind), chunk};
    auto it = std::find(phases.begin(), phases.end(), phase);
    if (it == phases.end())
      it = phases.insert(phases.end() - 1, phase);
    result.loop.push_back({static_cast<int>(it - phases.begin()), microBatch});
  }
  if (phases.size() == 2)
    phases.insert(phases.begin() + 1, StepPhase{});
  return result;
}

} // namespace dpc::codegen
