//===- BlocksCompose.cpp - Evaluations composed from segments -------------===//
#include "passes/price/Blocks.h"

#include "cost-model/machine/CollectiveCost.h"
#include "cost-model/machine/SoftwareMemory.h"
#include "passes/lower/Levels.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace dpc;

namespace {

/// The seconds of a phase that runs once per step.
struct Queues {
  double computation = 0, communication = 0;

  double sum() const { return computation + communication; }
  double least() const { return std::min(computation, communication); }
};

struct Once {
  Queues setup, update;
  std::vector<double> bytesPerLevel;
};

} // namespace

/// Prices the collectives of `once` on the ranks of `spec`. `share` scales the
/// computation. If `skipsSent`, Traffic::sentBytes is not counted.
static Once onceOf(const OncePerStep &once, const LoweringSpec &spec,
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
      group->second = cost::placeGroup(cluster, rankOrder(spec), traffic.axes);
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

/// Returns the bytes of a rank's ZeRO shard relative to the measured shard.
static double shareOf(const LoweringSpec &measured, const LoweringSpec &spec) {
  auto zeroRanks = [](const LoweringSpec &spec) -> double {
    return isHybrid(spec) ? spec.hybridShard : spec.dp;
  };
  return spec.zero > 0 ? zeroRanks(measured) / zeroRanks(spec) : 1;
}

/// A phase with the queues `was` takes `seconds`. Returns how long it takes
/// with the queues `now`, if the other queue hides the same fraction of the
/// shorter queue. The time that both queues do not explain is that of transfers
/// to and from other memory, whose bytes have changed by the factor `share`.
static double repriced(double seconds, const Queues &was, const Queues &now,
                       double share) {
  double hidden = was.least() > 0 ? (was.sum() - seconds) / was.least() : 0;
  double transfers = std::max(0.0, seconds - was.sum());
  return now.sum() - std::clamp(hidden, 0.0, 1.0) * now.least() +
         transfers * share;
}

StageParts Blocks::price(const Segment &segment,
                         const LoweringSpec &spec) const {
  double share = shareOf(measured, spec);
  Once was = onceOf(segment.once, measured, 1, *cluster);
  // The measured mesh has one data axis; a mesh with more ranks may have two.
  LoweringSpec placed = spec;
  if (measured.dataInside > 1)
    placed.dataInside = dataRanksInside(*cluster, spec);
  bool isTwice = spec.pp == 1 && segment.copies.total() > 0;
  Once now = onceOf(segment.once, placed, share, *cluster, isTwice);
  StageParts parts = segment.profile.parts;
  parts.setup = repriced(parts.setup, was.setup, now.setup, share);
  double rest = parts.update - parts.updateAlone;
  parts.update = repriced(parts.update, was.update, now.update, share);
  parts.updateAlone = std::max(0.0, parts.update - rest);
  double once = segment.once.setupSeconds + segment.once.updateSeconds;
  double times = static_cast<double>(spec.numMicroBatches) /
                 static_cast<double>(measured.numMicroBatches);
  parts.computeSeconds =
      std::max(0.0, parts.computeSeconds - once) * times + once * share;
  for (size_t i = 0; i < parts.bytesPerLevel.size(); ++i)
    parts.bytesPerLevel[i] =
        std::max(0.0, parts.bytesPerLevel[i] - was.bytesPerLevel[i]) * times +
        now.bytesPerLevel[i];
  return parts;
}

/// The prices do not depend on chunks and schedules.
const std::vector<StageParts> &
Blocks::pricesFor(const LoweringSpec &spec) const {
  std::lock_guard<std::mutex> lock(*mutex);
  auto [it, isNew] =
      prices.try_emplace({spec.dp, spec.pp, spec.numMicroBatches});
  if (isNew)
    for (const Segment &segment : segments)
      it->second.push_back(price(segment, spec));
  return it->second;
}

static void addPhases(cost::PhaseSeconds &sum, const StageParts &parts) {
  for (const cost::PhaseSeconds &chunk : parts.chunks) {
    sum.forward += chunk.forward;
    sum.backward += chunk.backward;
    sum.weight += chunk.weight;
  }
}

/// Every segment includes the fixed costs of a step. Each rank pays them once.
PipelineParts Blocks::partsOf(const Plan &plan) const {
  const LoweringSpec &spec = plan.spec;
  PipelineParts result;
  result.microBatches = spec.numMicroBatches;
  result.order = rankOrder(spec);
  result.stages.resize(spec.pp);
  StageParts fixed = along(plan.parts[kOne], plan.parts[kTwo], -1);
  for (int64_t v = 0; v < plan.stages(); ++v) {
    StageParts &rank = result.stages[v % spec.pp];
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
    if (plan.layout[v] > 0)
      add(along(plan.parts[kOne], plan.parts[kTwo], plan.layout[v] - 1));
    if (v == 0)
      add(plan.parts[kBefore]);
    if (v == plan.stages() - 1)
      add(plan.parts[kAfter]);
  }
  addMessages(plan, result);
  return result;
}

void Blocks::addMessages(const Plan &plan, PipelineParts &result) const {
  const LoweringSpec &spec = plan.spec;
  auto place = [&](int64_t v, const MessageEnd &end, bool isSent) {
    StageParts &rank = result.stages[v % spec.pp];
    int64_t chunk = v / spec.pp;
    double at = end.at;
    if (isSent) { // `at` is relative to the end of the phase
      StageParts part = plan.parts[end.stage];
      at += rank.secondsOf(end.phase, chunk) - part.secondsOf(end.phase, 0);
    }
    return MessageEnd{v % spec.pp, end.phase, chunk, std::max(0.0, at)};
  };
  for (int64_t v = 0; v + 1 < plan.stages(); ++v)
    for (const StageMessage &message : messages) {
      bool isForward = message.from.stage < message.to.stage;
      int64_t from = isForward ? v : v + 1, to = isForward ? v + 1 : v;
      result.messages.push_back({place(from, message.from, true),
                                 place(to, message.to, false), message.bytes,
                                 message.gatherSeconds});
    }
  if (spec.pp == 1)
    return;
  auto atEnd = [&](MessageEnd end) {
    if (end.stage == kAfter) {
      end.stage = spec.pp - 1;
      end.chunk = spec.vpp - 1;
    }
    return end;
  };
  double share = shareOf(measured, spec);
  for (StageMessage message : endMessages) {
    message.bytes *= share;
    message.from = atEnd(message.from);
    message.to = atEnd(message.to);
    result.messages.push_back(message);
  }
}

/// Returns a lower bound of the seconds that the loop takes. The slowest stage
/// runs all its micro-batches. In addition, it waits while the first
/// micro-batch passes the stages before it, and while the last micro-batch
/// returns through them. If n stages follow the slowest stage, it also waits
/// for these stages, but it can run n micro-batches during this wait.
double Blocks::leastSeconds(const Plan &plan) const {
  int64_t pp = plan.spec.pp;
  // Seconds of all chunks, and of the first chunk, by rank.
  std::vector<double> ranks(pp, 0), turns(pp, 0);
  for (int64_t v = 0; v < plan.stages(); ++v) {
    cost::PhaseSeconds all;
    if (plan.layout[v] > 0)
      all = phasesAlong(plan.parts[kOne], plan.parts[kTwo], plan.layout[v] - 1);
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
  double fill = std::min(before + rest, (pp - 1) * *slowest / plan.spec.vpp);
  return plan.spec.numMicroBatches * *slowest + fill;
}

StepTime Blocks::timeOfOne(const Plan &plan) const {
  PipelineParts parts = partsOf(plan);
  const StageParts &rank = parts.stages.front();
  double loop = 0;
  for (const cost::PhaseSeconds &chunk : rank.chunks)
    loop += chunk.forward + chunk.backward + chunk.weight;
  StepTime time;
  time.seconds = rank.setup + plan.spec.numMicroBatches * loop + rank.update +
                 cluster->software.hostStepSeconds;
  time.computeSeconds = rank.computeSeconds;
  time.transferSeconds = rank.transferSeconds;
  time.exposedCommunicationSeconds =
      std::max(0.0, time.seconds - time.computeSeconds);
  time.bytesPerLevel = rank.bytesPerLevel;
  return time;
}

/// Includes the memory of `rank` in the maxima of `result`.
void Blocks::addMemory(const Plan &plan, int64_t rank,
                       cost::Evaluation &result) const {
  const LoweringSpec &spec = plan.spec;
  std::vector<StageBytes> chunks;
  std::vector<int64_t> slots;
  cost::MemoryBreakdown shards;
  OffloadedBytes away;
  auto add = [&](const StageLine &line, int64_t chunk, double count,
                 const cost::MemoryBreakdown &sharded) {
    chunks.push_back(line.bytes(count, /*framed=*/true));
    // A single stage runs one micro-batch at a time, and each segment keeps its
    // activations until the micro-batch ends.
    slots.push_back(spec.pp == 1 ? 1
                                 : countSlots(plan.tables[rank], chunk,
                                              chunks.back().framePhases));
    shards += sharded;
    OffloadedBytes part = line.away(count);
    away.host += part.host;
    away.disk += part.disk;
  };
  for (int64_t v = rank; v < plan.stages(); v += spec.pp) {
    int64_t chunk = v / spec.pp;
    if (double count = plan.layout[v]; count > 0) {
      cost::MemoryBreakdown sharded = segments[kOne].shards;
      for (auto [bytes, two] :
           llvm::zip(sharded.bytes, segments[kTwo].shards.bytes))
        bytes += (count - 1) * (two - bytes);
      add(*layer, chunk, count, sharded);
    }
    if (v == 0)
      add(*before, chunk, 1, segments[kBefore].shards);
    if (v == plan.stages() - 1)
      add(*after, chunk, 1, segments[kAfter].shards);
  }
  double share = shareOf(measured, spec);
  cost::MemoryBreakdown memory = peakOfChunks(chunks, slots), copies;
  if (spec.pp == 1)
    copies = segments[kAfter].copies;
  for (int c = 0; c < cost::numMemoryCategories; ++c)
    memory.bytes[c] = std::max(
        0.0, memory.bytes[c] - shards.bytes[c] * (1 - share) - copies.bytes[c]);
  memory = cost::heldMemory(*cluster, memory);
  if (memory.total() > result.memory.total())
    result.memory = memory;
  auto scaled = [&](int64_t bytes) -> double {
    return std::llround(share * static_cast<double>(bytes));
  };
  result.hostBytes = std::max(result.hostBytes, scaled(away.host));
  result.diskBytes = std::max(result.diskBytes, scaled(away.disk));
}

std::optional<cost::Composition> Blocks::compose(const LoweringSpec &spec,
                                                 double limit) const {
  const Layout *layout = layoutOf(spec.pp, spec.vpp);
  if (!layout)
    return std::nullopt;
  Plan plan{spec, *layout, pricesFor(spec), {}};
  cost::Composition result;
  result.evaluation.isFolded = result.evaluation.isComposed = true;
  // A single stage may be faster than its segments, because communication hides
  // behind computation of other ones.
  double least = spec.pp > 1 ? leastSeconds(plan) : 0;
  if (least > limit) {
    result.isBound = true;
    result.evaluation.stepSeconds = least;
    return result;
  }
  if (spec.pp > 1) {
    auto made = cost::makeSchedule(spec.schedule, spec.pp, spec.vpp,
                                   spec.numMicroBatches);
    if (!made)
      return std::nullopt;
    plan.tables = placement->trains ? *made : cost::forwardOnly(*made);
    auto time = runPipeline(partsOf(plan), plan.tables, *cluster);
    if (!time)
      return std::nullopt;
    setTime(result.evaluation, *time);
  } else {
    setTime(result.evaluation, timeOfOne(plan));
  }
  // The first ranks keep the most micro-batches. The last rank stores the head.
  for (int64_t rank : {int64_t(0), int64_t(1), spec.pp - 1})
    if (rank < spec.pp)
      addMemory(plan, rank, result.evaluation);
  return result;
}
