//===- Placement.cpp - Lifetimes, frames and offsets of buffers -----------===//
//
// Time is the position in the list of items: setup, the phases of the loop in
// the order in which a micro-batch runs them, update.
//
// Where micro-batches take turns (no frames) that is the order of the step,
// and one packing of all lifetimes is the arena. Else
//   * what phases hand each other for a micro-batch is packed into its frame;
//   * what lives in one phase only takes bytes of that phase's frame that are
//     not in use meanwhile, if there are enough: the slot is the micro-batch's
//     anyway;
//   * the frames, whole, and all the rest are packed into the arena; frames,
//     sums, and what comes from other stages live through the loop.
// What is outside the device's memory persists: one buffer behind the other.
// A buffer of a communication lives until another queue waits for it in the
// same phase, or to the end of the phase. What takes its bytes later in the
// schedule waits for it (completeEvents).
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/Placement.h"
#include "codegen/plan/ArenaPacking.h"
#include "ir/Lifetimes.h"

using namespace mlir;

namespace dpc::codegen {

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

/// Gives each micro-batch the first slot that is free from its first phase
/// that uses the frame on; it is free again after the last.
static void assignSlots(FramePlan &frame, const StepSchedule &schedule,
                        int64_t microBatches) {
  std::vector<int64_t> left(microBatches, 0); // entries to come
  std::vector<int> reached(microBatches, 0);  // phases
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
    frame.isOrdered &= entry.phase > reached[entry.microBatch];
    reached[entry.microBatch] = entry.phase;
    if (--left[entry.microBatch] == 0)
      taken[slot] = false;
  }
  frame.count = std::max<int64_t>(1, taken.size());
}

/// A buffer goes into the frame of the chunk that touches it first when phases
/// of the loop, and only those, touch it and there are several.
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

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

namespace {

/// For every communication, the first computation or transfer that waits for it
/// or for a later one; the number of items where there is none.
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

/// Lifetimes of a stage's buffers, by id, and what decides where they go.
class Lifetimes {
public:
  Lifetimes(const std::vector<Item> &items, const rt::Plan &plan, int update,
            bool hasFrames)
      : items(items), plan(plan), update(update), hasFrames(hasFrames),
        lives(plan.buffers.size()), isReceived(plan.buffers.size(), false) {
    for (const auto &[i, item] : llvm::enumerate(items)) {
      lastOf.resize(std::max<size_t>(lastOf.size(), item.phase + 1), -1);
      lastOf[item.phase] = i;
      if (inLoop(i)) {
        loopBegin = loopBegin < 0 ? int64_t(i) : loopBegin;
        loopEnd = i;
      }
    }
  }

  void compute(ArrayRef<int> outputsAtEnd);

  Lifetime of(int id) const { return lives[id]; }
  Lifetime ofLoop() const {
    return {0, std::max<int64_t>(0, loopBegin), std::max<int64_t>(0, loopEnd)};
  }
  /// The phase outside of which the buffer is dead, or -1.
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
  bool isAlongStages(int group) const {
    return plan.groups[group].axes ==
           std::vector<std::string>{rt::kPipelineAxis};
  }
  int64_t endOf(int64_t i, const std::vector<int64_t> &waiters) const;

  const std::vector<Item> &items;
  const rt::Plan &plan;
  int update;
  bool hasFrames;
  std::vector<Lifetime> lives;
  std::vector<bool> isReceived; ///< in the loop, from another stage
  std::vector<int64_t> lastOf;  ///< item of a phase
  int64_t loopBegin = -1, loopEnd = -1;
};

} // namespace

/// Until when the buffers of item `i` are in use by it.
int64_t Lifetimes::endOf(int64_t i, const std::vector<int64_t> &waiters) const {
  if (items[i].instruction.queue != rt::Queue::Comm)
    return i;
  if (!hasFrames || !inLoop(i))
    return waiters[i];
  return std::min(waiters[i], lastOf[items[i].phase]);
}

void Lifetimes::compute(ArrayRef<int> outputsAtEnd) {
  int64_t count = items.size();
  std::vector<Touched> touched;
  for (const Item &item : items)
    touched.push_back(touchedBy(item.instruction, plan));
  std::vector<int64_t> waiters = waitersOf(items, touched);
  for (const rt::Buffer &buffer : plan.buffers) {
    lives[buffer.id] = {buffer.viewOf >= 0 ? 0 : buffer.bytes, count, -1};
    if (rt::isPersistent(buffer.kind))
      lives[buffer.id] = {lives[buffer.id].bytes, 0, count};
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int id : llvm::concat<int>(touched[i].reads, touched[i].writes)) {
      lives[id].first = std::min(lives[id].first, i);
      lives[id].last = std::max(lives[id].last, endOf(i, waiters));
    }
    if (auto *recv = std::get_if<rt::RecvOp>(&items[i].instruction.op))
      isReceived[rootOfBuffer(plan, recv->buffer)] =
          hasFrames && inLoop(i) && isAlongStages(recv->group);
  }
  for (int id : outputsAtEnd)
    lives[id].last = count;
  for (const rt::Buffer &buffer : plan.buffers) {
    Lifetime &life = lives[buffer.id];
    if (life.last < 0) // never touched, but it needs bytes inside the arena
      life = {life.bytes, 0, count};
    else if (plan.mesh.microBatches > 1 && loopBegin >= 0 &&
             !rt::isPersistent(buffer.kind))
      extendOverLoop(life, loopBegin, loopEnd, hasFrames);
    // A message may come while other phases run.
    if (isReceived[buffer.id]) {
      life.first = std::min(life.first, loopBegin);
      life.last = std::max(life.last, loopEnd);
    }
  }
}

namespace {

/// Packs the frames of a stage.
class FramePacker {
public:
  FramePacker(rt::Plan &plan, int64_t stage, const Lifetimes &lifetimes)
      : plan(plan), stage(stage), lifetimes(lifetimes) {}

  /// Adds the frame to the plan, with its own buffers and what fits between;
  /// returns its id.
  int pack(const FramePlan &frame);

private:
  void fill(const FramePlan &frame, FrameGaps &gaps, int id);

  rt::Plan &plan;
  int64_t stage;
  const Lifetimes &lifetimes;
};

} // namespace

int FramePacker::pack(const FramePlan &frame) {
  std::vector<Lifetime> lives;
  for (int id : frame.buffers) {
    Lifetime life = lifetimes.of(id);
    if (!frame.isOrdered) // then time says nothing
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
  fill(frame, gaps, id);
  return id;
}

void FramePacker::fill(const FramePlan &frame, FrameGaps &gaps, int id) {
  SmallVector<int> locals;
  for (const rt::Buffer &buffer : plan.buffers) {
    if (buffer.stage != stage || buffer.viewOf >= 0 || buffer.frame >= 0 ||
        rt::isPersistent(buffer.kind) || buffer.bytes == 0)
      continue;
    int phase = lifetimes.onlyPhase(buffer.id);
    if (phase >= 0 && frame.uses[phase])
      locals.push_back(buffer.id);
  }
  llvm::sort(locals, [&](int a, int b) {
    return std::pair(-plan.buffers[a].bytes, a) <
           std::pair(-plan.buffers[b].bytes, b);
  });
  for (int local : locals) {
    int64_t offset = gaps.place(lifetimes.of(local));
    if (offset < 0)
      continue;
    plan.buffers[local].frame = id;
    plan.buffers[local].offset = offset;
  }
}

/// All of it persists, so nothing shares bytes.
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
  Lifetimes lifetimes(list.items, plan, schedule.update(), !frames.empty());
  lifetimes.compute(list.outputsAtEnd);
  FramePacker packer(plan, stage, lifetimes);
  for (FramePlan &frame : frames)
    frame.id = packer.pack(frame);
  // The arena: what is in no frame, and the frames.
  std::vector<Lifetime> lives;
  SmallVector<int64_t *> offsets;
  for (rt::Buffer &buffer : plan.buffers)
    if (buffer.stage == stage && buffer.viewOf < 0 && buffer.frame < 0 &&
        buffer.space == rt::Space::Device) {
      lives.push_back(lifetimes.of(buffer.id));
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
