//===- Events.cpp - Waits and signals between queues ----------------------===//
//
// The items of all phases are in one list, which three queues run:
//   * A communication waits for the last computation that conflicts with it,
//     even if that belongs to an earlier phase: sums over micro-batches are
//     reduced while the last backward phase still runs.
//   * A computation or a transfer waits for the last communication that
//     conflicts with it. Queues run in order, so one wait covers all earlier
//     communications.
//   * Waits of and for transfers between memory spaces depend on the offsets of
//     buffers, so completeEvents adds them after Placement.cpp.
// completeEvents also adds the events between entries of the schedule.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/Instructions.h"
#include "ir/Lifetimes.h"
#include "runtime/plan/QueueOrder.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

// Computations and transfers share `commEnded`, which is right for lifetimes;
// completeEvents orders the two queues.
void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents) {
  LastAccesses compute, comm;
  // The last item of a queue for which other queues already wait.
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

//===----------------------------------------------------------------------===//
// Across the entries of the schedule
//===----------------------------------------------------------------------===//

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

/// Walks the whole schedule over the bytes of the buffers and adds an event
/// where an entry conflicts with an unfinished instruction of another entry. A
/// wait for an event that is not signalled yet returns at once. Ranks with
/// different batch shares have different schedules; the events of one do no
/// harm in another.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents) {
  rt::PlacedBuffers placed(plan, stage);
  std::set<int64_t> shares;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == stage &&
        shares.insert(plan.mesh.microBatchesOf(rank)).second)
      completeEvents(plan, plan.schedule[rank], placed, numEvents);
}

} // namespace dpc::codegen
