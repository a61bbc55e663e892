//===- PlanQueues.cpp - Events between the two queues ---------------------===//
//
// All items are in one list (by phase, then by op). Three queues run it:
//   * a communication starts when the computation before it has ended;
//   * a computation that touches what an unfinished communication reads or
//     writes waits for it. Communications are in order, so one wait covers all
//     earlier ones;
//   * a transfer between memory spaces starts when its bytes are free or made,
//     and is waited for where they are touched: that follows from places.
// From these events follow lifetimes and places (PlanFrames.cpp). Then the
// schedule is walked over the places, for what one entry leaves to others.
//
//===----------------------------------------------------------------------===//
#include "codegen/PlanBuilder.h"
#include "runtime/plan/QueueOrder.h"

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

/// Decides waits and signals.
class EventPlanner {
public:
  EventPlanner(std::vector<Item> &items, const rt::Plan &plan, bool hasFrames,
               int &numEvents)
      : items(items), plan(plan), hasFrames(hasFrames), numEvents(numEvents),
        lastRead(plan.buffers.size(), -1), lastWrite(plan.buffers.size(), -1) {}
  void run();

private:
  void communicate(int64_t i);
  void waitForComm(int64_t i);
  void wait(int64_t waiter, int64_t signaller);

  std::vector<Item> &items;
  const rt::Plan &plan;
  bool hasFrames;
  int &numEvents;
  /// Latest communication that reads / writes a buffer.
  std::vector<int64_t> lastRead, lastWrite;
  int64_t lastCompute = -1;
  int64_t waitedFor = -1; ///< somebody waited for all communications up to here
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

void EventPlanner::communicate(int64_t i) {
  if (lastCompute >= 0)
    wait(i, lastCompute);
  Touched touched = touchedBy(items[i].instruction, plan);
  for (int id : touched.reads)
    lastRead[id] = i;
  for (int id : touched.writes)
    lastWrite[id] = i;
}

/// A computation or transfer. (What one of them has waited for is over for the
/// other as far as lifetimes go; completeEvents orders the two.)
void EventPlanner::waitForComm(int64_t i) {
  Touched touched = touchedBy(items[i].instruction, plan);
  int64_t latest = -1;
  for (int id : touched.reads)
    latest = std::max(latest, lastWrite[id]);
  for (int id : touched.writes)
    latest = std::max({latest, lastWrite[id], lastRead[id]});
  if (latest > waitedFor) {
    wait(i, latest);
    waitedFor = latest;
  }
  if (items[i].instruction.queue == rt::Queue::Compute)
    lastCompute = i;
}

void EventPlanner::run() {
  for (int64_t i = 0, e = items.size(); i < e; ++i) {
    // Where phases are mixed, what is before a phase in the list need not be
    // so in the schedule: a message is not to wait for it.
    if (hasFrames && i > 0 && items[i].phase != items[i - 1].phase)
      lastCompute = -1;
    if (items[i].instruction.queue == rt::Queue::Comm)
      communicate(i);
    else
      waitForComm(i);
  }
}

void PlanBuilder::addEvents() {
  EventPlanner(items, draft.plan, !frames.empty(), shared.numEvents).run();
}

//===----------------------------------------------------------------------===//
// Across the entries of the schedule
//===----------------------------------------------------------------------===//

/// Walks the whole schedule over the buffers' bytes and adds the events that
/// are missing: an entry finds what another one left unfinished. (An event that
/// was not signalled yet holds nothing up.)
void PlanBuilder::completeEvents() {
  rt::Plan &plan = draft.plan;
  const std::vector<rt::ScheduleEntry> *schedule = nullptr;
  for (int64_t rank = 0; rank < plan.ranks(); ++rank)
    if (plan.mesh.stageOf(rank) == stage)
      schedule = &plan.schedule[rank];
  rt::PlacedBuffers placed(plan, stage);
  rt::QueueOrder order(placed);
  for (const rt::ScheduleEntry &entry : *schedule)
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
