//===- Events.cpp - Waits and signals between queues ----------------------===//
//
// The items of all phases are in one list, which three queues run:
//   * A communication waits for the last computation that conflicts with it,
//     even if this computation belongs to an earlier phase. Thus sums over
//     micro-batches are reduced while the last backward phase still runs.
//   * A computation or a transfer waits for the last communication that
//     conflicts with it. Queues run in order, so one wait covers all earlier
//     communications.
// Some events depend on the offsets of buffers, so completeEvents adds them
// after placement (Placement.cpp): the events between transfers and other
// queues, and the events between entries of the schedule.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/Instructions.h"
#include "ir/Lifetimes.h"
#include "runtime/plan/QueueOrder.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

// If the compute queue or the copy queue waits for a communication, no wait is
// added to the other of these two queues. One wait is enough to find lifetimes,
// and completeEvents adds the missing wait after placement.
void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents) {
  LastAccesses compute, comm;
  // The last item of each queue for which another queue already waits.
  int64_t computeEnded = -1, commEnded = -1;
  for (auto [i, item] : llvm::enumerate(items)) {
    auto [reads, writes] = touchedBy(item.instruction, plan);
    bool isComm = item.instruction.queue == rt::Queue::Comm;
    int64_t last = (isComm ? compute : comm).lastConflict(reads, writes);
    if (int64_t &ended = isComm ? computeEnded : commEnded; last > ended) {
      ended = last;
      int &event = items[last].instruction.signals;
      if (event < 0)
        event = numEvents++;
      item.instruction.waits.push_back(event);
    }
    if (item.instruction.queue != rt::Queue::Copy)
      (isComm ? comm : compute).add(reads, writes, i);
  }
}

static void completeEvents(rt::Plan &plan,
                           const std::vector<rt::ScheduleEntry> &schedule,
                           const rt::PlacedBuffers &placed, int &numEvents) {
  rt::QueueOrder order(placed);
  for (const rt::ScheduleEntry &entry : schedule)
    for (rt::Instruction &instruction : plan.phases.at(entry.phase))
      order.step(instruction, rt::accessesOf(instruction, plan), entry.slots,
                 [&](const rt::QueueOrder::Conflict &conflict) {
                   auto *earlier =
                       const_cast<rt::Instruction *>(conflict.earlier);
                   if (earlier->signals < 0)
                     earlier->signals = numEvents++;
                   instruction.waits.push_back(earlier->signals);
                   return true;
                 });
}

/// Adds an event where an instruction conflicts with an earlier instruction of
/// another queue that may still run. Ranks with different batch shares
/// have different schedules, so each distinct schedule of the stage is checked.
/// An event that only one schedule needs does not affect the others, because
/// waiting for an unsignalled event has no effect.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents) {
  rt::PlacedBuffers placed(plan, stage);
  std::set<int64_t> shares;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == stage &&
        shares.insert(plan.mesh.microBatchesOf(rank)).second)
      completeEvents(plan, plan.schedule[rank], placed, numEvents);
}

} // namespace dpc::codegen
