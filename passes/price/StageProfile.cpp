//===- StageProfile.cpp - The cost of a stage with n layers ---------------===//
#include "passes/price/StageProfile.h"

#include <cmath>

using namespace mlir;
using namespace dpc;
using cost::MemoryBreakdown;

static void add(MemoryBreakdown &sum, const MemoryBreakdown &other,
                double times = 1) {
  for (int i = 0; i < cost::numMemoryCategories; ++i)
    sum.bytes[i] += times * other.bytes[i];
}

static MemoryBreakdown difference(const MemoryBreakdown &a,
                                  const MemoryBreakdown &b) {
  MemoryBreakdown result = b;
  add(result, a, -1);
  return result;
}

static MemoryBreakdown alongLine(const MemoryBreakdown &start,
                                 const MemoryBreakdown &perLayer,
                                 double layers) {
  MemoryBreakdown result = start;
  add(result, perLayer, layers);
  for (double &part : result.bytes)
    part = std::max(0.0, part);
  return result;
}

using Moments = ArrayRef<MemoryProfile::Moment>;

static Moments phaseOfProfile(const MemoryProfile &profile, Phase phase) {
  Moments all = profile.moments;
  size_t begin = 0;
  while (begin < all.size() && all[begin].phase != phase)
    ++begin;
  size_t end = begin;
  while (end < all.size() && all[end].phase == phase)
    ++end;
  return all.slice(begin, end - begin);
}

MemoryBreakdown dpc::peakAlong(const MemoryProfile &fewer,
                               const MemoryProfile &more, double times) {
  MemoryBreakdown largest;
  auto consider = [&](const MemoryProfile::Moment &few,
                      const MemoryProfile::Moment &many) {
    MemoryBreakdown bytes =
        alongLine(few.bytes, difference(few.bytes, many.bytes), times);
    if (bytes.total() > largest.total())
      largest = bytes;
  };
  for (Phase phase : {Phase::setup, Phase::forward, Phase::backward,
                      Phase::weight, Phase::update}) {
    Moments few = phaseOfProfile(fewer, phase);
    Moments many = phaseOfProfile(more, phase);
    size_t count = std::min(few.size(), many.size());
    for (size_t k = 0; k < count && few[k].kind == many[k].kind; ++k)
      consider(few[k], many[k]);
    for (size_t k = 1; k <= count; ++k) {
      const auto &a = few[few.size() - k], &b = many[many.size() - k];
      if (a.kind != b.kind)
        break;
      consider(a, b);
    }
  }
  return largest;
}

namespace {

/// Pairs each op of `fewer` with an equal op of `more`. Ops of `more` without a
/// partner belong to the additional layers. Where the programs differ, skips as
/// few ops of `more` as possible before a long run of equal ops.
class Pairing {
public:
  using Kinds = std::vector<size_t>;
  Pairing(Kinds kindsOfFewer, Kinds kindsOfMore)
      : fewer(std::move(kindsOfFewer)), more(std::move(kindsOfMore)) {}
  void run();

  /// For each op of `fewer`, its partner in `more`.
  std::vector<std::optional<size_t>> partners;
  /// The number of ops of `fewer` without an equal op, for example in buckets.
  size_t strangers = 0;

private:
  Kinds fewer, more;

  static constexpr size_t kSurelyAlike = 24, kPerhapsAlike = 6;
  size_t agreement(size_t i, size_t j) const;
  std::optional<size_t> findBehind(size_t i, size_t next) const;
};

} // namespace

size_t Pairing::agreement(size_t i, size_t j) const {
  size_t length = 0;
  while (length < kSurelyAlike && i + length < fewer.size() &&
         j + length < more.size() && fewer[i + length] == more[j + length])
    ++length;
  return length;
}

/// Returns the position in `more`, at `next` or later, after which the most ops
/// agree with those of `fewer` after `i`, or nothing if few agree.
std::optional<size_t> Pairing::findBehind(size_t i, size_t next) const {
  std::optional<size_t> found;
  size_t best = std::min(kPerhapsAlike, fewer.size() - i) - 1;
  // Skips at most the additional layers.
  size_t end = std::min(more.size(), i + more.size() -
                                         std::min(fewer.size(), more.size()) +
                                         kPerhapsAlike + 1);
  for (size_t k = next; k < end && best < kSurelyAlike; ++k)
    if (size_t length = agreement(i, k); length > best) {
      best = length;
      found = k;
    }
  return found;
}

void Pairing::run() {
  size_t next = 0;
  for (size_t i = 0; i < fewer.size(); ++i) {
    std::optional<size_t> partner;
    if (next < more.size() && fewer[i] == more[next]) {
      partner = next;
    } else {
      partner = findBehind(i, next);
      // The last pairs before a gap may agree by chance.
      if (partner)
        for (size_t k = i - std::min(i, kPerhapsAlike); k < i; ++k)
          partners[k].reset();
      strangers += !partner;
    }
    partners.push_back(partner);
    if (partner)
      next = *partner + 1;
  }
}

static MemoryBreakdown leastOfLoop(const MemoryProfile &profile) {
  const MemoryBreakdown *found = nullptr;
  for (const MemoryProfile::Moment &moment : profile.moments)
    if (isInLoop(moment.phase) &&
        (!found || moment.bytes.total() < found->total()))
      found = &moment.bytes;
  return found ? *found : MemoryBreakdown();
}

/// Returns the moments of the loop, with only the buffers outside the frame. An
/// additional layer adds only buffers that are live throughout the loop,
/// because the short-lived buffers of the layer are in gaps of the frame. More
/// layers give larger gaps, so the moments are taken from `more`, which is more
/// exact.
std::vector<StageLine::Moment>
StageLine::besideFrame(const MemoryProfile &fewer, const MemoryProfile &more) {
  MemoryBreakdown perLayer = difference(leastOfLoop(fewer), leastOfLoop(more));
  std::vector<Moment> moments;
  for (const MemoryProfile::Moment &moment : more.moments)
    if (isInLoop(moment.phase))
      moments.push_back(
          {moment.phase, difference(perLayer, moment.bytes), perLayer});
  return moments;
}

/// At most one op in this many may lack an equal op.
static constexpr size_t kMostStrangers = 1000;

/// Pairs ops twice. Pairing from the front skips layers as late as possible,
/// and pairing from the back skips them as early as possible, so the first and
/// the last layer both have partners.
StageLine::Memory StageLine::align(const MemoryProfile &fewer,
                                   const MemoryProfile &more) {
  Memory result;
  result.slot = fewer.slot;
  result.slotPerLayer = difference(fewer.slot, more.slot);
  result.framePhases = fewer.framePhases;
  bool isFramed = !fewer.framePhases.empty();
  if (isFramed)
    result.moments = besideFrame(fewer, more);
  for (Phase phase : {Phase::setup, Phase::forward, Phase::backward,
                      Phase::weight, Phase::update}) {
    if (isFramed && isInLoop(phase))
      continue;
    Moments a = phaseOfProfile(fewer, phase), b = phaseOfProfile(more, phase);
    if (a.empty() || b.empty())
      continue;
    auto add = [&](bool backwards) {
      auto at = [&](Moments all, size_t i) -> const MemoryProfile::Moment & {
        return all[backwards ? all.size() - 1 - i : i];
      };
      auto kinds = [&](Moments all) {
        std::vector<size_t> result;
        result.reserve(all.size());
        for (size_t i = 0; i < all.size(); ++i)
          result.push_back(at(all, i).kind);
        return result;
      };
      Pairing pairing(kinds(a), kinds(b));
      pairing.run();
      isRegular &=
          pairing.strangers * kMostStrangers <= a.size() || !isInLoop(phase);
      for (auto [i, partner] : llvm::enumerate(pairing.partners))
        if (partner)
          result.moments.push_back(
              {phase, at(a, i).bytes,
               difference(at(a, i).bytes, at(b, *partner).bytes)});
    };
    add(false);
    add(true);
  }
  return result;
}

StageLine::StageLine(int64_t layers, const StageProfile &fewer,
                     const StageProfile *more, int64_t step)
    : layers(layers), step(step), fewer(fewer), more(more ? *more : fewer),
      inLine(align(fewer.memory.inLine, this->more.memory.inLine)),
      framed(align(fewer.memory.framed, this->more.memory.framed)) {
  // More layers take more time, unless the programs also differ otherwise.
  isRegular &=
      !more || more->parts.computeSeconds >= fewer.parts.computeSeconds;
}

static cost::PhaseSeconds along(const cost::PhaseSeconds &a,
                                const cost::PhaseSeconds &b, double times) {
  return {along(a.forward, b.forward, times),
          along(a.backward, b.backward, times),
          along(a.weight, b.weight, times)};
}

StageParts dpc::along(const StageParts &a, const StageParts &b, double times) {
  StageParts result;
  result.setup = along(a.setup, b.setup, times);
  result.update = along(a.update, b.update, times);
  result.updateAlone = along(a.updateAlone, b.updateAlone, times);
  for (auto [from, to] : llvm::zip(a.chunks, b.chunks))
    result.chunks.push_back(::along(from, to, times));
  result.computeSeconds = along(a.computeSeconds, b.computeSeconds, times);
  result.transferSeconds = along(a.transferSeconds, b.transferSeconds, times);
  for (auto [from, to] : llvm::zip(a.bytesPerLevel, b.bytesPerLevel))
    result.bytesPerLevel.push_back(along(from, to, times));
  return result;
}

cost::PhaseSeconds dpc::phasesAlong(const StageParts &a, const StageParts &b,
                                    double times) {
  cost::PhaseSeconds sum;
  for (auto [from, to] : llvm::zip(a.chunks, b.chunks)) {
    cost::PhaseSeconds chunk = ::along(from, to, times);
    sum.forward += chunk.forward;
    sum.backward += chunk.backward;
    sum.weight += chunk.weight;
  }
  return sum;
}

StageParts StageLine::parts(int64_t wanted) const {
  double times = stepsTo(wanted);
  StageParts result = along(fewer.parts, more.parts, times);
  addTraffic(result.traffic, fewer.parts.traffic, 1 - times);
  addTraffic(result.traffic, more.parts.traffic, times);
  return result;
}

StageBytes StageLine::bytes(double wanted, bool hasFrame) const {
  double times = stepsTo(wanted);
  const Memory &memory = hasFrame ? framed : inLine;
  StageBytes result;
  for (const Moment &moment : memory.moments)
    result.moments.push_back(
        {moment.phase, alongLine(moment.bytes, moment.perLayer, times)});
  result.slot = alongLine(memory.slot, memory.slotPerLayer, times);
  result.framePhases = memory.framePhases;
  return result;
}

void dpc::addTo(StageParts &sum, const StageParts &part) {
  sum.setup += part.setup;
  sum.update += part.update;
  sum.updateAlone += part.updateAlone;
  sum.computeSeconds += part.computeSeconds;
  sum.transferSeconds += part.transferSeconds;
  sum.bytesPerLevel.resize(part.bytesPerLevel.size(), 0);
  for (auto [total, bytes] : llvm::zip(sum.bytesPerLevel, part.bytesPerLevel))
    total += bytes;
  addTraffic(sum.traffic, part.traffic);
}

OffloadedBytes StageLine::away(double wanted) const {
  double times = stepsTo(wanted);
  return {std::llround(along(fewer.away.host, more.away.host, times)),
          std::llround(along(fewer.away.disk, more.away.disk, times))};
}

/// Returns the bytes of a chunk while another chunk runs `phase`. In the loop,
/// these are the chunk's smallest bytes. In setup and update, where the order
/// of chunks is unknown, they are its largest.
static MemoryBreakdown keptIn(const StageBytes &chunk, Phase phase) {
  const MemoryBreakdown *kept = nullptr;
  for (const auto &[other, bytes] : chunk.moments) {
    if (isInLoop(other) != isInLoop(phase) ||
        (!isInLoop(phase) && other != phase))
      continue;
    bool isBetter = !kept || (isInLoop(phase) ? bytes.total() < kept->total()
                                              : bytes.total() > kept->total());
    if (isBetter)
      kept = &bytes;
  }
  if (kept)
    return *kept;
  return isInLoop(phase) ? MemoryBreakdown() : keptIn(chunk, Phase::forward);
}

MemoryBreakdown dpc::peakOfChunks(const std::vector<StageBytes> &chunks,
                                  const std::vector<int64_t> &slots) {
  MemoryBreakdown frames, peak;
  for (auto [chunk, count] : llvm::zip(chunks, slots))
    add(frames, chunk.slot, count);
  // Caches keptIn by phase and chunk.
  std::map<Phase, std::vector<MemoryBreakdown>> kept;
  for (size_t c = 0; c < chunks.size(); ++c) {
    std::map<Phase, MemoryBreakdown> others;
    for (const auto &[phase, bytes] : chunks[c].moments) {
      std::vector<MemoryBreakdown> &all = kept[phase];
      for (size_t o = all.size(); o < chunks.size(); ++o)
        all.push_back(keptIn(chunks[o], phase));
      auto [it, isNew] = others.try_emplace(phase);
      for (size_t o = 0; isNew && o < chunks.size(); ++o)
        if (o != c)
          add(it->second, all[o]);
      MemoryBreakdown now = bytes;
      add(now, it->second);
      if (isInLoop(phase))
        add(now, frames);
      if (now.total() > peak.total())
        peak = now;
    }
  }
  return peak;
}
