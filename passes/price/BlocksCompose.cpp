//===- BlocksCompose.cpp - Strategies made of measured pieces -------------===//
#include "passes/price/Blocks.h"

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/machine/SoftwareMemory.h"
#include "passes/lower/Levels.h"
#include "passes/price/BlocksPlan.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dpc;

//===----------------------------------------------------------------------===//
// Prices
//===----------------------------------------------------------------------===//

static cost::GroupPlacement placementOf(const std::vector<std::string> &names,
                                        const LoweringSpec &degrees,
                                        const cost::Cluster &cluster) {
  return cost::placeGroup(cluster, rankOrder(degrees), names);
}

namespace {

/// A phase that runs once: what its two queues have to do.
struct Queues {
  double computation = 0, communication = 0;

  double sum() const { return computation + communication; }
  double least() const { return std::min(computation, communication); }
};

/// What runs once.
struct Once {
  Queues setup, update;
  std::vector<double> bytesPerLevel;
};

} // namespace

static Once onceOf(const OncePerStep &once, const LoweringSpec &degrees,
                   double share, const cost::Cluster &cluster,
                   bool skipsSent = false) {
  Once result;
  result.setup.computation = once.setupSeconds * share;
  result.update.computation = once.updateSeconds * share;
  result.bytesPerLevel.assign(cluster.levels.size(), 0);
  std::map<std::vector<std::string>, cost::GroupPlacement> placements;
  auto add = [&](const OncePerStep::Traffic &traffic, double &seconds) {
    auto [group, isNew] = placements.try_emplace(traffic.axes);
    if (isNew)
      group->second = placementOf(traffic.axes, degrees, cluster);
    double bytes = traffic.bytes - (skipsSent ? traffic.sentBytes : 0);
    cost::CollectiveEstimate estimate =
        estimateCollective(cluster, traffic.kind, bytes, group->second);
    seconds += estimate.seconds;
    for (auto [sum, bytes] :
         llvm::zip(result.bytesPerLevel, estimate.bytesPerLevel))
      sum += bytes;
  };
  for (const OncePerStep::Traffic &traffic : once.setup)
    add(traffic, result.setup.communication);
  for (const OncePerStep::Traffic &traffic : once.update)
    add(traffic, result.update.communication);
  return result;
}

/// Data ranks that share states.
static double zeroRanks(const LoweringSpec &degrees) {
  return isHybrid(degrees) ? degrees.hybridShard : degrees.dp;
}

/// What a rank has of split states, of what one has where they were measured.
static double shareOf(const LoweringSpec &measured,
                      const LoweringSpec &degrees) {
  return degrees.zero > 0 ? zeroRanks(measured) / zeroRanks(degrees) : 1;
}

/// Seconds of a phase that took `seconds`. Of what could overlap, the same
/// share does.
static double repriced(double seconds, const Queues &was, const Queues &now) {
  double hidden = was.least() > 0 ? (was.sum() - seconds) / was.least() : 0;
  return now.sum() - std::clamp(hidden, 0.0, 1.0) * now.least();
}

StageParts Blocks::price(const Piece &piece,
                         const LoweringSpec &degrees) const {
  double share = shareOf(measured, degrees);
  Once was = onceOf(piece.once, measured, 1, *cluster);
  // Few data ranks have one axis, which then stands for all of more ranks.
  LoweringSpec placed = degrees;
  if (measured.dataInside > 1)
    placed.dataInside = dataRanksInside(*cluster, degrees);
  bool isTwice = degrees.pp == 1 && piece.copies.total() > 0;
  Once now = onceOf(piece.once, placed, share, *cluster, isTwice);
  StageParts parts = piece.profile.parts;
  parts.setup = repriced(parts.setup, was.setup, now.setup);
  double rest = parts.update - parts.updateAlone;
  parts.update = repriced(parts.update, was.update, now.update);
  parts.updateAlone = std::max(0.0, parts.update - rest);
  double once = piece.once.setupSeconds + piece.once.updateSeconds;
  double times = static_cast<double>(degrees.numMicroBatches) /
                 static_cast<double>(measured.numMicroBatches);
  parts.computeSeconds =
      std::max(0.0, parts.computeSeconds - once) * times + once * share;
  for (size_t i = 0; i < parts.bytesPerLevel.size(); ++i)
    parts.bytesPerLevel[i] =
        std::max(0.0, parts.bytesPerLevel[i] - was.bytesPerLevel[i]) * times +
        now.bytesPerLevel[i];
  return parts;
}

/// Chunks and schedules do not change prices.
const std::vector<StageParts> &
Blocks::pricesFor(const LoweringSpec &degrees) const {
  std::lock_guard<std::mutex> lock(*mutex);
  auto [it, isNew] =
      prices.try_emplace({degrees.dp, degrees.pp, degrees.numMicroBatches});
  if (isNew)
    for (const Piece &piece : pieces)
      it->second.push_back(price(piece, degrees));
  return it->second;
}

static double loopSeconds(const StageParts &parts) {
  double sum = 0;
  for (const cost::PhaseSeconds &chunk : parts.chunks)
    sum += chunk.forward + chunk.backward + chunk.weight;
  return sum;
}

/// `one` layer and `two`, as a line.
static StageParts alongLayers(const StageParts &one, const StageParts &two,
                              double layers) {
  return along(one, two, layers - 1);
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static void addPhases(cost::PhaseSeconds &sum, const StageParts &parts) {
  for (const cost::PhaseSeconds &chunk : parts.chunks) {
    sum.forward += chunk.forward;
    sum.backward += chunk.backward;
    sum.weight += chunk.weight;
  }
}

/// All that a rank does: what is done once is in every piece, and counts once.
PipelineParts Blocks::partsOf(const Plan &plan) const {
  const LoweringSpec &degrees = plan.degrees;
  PipelineParts result;
  result.microBatches = degrees.numMicroBatches;
  result.order = rankOrder(degrees);
  result.stages.resize(degrees.pp);
  StageParts fixed = alongLayers(plan.parts[kOne], plan.parts[kTwo], 0);
  for (int64_t v = 0; v < plan.stages(); ++v) {
    StageParts &rank = result.stages[v % degrees.pp];
    rank.bytesPerLevel.resize(cluster->levels.size(), 0);
    cost::PhaseSeconds &chunk = rank.chunks.emplace_back();
    auto add = [&](const StageParts &part) {
      addPhases(chunk, part);
      bool isFirst = rank.computeSeconds == 0;
      auto addOnce = [&](double &sum, double seconds, double shared) {
        sum += isFirst ? seconds : std::max(0.0, seconds - shared);
      };
      addOnce(rank.setup, part.setup, fixed.setup);
      addOnce(rank.update, part.update, fixed.update);
      addOnce(rank.updateAlone, part.updateAlone, fixed.updateAlone);
      rank.computeSeconds += part.computeSeconds;
      rank.transferSeconds += part.transferSeconds;
      for (auto [sum, bytes] :
           llvm::zip(rank.bytesPerLevel, part.bytesPerLevel))
        sum += bytes;
    };
    if (plan.work[v] > 0)
      add(alongLayers(plan.parts[kOne], plan.parts[kTwo], plan.work[v]));
    if (v == 0)
      add(plan.parts[kBefore]);
    if (v == plan.stages() - 1)
      add(plan.parts[kAfter]);
  }
  addMessages(plan, result);
  return result;
}

/// Between neighbours, and of both ends with each other.
void Blocks::addMessages(const Plan &plan, PipelineParts &result) const {
  const LoweringSpec &degrees = plan.degrees;
  auto place = [&](int64_t v, const MessageEnd &end, bool isSent) {
    StageParts &rank = result.stages[v % degrees.pp];
    int64_t chunk = v / degrees.pp;
    double at = end.at;
    if (isSent) { // counted from the phase's end
      StageParts part = plan.parts[end.stage];
      at += rank.secondsOf(end.phase, chunk) - part.secondsOf(end.phase, 0);
    }
    return MessageEnd{v % degrees.pp, end.phase, chunk, std::max(0.0, at)};
  };
  for (int64_t v = 0; v + 1 < plan.stages(); ++v)
    for (const StageMessage &message : messages) {
      bool isForward = message.from.stage < message.to.stage;
      int64_t from = isForward ? v : v + 1, to = isForward ? v + 1 : v;
      result.messages.push_back({place(from, message.from, true),
                                 place(to, message.to, false), message.bytes,
                                 message.gatherSeconds});
    }
  if (degrees.pp == 1)
    return;
  auto atEnd = [&](MessageEnd end) {
    if (end.stage == kAfter) {
      end.stage = degrees.pp - 1;
      end.chunk = degrees.vpp - 1;
    }
    return end;
  };
  double share = shareOf(measured, degrees);
  for (StageMessage message : endMessages) {
    message.bytes *= share;
    message.from = atEnd(message.from);
    message.to = atEnd(message.to);
    result.messages.push_back(message);
  }
}

/// Every stage runs all its micro-batches, and what the slowest one waits for:
/// the first micro-batch to come and the last to go back through those before
/// it. It also waits for both to come back from the n behind it, but has n
/// forward or backward phases of its own to run meanwhile.
double Blocks::leastSeconds(const Plan &plan) const {
  int64_t pp = plan.degrees.pp;
  std::vector<double> ranks(pp, 0), turns(pp, 0); // a turn: of the first chunk
  for (int64_t v = 0; v < plan.stages(); ++v) {
    cost::PhaseSeconds all;
    if (plan.work[v] > 0)
      all = phasesAlong(plan.parts[kOne], plan.parts[kTwo], plan.work[v] - 1);
    if (v == 0)
      addPhases(all, plan.parts[kBefore]);
    if (v == plan.stages() - 1)
      addPhases(all, plan.parts[kAfter]);
    double seconds = all.forward + all.backward;
    ranks[v % pp] += seconds + all.weight;
    if (v < pp)
      turns[v] = seconds;
  }
  auto slowest = llvm::max_element(ranks);
  int64_t at = slowest - ranks.begin(), behind = pp - 1 - at;
  double before = std::accumulate(turns.begin(), turns.begin() + at, 0.0);
  double rest = std::accumulate(turns.begin() + at + 1, turns.end(), 0.0);
  rest = std::max(0.0, 2 * rest - behind * turns[at]);
  double fill = std::min(before + rest, (pp - 1) * *slowest / plan.degrees.vpp);
  return plan.degrees.numMicroBatches * *slowest + fill;
}

StepTime Blocks::timeOfOne(const Plan &plan) const {
  PipelineParts parts = partsOf(plan);
  const StageParts &rank = parts.stages.front();
  StepTime time;
  time.seconds = rank.setup + plan.degrees.numMicroBatches * loopSeconds(rank) +
                 rank.update + cluster->software.hostStepSeconds;
  time.computeSeconds = rank.computeSeconds;
  time.transferSeconds = rank.transferSeconds;
  time.exposedCommunicationSeconds =
      std::max(0.0, time.seconds - time.computeSeconds);
  time.bytesPerLevel = rank.bytesPerLevel;
  return time;
}

Expected<StepTime> Blocks::timeOf(const Plan &plan) const {
  return runPipeline(partsOf(plan), plan.tables, *cluster);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

cost::MemoryBreakdown Blocks::memoryOf(const Plan &plan, int64_t rank) const {
  const LoweringSpec &degrees = plan.degrees;
  std::vector<StageBytes> chunks;
  std::vector<int64_t> slots;
  double share = shareOf(measured, degrees);
  cost::MemoryBreakdown shards;
  auto add = [&](const StageLine &line, int64_t chunk, int64_t count,
                 const cost::MemoryBreakdown &split) {
    chunks.push_back(line.bytes(count, /*framed=*/true));
    // One stage has its micro-batches in turn, and in each all pieces keep
    // what is theirs until the last of them goes back.
    slots.push_back(degrees.pp == 1 ? 1
                                    : countSlots(plan.tables[rank], chunk,
                                                 chunks.back().framePhases));
    for (int c = 0; c < cost::numMemoryCategories; ++c)
      shards.bytes[c] += split.bytes[c];
  };
  for (int64_t v = rank; v < plan.stages(); v += degrees.pp) {
    int64_t chunk = v / degrees.pp, count = plan.layersOf[v];
    if (count > 0) {
      cost::MemoryBreakdown split = pieces[kOne].shards;
      for (int c = 0; c < cost::numMemoryCategories; ++c)
        split.bytes[c] +=
            (count - 1) * (pieces[kTwo].shards.bytes[c] - split.bytes[c]);
      add(*layer, chunk, count, split);
    }
    if (v == 0)
      add(*before, chunk, 1, pieces[kBefore].shards);
    if (v == plan.stages() - 1)
      add(*after, chunk, 1, pieces[kAfter].shards);
  }
  cost::MemoryBreakdown peak = peakOfChunks(chunks, slots);
  cost::MemoryBreakdown copies;
  if (degrees.pp == 1)
    copies = pieces[kAfter].copies;
  for (int c = 0; c < cost::numMemoryCategories; ++c)
    peak.bytes[c] = std::max(
        0.0, peak.bytes[c] - shards.bytes[c] * (1 - share) - copies.bytes[c]);
  return cost::heldMemory(*cluster, peak);
}

OffloadedBytes Blocks::awayOf(const Plan &plan, int64_t rank) const {
  OffloadedBytes sum;
  auto add = [&](const OffloadedBytes &part) {
    sum.host += part.host;
    sum.disk += part.disk;
  };
  for (int64_t v = rank; v < plan.stages(); v += plan.degrees.pp) {
    if (plan.layersOf[v] > 0)
      add(layer->away(plan.layersOf[v]));
    if (v == 0)
      add(before->away(1));
    if (v == plan.stages() - 1)
      add(after->away(1));
  }
  double share = shareOf(measured, plan.degrees);
  sum.host = std::llround(share * static_cast<double>(sum.host));
  sum.disk = std::llround(share * static_cast<double>(sum.disk));
  return sum;
}

/// The first ranks keep most micro-batches, the last one has the model's end.
void Blocks::addMemory(const Plan &plan, cost::Evaluation &result) const {
  for (int64_t rank : {int64_t(0), int64_t(1), plan.degrees.pp - 1}) {
    if (rank >= plan.degrees.pp)
      continue;
    cost::MemoryBreakdown memory = memoryOf(plan, rank);
    if (memory.total() > result.memory.total())
      result.memory = memory;
    OffloadedBytes away = awayOf(plan, rank);
    result.hostBytes = std::max<double>(result.hostBytes, away.host);
    result.diskBytes = std::max<double>(result.diskBytes, away.disk);
  }
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

std::optional<cost::Composition> Blocks::compose(const LoweringSpec &degrees,
                                                 double limit) const {
  const Layout *layout = layoutOf(degrees.pp, degrees.vpp);
  if (!layout)
    return std::nullopt;
  Plan plan{degrees, layout->layersOf, layout->work, pricesFor(degrees), {}};
  cost::Composition result;
  result.evaluation.isFolded = result.evaluation.isComposed = true;
  if (double least = leastSeconds(plan); least > limit) {
    result.isBound = true;
    result.evaluation.stepSeconds = least;
    return result;
  }
  if (degrees.pp > 1) {
    auto made = cost::makeSchedule(degrees.schedule, degrees.pp, degrees.vpp,
                                   degrees.numMicroBatches);
    if (!made)
      return std::nullopt;
    plan.tables = homes->trains ? *made : cost::forwardOnly(*made);
    auto time = timeOf(plan);
    if (!time)
      return std::nullopt;
    setTime(result.evaluation, *time);
  } else {
    setTime(result.evaluation, timeOfOne(plan));
  }
  addMemory(plan, result.evaluation);
  return result;
}
