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
#include "runtime/plan/QueueOrder.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

namespace {

/// The latest accesses of a queue to each buffer (indices of items).
struct LastAccesses {
  explicit LastAccesses(size_t buffers) : reads(buffers, -1), writes(reads) {}
  void add(const Touched &touched, int64_t i) {
    for (int id : touched.reads)
      reads[id] = i;
    for (int id : touched.writes)
      writes[id] = i;
  }
  /// The latest one that has to be over before those of `touched` begin.
  int64_t inTheWayOf(const Touched &touched) const {
    int64_t latest = -1;
    for (int id : touched.reads)
      latest = std::max(latest, writes[id]);
    for (int id : touched.writes)
      latest = std::max({latest, writes[id], reads[id]});
    return latest;
  }

  std::vector<int64_t> reads, writes;
  /// The other queue has waited for all up to here.
  int64_t ended = -1;
};

/// Decides waits and signals.
class EventPlanner {
public:
  EventPlanner(std::vector<Item> &items, const rt::Plan &plan, int &numEvents)
      : items(items), plan(plan), numEvents(numEvents),
        compute(plan.buffers.size()), comm(plan.buffers.size()) {}
  void run();

private:
  void wait(int64_t waiter, int64_t signaller);

  std::vector<Item> &items;
  const rt::Plan &plan;
  int &numEvents;
  LastAccesses compute, comm;
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
    LastAccesses &other = queue == rt::Queue::Comm ? compute : comm;
    int64_t latest = other.inTheWayOf(touched);
    if (latest > other.ended) {
      wait(i, latest);
      other.ended = latest;
    }
    if (queue == rt::Queue::Comm)
      comm.add(touched, i);
    else if (queue == rt::Queue::Compute)
      compute.add(touched, i);
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
