//===- Events.cpp - Waits and signals between queues ----------------------===//
//
// All items are in one list (by phase, then by op). Three queues run it:
//   * a communication waits for the latest computation that touches what it
//     writes, or writes what it reads, also of an earlier phase: the sums over
//     micro-batches travel while backward of the last one goes on;
//   * a computation that touches what an unfinished communication reads or
//     writes waits for it. Queues are in order, so one wait covers all earlier
//     ones;
//   * a transfer between memory spaces starts when its bytes are free or made,
//     and is waited for where they are touched: that follows from places.
// From these events follow lifetimes and places (Placement.cpp). Then the
// schedule is walked over the places, for what one entry leaves to others.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/Instructions.h"
#include "ir/Lifetimes.h"
#include "runtime/plan/QueueOrder.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

namespace {

/// Decides waits and signals.
class EventPlanner {
public:
  EventPlanner(std::vector<Item> &items, const rt::Plan &plan, int &numEvents)
      : items(items), plan(plan), numEvents(numEvents) {}
  void run();

private:
  void wait(int64_t waiter, int64_t signaller);

  std::vector<Item> &items;
  const rt::Plan &plan;
  int &numEvents;
  LastAccesses compute, comm;
  /// The last item of the queue for which the other queues wait.
  int64_t computeEnded = -1, commEnded = -1;
};

} // namespace

void EventPlanner::wait(int64_t waiter, int64_t signaller) {
  int &event = items[signaller].instruction.signals;
  if (event < 0)
    event = numEvents++;
  std::vector<int> &waits = items[waiter].instruction.waits;
  if (!llvm::is_contained(waits, event))
    waits.push_back(event);
}

/// What a computation or a transfer has waited for is over for the other as far
/// as lifetimes go; completeEvents orders the two.
void EventPlanner::run() {
  for (int64_t i = 0, e = items.size(); i < e; ++i) {
    rt::Queue queue = items[i].instruction.queue;
    Touched touched = touchedBy(items[i].instruction, plan);
    bool isComm = queue == rt::Queue::Comm;
    int64_t last =
        (isComm ? compute : comm).lastConflict(touched.reads, touched.writes);
    if (int64_t &ended = isComm ? computeEnded : commEnded; last > ended) {
      wait(i, last);
      ended = last;
    }
    if (queue != rt::Queue::Copy)
      (isComm ? comm : compute).add(touched.reads, touched.writes, i);
  }
}

void addEvents(std::vector<Item> &items, const rt::Plan &plan, int &numEvents) {
  EventPlanner(items, plan, numEvents).run();
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

/// Walks the whole schedule over the buffers' bytes and adds the events that
/// are missing: an entry finds what another one left unfinished. (An event that
/// was not signalled yet holds nothing up.) Ranks with different shares of
/// the batch have different schedules; an event more keeps what is in order in
/// order.
void completeEvents(rt::Plan &plan, int64_t stage, int &numEvents) {
  rt::PlacedBuffers placed(plan, stage);
  std::set<int64_t> shares;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == stage &&
        shares.insert(plan.mesh.microBatchesOf(rank)).second)
      completeEvents(plan, plan.schedule[rank], placed, numEvents);
}

} // namespace dpc::codegen
