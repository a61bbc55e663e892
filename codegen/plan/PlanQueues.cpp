//===- PlanQueues.cpp - Events between the two queues ---------------------===//
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
// From these events follow lifetimes and places (PlanFrames.cpp). Then the
// schedule is walked over the places, for what one entry leaves to others.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/PlanBuilder.h"
#include "runtime/plan/QueueOrder.h"

#include <set>

using namespace mlir;

namespace dpc::codegen {

void PlanBuilder::orderItems() {
  // `tails` follow the producers of what they store.
  for (Item &item : tails)
    items.push_back(std::move(item));
  tails.clear();
  std::vector<Item> ordered;
  for (int phase = 0; phase <= updatePhase(); ++phase)
    for (Item &item : items)
      if (item.phase == phase)
        ordered.push_back(std::move(item));
  items = std::move(ordered);
}

namespace {

/// Ids of the buffers (never views) that an instruction touches.
struct Touched {
  SmallVector<int> reads, writes;
};

Touched touchedBy(const rt::Instruction &instruction, const rt::Plan &plan) {
  rt::Accesses accesses = rt::accessesOf(instruction, plan);
  auto roots = [&](const std::vector<int> &ids) {
    SmallVector<int> result;
    for (int id : ids) {
      int parent = plan.buffers[id].viewOf;
      result.push_back(parent >= 0 ? parent : id);
    }
    return result;
  };
  return {roots(accesses.reads), roots(accesses.writes)};
}

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

void PlanBuilder::addEvents() {
  EventPlanner(items, draft.plan, shared.numEvents).run();
}

//===----------------------------------------------------------------------===//
// Across the entries of the schedule
//===----------------------------------------------------------------------===//

/// Walks the whole schedule over the buffers' bytes and adds the events that
/// are missing: an entry finds what another one left unfinished. (An event that
/// was not signalled yet holds nothing up.) Ranks with unlike shares of the
/// batch have unlike schedules; an event more keeps what is in order in order.
void PlanBuilder::completeEvents() {
  rt::PlacedBuffers placed(draft.plan, stage);
  std::set<int64_t> shares;
  for (int64_t rank = 0; rank < draft.plan.ranks(); ++rank)
    if (draft.plan.mesh.stageOf(rank) == stage &&
        shares.insert(draft.plan.mesh.microBatchesOf(rank)).second)
      completeEvents(draft.plan.schedule[rank], placed);
}

void PlanBuilder::completeEvents(const std::vector<rt::ScheduleEntry> &schedule,
                                 const rt::PlacedBuffers &placed) {
  rt::Plan &plan = draft.plan;
  rt::QueueOrder order(placed);
  for (const rt::ScheduleEntry &entry : schedule)
    for (rt::Instruction &instruction : plan.phases.at(entry.phase))
      order.step(instruction, rt::accessesOf(instruction, plan), entry.slots,
                 [&](const rt::QueueOrder::Conflict &conflict) {
                   auto *earlier =
                       const_cast<rt::Instruction *>(conflict.earlier);
                   if (earlier->signals < 0)
                     earlier->signals = shared.numEvents++;
                   instruction.waits.push_back(earlier->signals);
                   return true;
                 });
}

} // namespace dpc::codegen
