//===- StageDraft.cpp - A plan, stage by stage ----------------------------===//
#include "codegen/plan/StageDraft.h"
#include "codegen/gpu/CompilePtx.h"
#include "codegen/plan/Placement.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dpc::codegen {

std::string StageDraft::phaseText(int phase) const {
  const StepPhase &named = schedule.phases[phase];
  return rt::PhaseName{stage, named.kind, named.chunk}.text(plan.mesh);
}

static rt::ScheduleEntry entryOf(const StageDraft &s,
                                 ArrayRef<FramePlan> frames,
                                 const LoopEntry &entry) {
  rt::ScheduleEntry result{s.phaseText(entry.phase), entry.microBatch, {}};
  for (const FramePlan &frame : frames)
    if (frame.uses[entry.phase])
      result.slots.push_back({frame.id, frame.slots[entry.microBatch]});
  return result;
}

/// Returns the schedule of a rank with `share` micro-batches. `longest` is the
/// schedule of the rank with the most micro-batches. Its entries for
/// micro-batches >= `share` are removed. This is valid because a phase of a
/// micro-batch waits only for phases of the same micro-batch.
static std::vector<rt::ScheduleEntry>
entriesOf(const std::vector<rt::ScheduleEntry> &longest, int64_t share) {
  std::vector<rt::ScheduleEntry> entries;
  for (const rt::ScheduleEntry &entry : longest)
    if (entry.microBatch < share)
      entries.push_back(entry);
  return entries;
}

static void fillSchedule(StageDraft &s, ArrayRef<FramePlan> frames) {
  rt::Plan &plan = s.plan;
  for (Item &item : s.list.items) {
    std::string phase = s.phaseText(item.phase);
    s.shared.draft.sources[phase].push_back(item.source);
    plan.phases[phase].push_back(std::move(item.instruction));
  }
  s.list.items.clear();
  std::vector<rt::ScheduleEntry> entries;
  auto add = [&](const LoopEntry &entry) {
    if (plan.phases.count(s.phaseText(entry.phase)))
      entries.push_back(entryOf(s, frames, entry));
  };
  add({s.schedule.setup(), 0});
  llvm::for_each(s.schedule.loop, add);
  add({s.schedule.update(), 0});
  plan.schedule.resize(plan.ranks());
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == s.stage)
      plan.schedule[rank] = entriesOf(entries, plan.mesh.microBatchesOf(rank));
}

static LogicalResult addStage(StageDraft &s) {
  if (failed(checkStep(s.step)) || failed(bindMesh(s)))
    return failure();
  FailureOr<StepSchedule> schedule = scheduleOf(s.step, s.plan.mesh);
  if (failed(schedule))
    return failure();
  s.schedule = std::move(*schedule);
  wrapLooseOps(s.step);
  FailureOr<StepBuffers> buffers = orderOf(
      s.step, s.schedule, [&](int phase) { return s.phaseText(phase); });
  if (failed(buffers))
    return failure();
  s.buffers = std::move(*buffers);
  if (failed(bindArguments(s)) || failed(lowerAll(s)) || failed(bindResults(s)))
    return failure();
  remarkOnUncoded(s);
  s.list.order(s.schedule);
  std::vector<FramePlan> frames =
      findFrames(s.plan, s.stage, s.schedule, s.list);
  addEvents(s.list.items, s.plan, s.shared.numEvents);
  placeBuffers(s.plan, s.stage, s.schedule, s.list, frames);
  fillSchedule(s, frames);
  completeEvents(s.plan, s.stage, s.shared.numEvents);
  return success();
}

static LogicalResult startDraft(SharedDraft &shared, func::FuncOp first,
                                const CodegenOptions &options) {
  std::string error;
  auto cpu = resolveTargetCpu(options.targetCpu, error);
  if (!cpu)
    return first.emitError(error);
  if (!options.targetGpu.empty() && !checkTargetGpu(options.targetGpu, error))
    return first.emitError(error);
  shared.draft.cpu = *cpu;
  shared.draft.targetGpu = options.targetGpu;
  shared.draft.emulatesGpu = options.emulatesGpu;
  shared.target = options.targetGpu.empty() ? KernelTarget::cpu
                  : options.emulatesGpu     ? KernelTarget::emulation
                                            : KernelTarget::ptx;
  rt::Plan &plan = shared.draft.plan;
  plan.targetGpu = options.targetGpu;
  plan.model = options.model;
  plan.trains = options.trains;
  plan.targetCpu = cpu->name;
  plan.cpuFeatures = cpu->features;
  plan.lrSchedule = options.lrSchedule;
  shared.draft.kernels = ModuleOp::create(first.getLoc());
  return success();
}

FailureOr<PlanDraft> buildPlan(ArrayRef<func::FuncOp> steps,
                               const CodegenOptions &options) {
  assert(!steps.empty() && "a plan has a stage");
  func::FuncOp first = steps.front();
  DialectRegistry registry;
  registerCodegenDialects(registry);
  registerLoweringModels(registry);
  first->getContext()->appendDialectRegistry(registry);
  first->getContext()
      ->loadDialect<arith::ArithDialect, cf::ControlFlowDialect,
                    LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect>();
  SharedDraft shared;
  if (failed(startDraft(shared, first, options)))
    return failure();
  for (auto [stage, step] : llvm::enumerate(steps)) {
    OwningOpRef<func::FuncOp> copy(func::FuncOp(step).clone());
    StageDraft draft(*copy, stage, shared);
    if (failed(addStage(draft)))
      return failure();
    int64_t stages = shared.draft.plan.mesh.stages();
    if (stages != static_cast<int64_t>(steps.size()))
      return first.emitError()
             << "the step has " << steps.size() << " functions; expected "
             << stages << ", one for each pipeline stage of the mesh";
  }
  return std::move(shared.draft);
}

} // namespace dpc::codegen
