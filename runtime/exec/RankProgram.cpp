#include "runtime/exec/RankProgram.h"

#include "runtime/plan/Ledger.h"

#include <map>

namespace dpc::rt {

namespace {

class Unroller {
public:
  Unroller(const Plan &plan, int rank, char *device,
           const KernelLibrary *kernels, bool overlap)
      : plan(plan), rank(rank), device(device), kernels(kernels),
        overlap(overlap) {}

  Expected<RankProgram> run() {
    for (const ScheduleEntry &entry : plan.schedule[rank])
      for (const Instruction &instruction : plan.phases.at(entry.phase))
        DPC_TRY(add(instruction, entry));
    program.events = static_cast<int>(eventIndex.size());
    return std::move(program);
  }

private:
  int denseEvent(int event) {
    return eventIndex.try_emplace(event, static_cast<int>(eventIndex.size()))
        .first->second;
  }

  Status add(const Instruction &instruction, const ScheduleEntry &entry) {
    Task task;
    task.instruction = &instruction;
    task.entry = &entry;
    if (meetsOthers(plan, instruction.op, rank))
      task.ledgerLine = ledgerLines++;
    program.sends |= std::holds_alternative<SendOp>(instruction.op);
    // Waits for the last signal before this task in the schedule, if any.
    for (int event : instruction.waits)
      if (auto it = signalled.find(event); it != signalled.end())
        task.waits.push_back({denseEvent(event), it->second});
    if (instruction.signals >= 0) {
      task.signals = denseEvent(instruction.signals);
      ++signalled[instruction.signals];
    }
    DPC_TRY(bind(instruction, task));
    Queue queue = overlap ? instruction.queue : Queue::Compute;
    program.queues[static_cast<int>(queue)].push_back(std::move(task));
    return Status::success();
  }

  Status bind(const Instruction &instruction, Task &task) {
    if (auto *kernel = std::get_if<KernelOp>(&instruction.op))
      return bind(*kernel, task);
    if (auto *tiles = std::get_if<ExpertTilesOp>(&instruction.op))
      for (const Instruction &inner : tiles->body) {
        Task &next = task.body.emplace_back();
        next.instruction = &inner;
        next.entry = task.entry;
        DPC_TRY(bind(inner, next));
      }
    return Status::success();
  }

  Status bind(const KernelOp &op, Task &task) {
    if (kernels)
      task.function = kernels->find(op.symbol);
    if (kernels && !task.function)
      return Status::notFound("kernel ", op.symbol, " is not loaded");
    for (int id : op.buffers)
      if (device)
        task.pointers.push_back(device +
                                addressOf(plan, id, task.entry->slots));
    for (const ScalarExpr &expr : op.scalars)
      task.scalars.push_back(
          evaluate(expr, plan.mesh, rank, task.entry->microBatch));
    return Status::success();
  }

  const Plan &plan;
  int rank;
  char *device;
  const KernelLibrary *kernels;
  bool overlap;
  RankProgram program;
  int64_t ledgerLines = 0;
  std::map<int, int> eventIndex;
  std::map<int, uint32_t> signalled;
};

} // namespace

Expected<RankProgram> unroll(const Plan &plan, int rank, char *device,
                             const KernelLibrary *kernels, bool overlap) {
  return Unroller(plan, rank, device, kernels, overlap).run();
}

} // namespace dpc::rt
