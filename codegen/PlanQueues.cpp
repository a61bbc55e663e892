//===- PlanQueues.cpp - Events, lifetimes and offsets ---------------------===//
//
// All items are in one global order (by phase, then by op). Two queues run it:
//   * a communication starts when the computation before it has ended;
//   * a computation that touches what an unfinished communication reads or
//     writes waits for it. Communications are in order, so one wait covers all
//     earlier ones.
// A buffer of a communication stays live until a computation has waited for
// it: before that, nothing may take its bytes.
//
//===----------------------------------------------------------------------===//
#include "codegen/ArenaPacking.h"
#include "codegen/PlanBuilder.h"

using namespace mlir;

namespace dpc::codegen {

void PlanBuilder::orderItems() {
  // `tails` follow the producers of what they store.
  for (Item &item : tails)
    items.push_back(std::move(item));
  tails.clear();
  std::vector<Item> ordered;
  for (Phase phase :
       {Phase::setup, Phase::forward, Phase::backward, Phase::update})
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

bool inLoop(const Item &item) {
  return item.phase == Phase::forward || item.phase == Phase::backward;
}

/// Decides waits and signals.
class EventPlanner {
public:
  EventPlanner(std::vector<Item> &items, const rt::Plan &plan)
      : items(items), plan(plan), lastRead(plan.buffers.size(), -1),
        lastWrite(plan.buffers.size(), -1) {}
  void run();

private:
  void communicate(int64_t i);
  void compute(int64_t i);
  void closeLoop();
  void wait(int64_t waiter, int64_t signaller);

  std::vector<Item> &items;
  const rt::Plan &plan;
  /// Latest communication that reads / writes a buffer.
  std::vector<int64_t> lastRead, lastWrite;
  int64_t lastCompute = -1;
  int64_t waitedFor = -1; ///< all communications up to here have ended
  int numEvents = 0;
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

void EventPlanner::compute(int64_t i) {
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
  lastCompute = i;
}

/// With several micro-batches the end of backward meets the start of the next
/// forward: its first instructions wait for what is still under way there (an
/// event that was not signalled yet holds nothing up).
void EventPlanner::closeLoop() {
  int64_t firstCompute = -1, firstComm = -1, lastCompute = -1, lastComm = -1;
  for (auto [i, item] : llvm::enumerate(items)) {
    if (!inLoop(item))
      continue;
    bool comm = item.instruction.queue == rt::Queue::Comm;
    int64_t &first = comm ? firstComm : firstCompute;
    first = first < 0 ? i : first;
    (comm ? lastComm : lastCompute) = i;
  }
  if (firstCompute >= 0 && lastComm >= 0)
    wait(firstCompute, lastComm);
  if (firstComm >= 0 && firstComm < firstCompute && lastCompute >= 0)
    wait(firstComm, lastCompute);
}

void EventPlanner::run() {
  for (int64_t i = 0, e = items.size(); i < e; ++i)
    items[i].instruction.queue == rt::Queue::Comm ? communicate(i) : compute(i);
  if (plan.mesh.microBatches > 1)
    closeLoop();
}

void PlanBuilder::addEvents() { EventPlanner(items, draft.plan).run(); }

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

/// For every communication, the first computation after it that waits for it
/// or a later one; the number of items where there is none. The wait for the
/// last micro-batch's communication (closeLoop) is for an event that comes
/// later: in the first one it is unsignalled, and what setup started runs on.
static std::vector<int64_t> waitersOf(const std::vector<Item> &items) {
  DenseMap<int, int64_t> signaller;
  for (auto [i, item] : llvm::enumerate(items))
    if (item.instruction.signals >= 0)
      signaller[item.instruction.signals] = i;
  int64_t count = items.size();
  std::vector<int64_t> waiters(count, count);
  int64_t done = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (items[i].instruction.queue == rt::Queue::Comm)
      continue;
    for (int event : items[i].instruction.waits)
      for (int64_t c = done + 1; signaller[event] < i && c <= signaller[event];
           ++c) {
        waiters[c] = i;
        done = c;
      }
  }
  return waiters;
}

void PlanBuilder::placeBuffers() {
  rt::Plan &plan = draft.plan;
  int64_t count = items.size();
  std::vector<Lifetime> lives(plan.buffers.size());
  std::vector<int64_t> waiters = waitersOf(items);
  int64_t loopEnd = -1;
  for (int64_t i = 0; i < count; ++i)
    if (inLoop(items[i]))
      loopEnd = i;
  for (const rt::Buffer &buffer : plan.buffers) {
    lives[buffer.id] = {buffer.viewOf >= 0 ? 0 : buffer.bytes, count, -1};
    if (isPersistent(buffer.kind))
      lives[buffer.id] = {lives[buffer.id].bytes, 0, count};
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t end =
        items[i].instruction.queue == rt::Queue::Comm ? waiters[i] : i;
    Touched touched = touchedBy(items[i].instruction, plan);
    for (int id : llvm::concat<int>(touched.reads, touched.writes)) {
      Lifetime &life = lives[id];
      life.first = std::min(life.first, i);
      life.last = std::max(life.last, end);
      // What setup made is read again in the next micro-batch.
      if (plan.mesh.microBatches > 1 && inLoop(items[i]) &&
          items[life.first].phase == Phase::setup)
        life.last = std::max(life.last, loopEnd);
    }
  }
  for (int id : outputsAtEnd)
    lives[id].last = count;
  for (Lifetime &life : lives) {
    if (life.last < 0) // never touched
      life = {0, 0, 0};
    life.first = std::min(life.first, life.last);
  }
  // Untouched buffers still need bytes inside the arena.
  for (const rt::Buffer &buffer : plan.buffers)
    if (buffer.viewOf < 0 && lives[buffer.id].bytes == 0)
      lives[buffer.id] = {buffer.bytes, 0, count};
  ArenaLayout layout = packArena(lives);
  plan.arenaBytes = {layout.bytes};
  for (rt::Buffer &buffer : plan.buffers)
    buffer.offset = buffer.viewOf >= 0
                        ? layout.offsets[buffer.viewOf] + buffer.offset
                        : layout.offsets[buffer.id];
}

void PlanBuilder::fillSchedule() {
  rt::Plan &plan = draft.plan;
  for (Item &item : items)
    plan.phases[kPhaseNames[static_cast<int>(item.phase)]].push_back(
        std::move(item.instruction));
  std::vector<rt::ScheduleEntry> entries;
  auto add = [&](const char *phase, int64_t microBatch) {
    if (plan.phases.count(phase))
      entries.push_back({phase, microBatch, {}});
  };
  add("setup", 0);
  for (int64_t i = 0; i < plan.mesh.microBatches; ++i) {
    add("forward", i);
    add("backward", i);
  }
  add("update", 0);
  plan.schedule.assign(plan.ranks(), entries);
}

} // namespace dpc::codegen
