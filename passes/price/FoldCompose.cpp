//===- FoldCompose.cpp - A large pipeline from two small ones -------------===//
#include "passes/price/FoldCompose.h"

#include "cost-model/machine/SoftwareMemory.h"
#include "passes/local/ScheduleTable.h"
#include "passes/price/SoftwareBuffers.h"

using namespace mlir;
using namespace dpc;

namespace {

/// Composes the evaluation of the large pipeline from the small pipelines.
class Composer {
public:
  Composer(const FoldedPipeline &folded, const SmallProgram &fewer,
           const SmallProgram &more, const LoweringSpec &spec,
           const cost::Cluster &cluster)
      : folded(folded), fewer(fewer), more(more), spec(spec), cluster(cluster) {
  }
  /// Returns nothing if the messages cannot be extrapolated.
  std::optional<cost::Evaluation> run(bool trains);

private:
  const FoldedPipeline &folded;
  const SmallProgram &fewer, &more;
  const LoweringSpec &spec;
  const cost::Cluster &cluster;
  std::vector<StageLine> lines; ///< By shape.
  PipelineParts parts;
  ScheduleTables tables;

  int64_t numStages() const { return folded.stages.size(); }
  const FoldedStage &chunkOf(int64_t rank, int64_t chunk) const {
    return folded.stages[chunk * spec.pp + rank];
  }
  StageParts fixedParts() const;
  void makeStages();
  bool makeMessages();
  bool addNeighbourMessages(int64_t from, int64_t to);
  const StageMessage *counterpart(int64_t number) const;
  StageMessage messageOf(int64_t sent, int64_t needed, int64_t from,
                         int64_t to) const;
  std::vector<int64_t> between(int64_t from, int64_t to) const;
  void addMemory(cost::Evaluation &result) const;
};

} // namespace

/// Returns the fixed costs of a step, which a rank pays once. They are the
/// smallest constant part of all shapes, because the constant part of some
/// shapes includes a part of a layer. If nothing is extrapolated, returns zero,
/// which causes only a small error.
StageParts Composer::fixedParts() const {
  if (folded.isExact)
    return {};
  StageParts fixed = lines.front().fixedParts();
  for (const StageLine &line : lines) {
    StageParts other = line.fixedParts();
    fixed.setup = std::min(fixed.setup, other.setup);
    fixed.update = std::min(fixed.update, other.update);
    fixed.updateAlone = std::min(fixed.updateAlone, other.updateAlone);
  }
  return fixed;
}

/// Sums the chunks of each rank. Only the first chunk includes the fixed costs.
void Composer::makeStages() {
  parts.stages.resize(spec.pp);
  StageParts fixed = fixedParts();
  for (auto [rank, stage] : llvm::enumerate(parts.stages))
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      const StageLine &line = lines[part.shape];
      StageParts own = line.parts(part.layers);
      stage.chunks.push_back(own.chunks.empty() ? cost::PhaseSeconds()
                                                : own.chunks.front());
      if (chunk > 0) {
        own.setup = std::max(0.0, own.setup - fixed.setup);
        own.update = std::max(0.0, own.update - fixed.update);
        own.updateAlone = std::max(0.0, own.updateAlone - fixed.updateAlone);
      }
      addTo(stage, own);
    }
}

/// Returns the indices of the loop's messages from one small stage to another.
std::vector<int64_t> Composer::between(int64_t from, int64_t to) const {
  std::vector<int64_t> found;
  for (auto [i, message] : llvm::enumerate(fewer.messages))
    if (message.from.stage == from && message.to.stage == to &&
        isInLoop(message.from.phase) && isInLoop(message.to.phase))
      found.push_back(i);
  return found;
}

/// Returns the same message of `more`, or null.
const StageMessage *Composer::counterpart(int64_t number) const {
  const StageMessage &wanted = fewer.messages[number];
  auto isLike = [&](const StageMessage &other) {
    return other.from.stage == wanted.from.stage &&
           other.to.stage == wanted.to.stage &&
           other.from.phase == wanted.from.phase &&
           other.to.phase == wanted.to.phase;
  };
  if (llvm::count_if(fewer.messages, isLike) !=
      llvm::count_if(more.messages, isLike))
    return nullptr;
  int64_t before =
      llvm::count_if(ArrayRef(fewer.messages).take_front(number), isLike);
  for (const StageMessage &other : more.messages)
    if (isLike(other) && before-- == 0)
      return &other;
  return nullptr;
}

/// Returns the message between virtual stages `from` and `to` of the large
/// pipeline. The sender is timed like that of the small message `sent`, and the
/// receiver like that of the small message `needed`.
StageMessage Composer::messageOf(int64_t sent, int64_t needed, int64_t from,
                                 int64_t to) const {
  StageMessage message = fewer.messages[sent];
  auto place = [&](MessageEnd StageMessage::*end, int64_t number, int64_t v) {
    const MessageEnd &few = fewer.messages[number].*end;
    const StageMessage *other = counterpart(number);
    double perLayer = other ? (other->*end).at - few.at : 0;
    int64_t layers = folded.small[few.stage].layers;
    double at = few.at + (folded.stages[v].layers - layers) * perLayer;
    message.*end = {v % spec.pp, few.phase, v / spec.pp, at};
  };
  place(&StageMessage::from, sent, from);
  place(&StageMessage::to, needed, to);
  return message;
}

/// Adds the messages from a virtual stage to an adjacent one. Returns false if
/// the shapes of the two stages have different numbers of messages.
bool Composer::addNeighbourMessages(int64_t from, int64_t to) {
  int64_t step = to - from;
  int64_t sender = folded.example[folded.stages[from].shape];
  int64_t receiver = folded.example[folded.stages[to].shape];
  std::vector<int64_t> sent = between(sender, sender + step);
  std::vector<int64_t> needed = between(receiver - step, receiver);
  if (sent.size() != needed.size())
    return false;
  for (auto [one, other] : llvm::zip(sent, needed))
    parts.messages.push_back(messageOf(one, other, from, to));
  return true;
}

/// Returns false if the pipeline has messages that cannot be extrapolated.
bool Composer::makeMessages() {
  int64_t last = folded.small.size() - 1;
  auto isEnd = [&](int64_t stage) { return stage == 0 || stage == last; };
  auto large = [&](int64_t stage) { return stage == 0 ? 0 : numStages() - 1; };
  for (auto [i, message] : llvm::enumerate(fewer.messages)) {
    int64_t from = message.from.stage, to = message.to.stage;
    bool inLoop = isInLoop(message.from.phase) && isInLoop(message.to.phase);
    if (inLoop && std::abs(from - to) == 1)
      continue;
    // Messages between the first and the last stage carry tied parameters. In
    // setup and update, one of these two stages sends results to all stages.
    if (message.from.phase == Phase::update && (!isEnd(from) || !isEnd(to)))
      continue;
    if (!isEnd(from) || (inLoop && !isEnd(to)))
      return false;
    for (int64_t v = 0; v < numStages(); ++v)
      if (isEnd(to) ? v == large(to)
                    : folded.example[folded.stages[v].shape] == to)
        parts.messages.push_back(messageOf(i, i, large(from), v));
  }
  for (int64_t v = 0; v + 1 < numStages(); ++v)
    if (!addNeighbourMessages(v, v + 1) || !addNeighbourMessages(v + 1, v))
      return false;
  return true;
}

void Composer::addMemory(cost::Evaluation &result) const {
  for (int64_t rank = 0; rank < spec.pp; ++rank) {
    std::vector<int64_t> slots;
    int64_t frames = 0, most = 0;
    OffloadedBytes away;
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      const StageLine &line = lines[part.shape];
      const StageProfile &example = fewer.stages[folded.example[part.shape]];
      slots.push_back(
          countSlots(tables[rank], chunk, example.memory.framed.framePhases));
      frames += !example.memory.framed.framePhases.empty();
      most = std::max(most, slots.back());
      away.host += line.away(part.layers).host;
      away.disk += line.away(part.layers).disk;
    }
    // StepFrames.cpp has the same condition.
    bool framed = spec.numMicroBatches > 1 && (frames > 1 || most > 1);
    std::vector<StageBytes> chunks;
    for (int64_t chunk = 0; chunk < spec.vpp; ++chunk) {
      const FoldedStage &part = chunkOf(rank, chunk);
      chunks.push_back(lines[part.shape].bytes(part.layers, framed));
    }
    cost::MemoryBreakdown memory =
        cost::heldMemory(cluster, peakOfChunks(chunks, slots));
    if (memory.total() > result.memory.total())
      result.memory = memory;
    result.hostBytes = std::max<double>(result.hostBytes, away.host);
    result.diskBytes = std::max<double>(result.diskBytes, away.disk);
    result.stages[rank].memoryBytes = memory.total();
  }
}

std::optional<cost::Evaluation> Composer::run(bool trains) {
  for (int64_t stage : folded.example) {
    const StageProfile *other = folded.isExact ? nullptr : &more.stages[stage];
    lines.emplace_back(folded.small[stage].layers, fewer.stages[stage], other);
  }
  parts.microBatches = spec.numMicroBatches;
  parts.order = rankOrder(spec);
  makeStages();
  if (!makeMessages())
    return std::nullopt;
  auto made = cost::makeSchedule(spec.schedule, spec.pp, spec.vpp,
                                 spec.numMicroBatches);
  if (!made)
    return cost::rejection(made.message());
  tables = trains ? *made : cost::forwardOnly(*made);
  auto time = runPipeline(parts, tables, cluster);
  if (!time)
    return cost::rejection(time.message());
  cost::Evaluation result;
  setTime(result, *time);
  addMemory(result);
  return result;
}

std::optional<cost::Evaluation>
dpc::composePipeline(const FoldedPipeline &folded, const SmallProgram &fewer,
                     const SmallProgram &more, const LoweringSpec &spec,
                     const cost::Cluster &cluster, bool trains) {
  return Composer(folded, fewer, more, spec, cluster).run(trains);
}
