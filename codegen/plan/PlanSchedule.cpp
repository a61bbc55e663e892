//===- PlanSchedule.cpp - Phases, their order, and who is alive when ------===//
#include "codegen/plan/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

/// The value of "dpc.phase" of an op of the loop, or Forward.
static rt::PhaseKind kindIn(Operation *op) {
  auto name = op->getAttrOfType<StringAttr>(attr::kPhase);
  for (rt::PhaseKind kind : {rt::PhaseKind::Setup, rt::PhaseKind::Backward,
                             rt::PhaseKind::Weight, rt::PhaseKind::Update})
    if (name && name.getValue() == StringRef(rt::nameOf(kind)))
      return kind;
  return rt::PhaseKind::Forward;
}

static StepPhase stepPhaseOf(Operation *op) {
  rt::PhaseKind kind = kindIn(op);
  if (kind == rt::PhaseKind::Setup || kind == rt::PhaseKind::Update)
    return {kind, 0};
  auto chunk = op->getAttrOfType<IntegerAttr>(attr::kChunk);
  return {kind, chunk ? chunk.getInt() : 0};
}

int PlanBuilder::phaseOf(Operation *op) const {
  auto it = llvm::find(phases, stepPhaseOf(op));
  return it == phases.end() ? -1 : static_cast<int>(it - phases.begin());
}

std::string PlanBuilder::phaseText(int phase) const {
  return rt::PhaseName{stage, phases[phase].kind, phases[phase].chunk}.text(
      draft.plan.mesh);
}

/// Without a schedule: every micro-batch alone, forward through all chunks,
/// then back.
void PlanBuilder::bindPhases() {
  std::vector<StepPhase> found = {{rt::PhaseKind::Forward, 0}};
  for (Operation &op : step.getBody().front().without_terminator())
    if (!llvm::is_contained(found, stepPhaseOf(&op)))
      found.push_back(stepPhaseOf(&op));
  llvm::sort(found, [](const StepPhase &a, const StepPhase &b) {
    int64_t sign = a.kind == rt::PhaseKind::Forward ? 1 : -1;
    return a.kind != b.kind ? a.kind < b.kind : a.chunk * sign < b.chunk * sign;
  });
  phases = {{rt::PhaseKind::Setup, 0}};
  for (const StepPhase &phase : found)
    if (phase.kind != rt::PhaseKind::Setup &&
        phase.kind != rt::PhaseKind::Update)
      phases.push_back(phase);
  phases.push_back({rt::PhaseKind::Update, 0});
  for (int64_t mb = 0; mb < draft.plan.mesh.mostMicroBatches(); ++mb)
    for (int phase = 1; phase < updatePhase(); ++phase)
      loop.push_back({phase, mb});
}

/// A micro-batch runs the phases in the order in which the schedule has them
/// for the first time: it is the one of their data.
LogicalResult PlanBuilder::bindSchedule() {
  auto schedule = step->getAttrOfType<DenseI64ArrayAttr>(attr::kSchedule);
  if (!schedule) {
    bindPhases();
    return success();
  }
  ArrayRef<int64_t> words = schedule.asArrayRef();
  if (words.size() % 3 != 0)
    return step.emitError() << attr::kSchedule << " has " << words.size()
                            << " numbers, expected triples of phase, chunk "
                               "and micro-batch";
  phases = {{rt::PhaseKind::Setup, 0}, {rt::PhaseKind::Update, 0}};
  for (; !words.empty(); words = words.drop_front(3)) {
    int64_t kind = words[0], chunk = words[1], microBatch = words[2];
    if (kind < 1 || kind > 3 || chunk < 0 || microBatch < 0 ||
        microBatch >= draft.plan.mesh.mostMicroBatches())
      return step.emitError()
             << attr::kSchedule << " has the entry (" << kind << ", " << chunk
             << ", " << microBatch
             << "), expected a phase from 1 to 3, a chunk and one of "
             << draft.plan.mesh.mostMicroBatches() << " micro-batches";
    StepPhase phase{static_cast<rt::PhaseKind>(kind), chunk};
    auto it = std::find(phases.begin(), phases.end(), phase);
    if (it == phases.end())
      it = phases.insert(phases.end() - 1, phase);
    loop.push_back({static_cast<int>(it - phases.begin()), microBatch});
  }
  if (phases.size() == 2)
    phases.insert(phases.begin() + 1, StepPhase{});
  return success();
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// Gives each micro-batch the first slot that is free from its first phase
/// that uses the frame on; it is free again after the last.
void PlanBuilder::assignSlots(FramePlan &frame) const {
  int64_t microBatches = draft.plan.mesh.mostMicroBatches();
  std::vector<int64_t> left(microBatches, 0); // entries to come
  std::vector<int> reached(microBatches, 0);  // phases
  for (const LoopEntry &entry : loop)
    left[entry.microBatch] += frame.uses[entry.phase];
  frame.slots.assign(microBatches, -1);
  std::vector<bool> taken;
  for (const LoopEntry &entry : loop) {
    if (!frame.uses[entry.phase])
      continue;
    int64_t &slot = frame.slots[entry.microBatch];
    if (slot < 0) {
      slot = llvm::find(taken, false) - taken.begin();
      if (slot == static_cast<int64_t>(taken.size()))
        taken.push_back(false);
      taken[slot] = true;
    }
    frame.isOrdered &= entry.phase > reached[entry.microBatch];
    reached[entry.microBatch] = entry.phase;
    if (--left[entry.microBatch] == 0)
      taken[slot] = false;
  }
  frame.count = std::max<int64_t>(1, taken.size());
}

/// A buffer goes into the frame of the chunk that touches it first when phases
/// of the loop, and only those, touch it and there are several.
void PlanBuilder::findFrames() {
  rt::Plan &plan = draft.plan;
  std::vector<SmallVector<bool>> touchedIn(
      plan.buffers.size(), SmallVector<bool>(phases.size(), false));
  for (const Item &item : items) {
    rt::Accesses accesses = rt::accessesOf(item.instruction, plan);
    for (const auto *ids : {&accesses.reads, &accesses.writes})
      for (int id : *ids) {
        int parent = plan.buffers[id].viewOf;
        touchedIn[parent >= 0 ? parent : id][item.phase] = true;
      }
  }
  for (const rt::Buffer &buffer : plan.buffers) {
    const SmallVector<bool> &touched = touchedIn[buffer.id];
    if (buffer.stage != stage || buffer.viewOf >= 0 ||
        rt::isPersistent(buffer.kind) || touched.front() || touched.back() ||
        llvm::count(touched, true) < 2 ||
        llvm::is_contained(outputsAtEnd, buffer.id))
      continue;
    int64_t chunk = phases[llvm::find(touched, true) - touched.begin()].chunk;
    auto frame = llvm::find_if(
        frames, [&](const FramePlan &f) { return f.chunk == chunk; });
    if (frame == frames.end()) {
      frames.emplace_back();
      frame = frames.end() - 1;
      frame->chunk = chunk;
      frame->uses.assign(phases.size(), false);
    }
    frame->buffers.push_back(buffer.id);
    for (size_t phase = 0; phase < phases.size(); ++phase)
      frame->uses[phase] = frame->uses[phase] || touched[phase];
  }
  for (FramePlan &frame : frames)
    assignSlots(frame);
  bool isOneLine = plan.mesh.microBatches == 1 || frames.empty() ||
                   (frames.size() == 1 && frames.front().count == 1 &&
                    frames.front().isOrdered);
  if (isOneLine)
    frames.clear();
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

rt::ScheduleEntry PlanBuilder::entryOf(const LoopEntry &entry) const {
  rt::ScheduleEntry result{phaseText(entry.phase), entry.microBatch, {}};
  for (auto [frame, id] : llvm::zip_equal(frames, frameIds))
    if (frame.uses[entry.phase])
      result.slots.push_back({id, frame.slots[entry.microBatch]});
  return result;
}

/// What a rank does that has as many micro-batches as any has, without those
/// that it does not have: as each waits for phases of its own only, the rest
/// goes on in the same order.
static std::vector<rt::ScheduleEntry>
scheduleOf(const std::vector<rt::ScheduleEntry> &longest, int64_t share) {
  std::vector<rt::ScheduleEntry> entries;
  for (const rt::ScheduleEntry &entry : longest)
    if (entry.microBatch < share)
      entries.push_back(entry);
  return entries;
}

void PlanBuilder::fillSchedule() {
  rt::Plan &plan = draft.plan;
  for (Item &item : items) {
    std::string phase = phaseText(item.phase);
    draft.sources[phase].push_back(item.source);
    plan.phases[phase].push_back(std::move(item.instruction));
  }
  items.clear();
  std::vector<rt::ScheduleEntry> entries;
  auto add = [&](const LoopEntry &entry) {
    if (plan.phases.count(phaseText(entry.phase)))
      entries.push_back(entryOf(entry));
  };
  add({setupPhase(), 0});
  llvm::for_each(loop, add);
  add({updatePhase(), 0});
  plan.schedule.resize(plan.ranks());
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == stage)
      plan.schedule[rank] = scheduleOf(entries, plan.mesh.microBatchesOf(rank));
}

} // namespace dpc::codegen
