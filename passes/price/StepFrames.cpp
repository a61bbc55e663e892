//===- StepFrames.cpp - Memory of several micro-batches at once -----------===//
// See StepEstimate.h. The buffers of a frame are packed first. Buffers used by
// only one phase are then placed into gaps of the frame, the largest first.
//===----------------------------------------------------------------------===//
#include "ir/Lifetimes.h"
#include "passes/price/SoftwareBuffers.h"

#include <cmath>
#include <map>

using namespace mlir;
using namespace dpc;
using cost::MemoryCategory;

namespace {

using Run = std::pair<Phase, int64_t>;

struct Frame {
  std::vector<int64_t> buffers;
  std::set<Run> uses;
  int64_t slots = 1;
};

class StepMemory {
public:
  StepMemory(func::FuncOp step, const MemoryOwner &owner) : live(step) {
    if (owner.software)
      countAsSoftware(live, owner);
  }
  cost::MemoryPeak run();
  std::vector<cost::MemoryBreakdown> overStep();
  MemoryProfiles profiles(bool inLine, bool isFramed);

private:
  MemoryProfile profileInLine();
  MemoryProfile profileFramed();
  void findBlocks();
  std::vector<cost::MemoryBreakdown> sums() const;
  void addMoments(MemoryProfile &profile) const;
  void findFrames();
  void countAllSlots();
  void placeFrames();
  std::vector<cost::Buffer> lifetimes() const;
  int64_t endOfHold(const Liveness::Hold &hold) const;
  std::optional<Run> onlyRun(int64_t id, const cost::Buffer &life) const;
  void addFrame(const Frame &frame, const std::vector<cost::Buffer> &lives);

  Liveness live;
  std::map<int64_t, Frame> frames;  ///< By chunk.
  DenseSet<int64_t> framed;         ///< Buffers inside frames.
  std::vector<cost::Buffer> blocks; ///< Frames and buffers outside them.
};

} // namespace

/// Divides `slotBytes`, the bytes of one frame, among the categories in
/// proportion to their bytes at the peak of `members`.
static cost::MemoryBreakdown
categoriesOf(const std::vector<cost::Buffer> &members, double slotBytes) {
  cost::MemoryBreakdown parts = cost::peakMemory(members).categories;
  double total = parts.total();
  for (double &part : parts.bytes)
    part *= total > 0 ? slotBytes / total : 0;
  return parts;
}

static Phase stepPhase(cost::SchedulePhase phase) {
  return phase == cost::SchedulePhase::Forward    ? Phase::forward
         : phase == cost::SchedulePhase::Backward ? Phase::backward
                                                  : Phase::weight;
}

/// Returns the largest number of micro-batches that are live at once, each from
/// its first to its last entry in `uses`.
static int64_t countSlots(const std::vector<cost::ScheduleStep> &table,
                          const std::set<Run> &uses) {
  std::vector<cost::ScheduleStep> entries;
  for (const cost::ScheduleStep &entry : table)
    if (uses.count({stepPhase(entry.phase), entry.chunk}))
      entries.push_back({entry.phase, 0, entry.microBatch});
  return std::max<int64_t>(1, cost::mostAlive(entries, 0));
}

int64_t dpc::countSlots(const std::vector<cost::ScheduleStep> &table,
                        int64_t chunk, const std::set<Phase> &phases) {
  std::set<Run> uses;
  for (Phase phase : phases)
    uses.insert({phase, chunk});
  return ::countSlots(table, uses);
}

/// A buffer is in a frame if it is accessed by several phases, all of them in
/// the loop. The frame belongs to the chunk of the first access.
void StepMemory::findFrames() {
  for (size_t id = 0; id < live.buffers.size(); ++id) {
    std::set<Run> runs;
    bool isOutside = live.buffers[id].last >= live.end() ||
                     live.touches[id].empty() ||
                     live.buffers[id].first < live.loopBegin;
    for (int64_t at : live.touches[id]) {
      isOutside |= !isInLoop(live.runOf(at).first);
      runs.insert(live.runOf(at));
    }
    if (isOutside || runs.size() < 2)
      continue;
    Frame &frame = frames[live.runOf(live.touches[id].front()).second];
    frame.buffers.push_back(id);
    frame.uses.insert(runs.begin(), runs.end());
  }
}

void StepMemory::countAllSlots() {
  std::vector<cost::ScheduleStep> table = scheduleOf(live.step);
  for (auto &[chunk, frame] : frames)
    frame.slots = ::countSlots(table, frame.uses);
  // With one live micro-batch at a time, no frames are needed.
  if (microBatchesOf(live.step) == 1 ||
      (frames.size() == 1 && frames.begin()->second.slots == 1))
    frames.clear();
}

/// The next phase of the loop is unknown, so unfinished communication keeps its
/// buffers until the end of the current phase.
int64_t StepMemory::endOfHold(const Liveness::Hold &hold) const {
  if (!isInLoop(live.runOf(hold.from).first))
    return hold.until;
  int64_t last = hold.from;
  while (last + 1 < live.end() && live.runOf(last + 1) == live.runOf(hold.from))
    ++last;
  return std::min(hold.until, last);
}

std::vector<cost::Buffer> StepMemory::lifetimes() const {
  std::vector<cost::Buffer> lives = live.buffers;
  for (const Liveness::Hold &hold : live.holds)
    lives[hold.buffer].last =
        std::max(lives[hold.buffer].last, endOfHold(hold));
  for (auto [id, life] : llvm::enumerate(lives)) {
    extendOverLoop(life, live.loopBegin, live.loopEnd, /*isMixed=*/true);
    // A message may arrive while another phase runs.
    if (live.received.contains(id)) {
      life.first = std::min(life.first, live.loopBegin);
      life.last = std::max(life.last, live.loopEnd);
    }
  }
  return lives;
}

/// Returns the phase of the loop during which the buffer lives, or nothing if
/// it also lives outside this phase.
std::optional<Run> StepMemory::onlyRun(int64_t id,
                                       const cost::Buffer &life) const {
  if (life.last >= live.end() || live.received.contains(id) ||
      !isInLoop(live.runOf(life.first).first) ||
      live.runOf(life.first) != live.runOf(life.last))
    return std::nullopt;
  return live.runOf(life.first);
}

void StepMemory::addFrame(const Frame &frame,
                          const std::vector<cost::Buffer> &lives) {
  std::vector<cost::Buffer> members;
  members.reserve(frame.buffers.size());
  for (int64_t id : frame.buffers)
    members.push_back(lives[id]);
  Expected<cost::Packing> packing = cost::packBuffers(members);
  assert(packing && "lifetimes are in order");
  FrameGaps gaps(packing->bytes);
  for (auto [offset, life] : llvm::zip_equal(packing->offsets, members))
    gaps.occupy(offset, life);
  cost::MemoryBreakdown categories = categoriesOf(members, packing->bytes);
  for (int i = 0; i < cost::numMemoryCategories; ++i) {
    cost::Buffer block;
    block.category = static_cast<MemoryCategory>(i);
    block.bytes = std::llround(categories.bytes[i] * frame.slots);
    block.first = live.loopBegin;
    block.last = live.loopEnd;
    blocks.push_back(block);
  }
  SmallVector<int64_t> locals;
  for (auto [id, life] : llvm::enumerate(lives)) {
    std::optional<Run> run = onlyRun(id, life);
    if (run && frame.uses.count(*run) && !framed.contains(id))
      locals.push_back(id);
  }
  gaps.fill(std::move(locals), lives,
            [&](int64_t id, int64_t) { framed.insert(id); });
}

void StepMemory::placeFrames() {
  for (const auto &[chunk, frame] : frames)
    framed.insert(frame.buffers.begin(), frame.buffers.end());
  std::vector<cost::Buffer> lives = lifetimes();
  for (const auto &[chunk, frame] : frames)
    addFrame(frame, lives);
  for (auto [id, life] : llvm::enumerate(lives))
    if (!framed.contains(id))
      blocks.push_back(life);
}

void StepMemory::findBlocks() {
  findFrames();
  countAllSlots();
  if (frames.empty())
    blocks = live.inOneLine();
  else
    placeFrames();
}

cost::MemoryPeak StepMemory::run() {
  findBlocks();
  return cost::peakMemory(blocks);
}

std::vector<cost::MemoryBreakdown> StepMemory::overStep() {
  findBlocks();
  return sums();
}

static size_t kindOf(Operation *op) {
  return llvm::hash_combine(op->getName().getAsOpaquePointer(),
                            llvm::hash_combine_range(op->getResultTypes()),
                            llvm::hash_combine_range(op->getOperandTypes()));
}

MemoryProfile StepMemory::profileInLine() {
  MemoryProfile result;
  blocks = live.inOneLine();
  addMoments(result);
  return result;
}

MemoryProfile StepMemory::profileFramed() {
  assert(frames.size() <= 1 && "one chunk");
  if (frames.empty())
    return profileInLine();
  MemoryProfile result;
  blocks.clear();
  placeFrames();
  for (const auto &[phase, chunk] : frames.begin()->second.uses)
    result.framePhases.insert(phase);
  // addFrame puts one block per category first.
  for (int i = 0; i < cost::numMemoryCategories; ++i)
    result.slot.bytes[i] = blocks[i].bytes;
  blocks.erase(blocks.begin(), blocks.begin() + cost::numMemoryCategories);
  addMoments(result);
  return result;
}

MemoryProfiles StepMemory::profiles(bool inLine, bool isFramed) {
  findFrames();
  MemoryProfiles result;
  if (inLine)
    result.inLine = profileInLine();
  if (isFramed)
    result.framed = profileFramed();
  return result;
}

/// Returns the bytes of `blocks` at each op and after the last op.
std::vector<cost::MemoryBreakdown> StepMemory::sums() const {
  std::vector<cost::MemoryBreakdown> changes(live.end() + 2);
  for (const cost::Buffer &block : blocks) {
    changes[block.first][block.category] += alignedBytes(block.bytes);
    changes[block.last + 1][block.category] -= alignedBytes(block.bytes);
  }
  changes.pop_back();
  for (size_t i = 1; i < changes.size(); ++i)
    for (int c = 0; c < cost::numMemoryCategories; ++c)
      changes[i].bytes[c] += changes[i - 1].bytes[c];
  return changes;
}

void StepMemory::addMoments(MemoryProfile &profile) const {
  std::vector<cost::MemoryBreakdown> bytes = sums();
  // Skips ops that communicate, because buckets differ in deeper models. The
  // buffers of a bucket are also live at the next op.
  for (auto [i, op] : llvm::enumerate(live.ops))
    if (!isa<CommunicationOpInterface>(op))
      profile.moments.push_back({phaseOf(op), kindOf(op), bytes[i]});
}

cost::MemoryPeak dpc::estimateMemory(func::FuncOp step,
                                     const MemoryOwner &owner) {
  return StepMemory(step, owner).run();
}

std::vector<cost::MemoryBreakdown>
dpc::memoryOverStep(func::FuncOp step, const MemoryOwner &owner) {
  return StepMemory(step, owner).overStep();
}

MemoryProfiles dpc::profileMemory(func::FuncOp step, bool inLine, bool framed,
                                  const MemoryOwner &owner) {
  return StepMemory(step, owner).profiles(inLine, framed);
}
