//===- Placement.cpp - Lifetimes, frames and offsets of buffers -----------===//
//
// A lifetime is a range of positions in the list of items: setup, the phases of
// the loop in the order in which a micro-batch runs them, then update.
//
// If each micro-batch ends before the next one starts, there are no frames:
// items run in the order of the list, and all lifetimes are packed into the
// arena together. Otherwise
//   * the frame of a micro-batch contains the values that cross its phases;
//   * a buffer that only one phase uses is placed into free bytes of a frame
//     that this phase uses, if it fits;
//   * the arena contains the frames and all other buffers. Frames, sums and
//     received messages are live throughout the loop.
//
// Buffers outside device memory are always live and never share bytes. A buffer
// that a communication accesses is live until another queue waits for the
// communication, or until the end of the phase. A later instruction that uses
// the same bytes waits for the communication (completeEvents).
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/Placement.h"
#include "codegen/plan/ArenaPacking.h"
#include "ir/Lifetimes.h"

using namespace mlir;

namespace dpc::codegen {

/// Assigns the first free slot to each micro-batch, from its first to its last
/// phase that uses the frame.
static void assignSlots(FramePlan &frame, const StepSchedule &schedule,
                        int64_t microBatches) {
  std::vector<int64_t> left(microBatches, 0); // number of entries
  std::vector<int> lastPhase(microBatches, 0);
  for (const LoopEntry &entry : schedule.loop)
    left[entry.microBatch] += frame.uses[entry.phase];
  frame.slots.assign(microBatches, -1);
  std::vector<bool> taken;
  for (const LoopEntry &entry : schedule.loop) {
    if (!frame.uses[entry.phase])
      continue;
    int64_t &slot = frame.slots[entry.microBatch];
    if (slot < 0) {
      slot = llvm::find(taken, false) - taken.begin();
      if (slot == static_cast<int64_t>(taken.size()))
        taken.push_back(false);
      taken[slot] = true;
    }
    frame.isOrdered &= entry.phase > lastPhase[entry.microBatch];
    lastPhase[entry.microBatch] = entry.phase;
    if (--left[entry.microBatch] == 0)
      taken[slot] = false;
  }
  frame.count = std::max<int64_t>(1, taken.size());
}

/// A buffer is in a frame if several phases access it and all of them are in
/// the loop. The frame belongs to the chunk of the first of these phases.
std::vector<FramePlan> findFrames(const rt::Plan &plan, int64_t stage,
                                  const StepSchedule &schedule,
                                  const InstructionList &list) {
  size_t phases = schedule.phases.size();
  std::vector<FramePlan> frames;
  std::vector<SmallVector<bool>> touchedIn(plan.buffers.size(),
                                           SmallVector<bool>(phases, false));
  for (const Item &item : list.items) {
    Touched touched = touchedBy(item.instruction, plan);
    for (int id : llvm::concat<int>(touched.reads, touched.writes))
      touchedIn[id][item.phase] = true;
  }
  for (const rt::Buffer &buffer : plan.buffers) {
    const SmallVector<bool> &touched = touchedIn[buffer.id];
    if (buffer.stage != stage || buffer.viewOf >= 0 ||
        rt::isPersistent(buffer.kind) || touched.front() || touched.back() ||
        llvm::count(touched, true) < 2 ||
        llvm::is_contained(list.outputsAtEnd, buffer.id))
      continue;
    int64_t chunk =
        schedule.phases[llvm::find(touched, true) - touched.begin()].chunk;
    auto frame = llvm::find_if(
        frames, [&](const FramePlan &f) { return f.chunk == chunk; });
    if (frame == frames.end()) {
      frames.emplace_back();
      frame = frames.end() - 1;
      frame->chunk = chunk;
      frame->uses.assign(phases, false);
    }
    frame->buffers.push_back(buffer.id);
    for (size_t phase = 0; phase < phases; ++phase)
      frame->uses[phase] = frame->uses[phase] || touched[phase];
  }
  for (FramePlan &frame : frames)
    assignSlots(frame, schedule, plan.mesh.mostMicroBatches());
  bool isOneLine = plan.mesh.microBatches == 1 || frames.empty() ||
                   (frames.size() == 1 && frames.front().count == 1 &&
                    frames.front().isOrdered);
  if (isOneLine)
    frames.clear();
  return frames;
}

namespace {

/// Returns, for each communication, the first computation or transfer that
/// waits for it or for a later communication. If there is none, returns the
/// number of items.
std::vector<int64_t> waitersOf(const std::vector<Item> &items,
                               ArrayRef<Touched> touched) {
  int64_t count = items.size(), ended = 0;
  std::vector<int64_t> waiters(count, count);
  LastAccesses comm;
  for (int64_t i = 0; i < count; ++i) {
    const auto &[reads, writes] = touched[i];
    if (items[i].instruction.queue == rt::Queue::Comm)
      comm.add(reads, writes, i);
    else
      for (int64_t last = comm.lastConflict(reads, writes); ended <= last;)
        waiters[ended++] = i;
  }
  return waiters;
}

class Lifetimes {
public:
  Lifetimes(const InstructionList &list, const rt::Plan &plan, int update,
            bool hasFrames);

  std::vector<Lifetime> lives;
  Lifetime ofLoop() const {
    return {0, std::max<int64_t>(0, loopBegin), std::max<int64_t>(0, loopEnd)};
  }
  /// The phase of the loop that contains the whole lifetime, or -1.
  int onlyPhase(int id) const {
    const Lifetime &life = lives[id];
    int64_t count = items.size();
    if (life.last >= count || !inLoop(life.first) || isReceived[id])
      return -1;
    int phase = items[life.first].phase;
    return items[life.last].phase == phase ? phase : -1;
  }

private:
  bool inLoop(int64_t i) const {
    return items[i].phase > 0 && items[i].phase < update;
  }
  void addAccesses(const rt::Plan &plan, bool hasFrames);

  const std::vector<Item> &items;
  int update;
  std::vector<bool> isReceived; ///< by id: received in the loop
  int64_t loopBegin = -1, loopEnd = -1;
};

} // namespace

/// Extends lifetimes to the accesses of each item. A communication accesses its
/// buffers until another queue waits for it, but with frames at most until the
/// end of its phase.
void Lifetimes::addAccesses(const rt::Plan &plan, bool hasFrames) {
  std::vector<Touched> touched;
  std::vector<int64_t> lastOfPhase(update + 1, -1);
  for (auto [i, item] : llvm::enumerate(items)) {
    touched.push_back(touchedBy(item.instruction, plan));
    lastOfPhase[item.phase] = i;
  }
  std::vector<int64_t> waiters = waitersOf(items, touched);
  for (int64_t i = 0, e = items.size(); i < e; ++i) {
    int64_t end = items[i].instruction.queue != rt::Queue::Comm ? i
                  : hasFrames && inLoop(i)
                      ? std::min(waiters[i], lastOfPhase[items[i].phase])
                      : waiters[i];
    for (int id : llvm::concat<int>(touched[i].reads, touched[i].writes)) {
      lives[id].first = std::min(lives[id].first, i);
      lives[id].last = std::max(lives[id].last, end);
    }
    if (auto *recv = std::get_if<rt::RecvOp>(&items[i].instruction.op))
      isReceived[rootOfBuffer(plan, recv->buffer)] =
          hasFrames && inLoop(i) &&
          plan.groups[recv->group].axes ==
              std::vector<std::string>{rt::kPipelineAxis};
  }
}

Lifetimes::Lifetimes(const InstructionList &list, const rt::Plan &plan,
                     int update, bool hasFrames)
    : items(list.items), update(update),
      isReceived(plan.buffers.size(), false) {
  int64_t count = items.size();
  for (int64_t i = 0; i < count; ++i)
    if (inLoop(i)) {
      loopBegin = loopBegin < 0 ? i : loopBegin;
      loopEnd = i;
    }
  for (const rt::Buffer &buffer : plan.buffers) {
    int64_t bytes = buffer.viewOf >= 0 ? 0 : buffer.bytes;
    lives.push_back(rt::isPersistent(buffer.kind) ? Lifetime{bytes, 0, count}
                                                  : Lifetime{bytes, count, -1});
  }
  addAccesses(plan, hasFrames);
  for (int id : list.outputsAtEnd)
    lives[id].last = count;
  for (const rt::Buffer &buffer : plan.buffers) {
    Lifetime &life = lives[buffer.id];
    if (life.last < 0) // not accessed, but needs bytes in the arena
      life = {life.bytes, 0, count};
    else if (plan.mesh.microBatches > 1 && loopBegin >= 0 &&
             !rt::isPersistent(buffer.kind))
      extendOverLoop(life, loopBegin, loopEnd, hasFrames);
    // A received message may arrive while any phase of the loop runs.
    if (isReceived[buffer.id]) {
      life.first = std::min(life.first, loopBegin);
      life.last = std::max(life.last, loopEnd);
    }
  }
}

/// Adds the frame to the plan and returns its id. Places the buffers of the
/// frame, then fills the gaps with buffers that only one phase uses.
static int packFrame(rt::Plan &plan, int64_t stage, const Lifetimes &lifetimes,
                     const FramePlan &frame) {
  std::vector<Lifetime> lives;
  for (int id : frame.buffers) {
    Lifetime life = lifetimes.lives[id];
    // Phases may run in any order, so the buffers count as always live.
    if (!frame.isOrdered)
      life = {life.bytes, 0, std::numeric_limits<int64_t>::max() / 2};
    lives.push_back(life);
  }
  ArenaLayout layout = packArena(lives);
  int id = static_cast<int>(plan.frames.size());
  plan.frames.push_back(
      {id, stage, frame.chunk, alignedBytes(layout.bytes), frame.count, 0});
  FrameGaps gaps(plan.frames.back().bytes);
  for (auto [i, buffer] : llvm::enumerate(frame.buffers)) {
    plan.buffers[buffer].frame = id;
    plan.buffers[buffer].offset = layout.offsets[i];
    if (lives[i].bytes > 0)
      gaps.occupy(layout.offsets[i], lives[i]);
  }
  SmallVector<int64_t> locals;
  for (const rt::Buffer &buffer : plan.buffers) {
    int phase = lifetimes.onlyPhase(buffer.id);
    if (buffer.stage == stage && buffer.viewOf < 0 && buffer.frame < 0 &&
        !rt::isPersistent(buffer.kind) && buffer.bytes > 0 && phase >= 0 &&
        frame.uses[phase])
      locals.push_back(buffer.id);
  }
  gaps.fill(std::move(locals), lifetimes.lives,
            [&](int64_t local, int64_t offset) {
              plan.buffers[local].frame = id;
              plan.buffers[local].offset = offset;
            });
  return id;
}

/// Host and disk buffers are all persistent.
static void placeInSpaces(rt::Plan &plan, int64_t stage) {
  for (auto [space, sizes] : {std::pair(rt::Space::Host, &plan.hostBytes),
                              std::pair(rt::Space::Disk, &plan.diskBytes)}) {
    sizes->resize(plan.mesh.stages());
    int64_t &end = (*sizes)[stage];
    for (rt::Buffer &buffer : plan.buffers)
      if (buffer.stage == stage && buffer.space == space) {
        buffer.offset = end;
        end += alignedBytes(buffer.bytes);
      }
  }
}

void placeBuffers(rt::Plan &plan, int64_t stage, const StepSchedule &schedule,
                  const InstructionList &list, std::vector<FramePlan> &frames) {
  Lifetimes lifetimes(list, plan, schedule.update(), !frames.empty());
  for (FramePlan &frame : frames)
    frame.id = packFrame(plan, stage, lifetimes, frame);
  // The arena holds the frames and the buffers that are in no frame.
  std::vector<Lifetime> lives;
  SmallVector<int64_t *> offsets;
  for (rt::Buffer &buffer : plan.buffers)
    if (buffer.stage == stage && buffer.viewOf < 0 && buffer.frame < 0 &&
        buffer.space == rt::Space::Device) {
      lives.push_back(lifetimes.lives[buffer.id]);
      offsets.push_back(&buffer.offset);
    }
  for (const FramePlan &planned : frames) {
    rt::Frame &frame = plan.frames[planned.id];
    Lifetime life = lifetimes.ofLoop();
    life.bytes = frame.bytes * frame.count;
    lives.push_back(life);
    offsets.push_back(&frame.offset);
  }
  ArenaLayout layout = packArena(lives);
  for (auto [offset, value] : llvm::zip_equal(offsets, layout.offsets))
    *offset = value;
  for (rt::Buffer &buffer : plan.buffers)
    if (buffer.stage == stage && buffer.viewOf >= 0) {
      buffer.frame = plan.buffers[buffer.viewOf].frame;
      buffer.offset += plan.buffers[buffer.viewOf].offset;
    }
  plan.arenaBytes.resize(plan.mesh.stages());
  plan.arenaBytes[stage] = layout.bytes;
  placeInSpaces(plan, stage);
}

} // namespace dpc::codegen
