//===- BlockSearch.cpp - Which blocks are measured ------------------------===//
#include "cost-model/search/BlockSearch.h"

#include "cost-model/search/Neighbours.h"
#include "cost-model/search/TriedValues.h"
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <unordered_map>

namespace dpc::cost {

BlockSearch::BlockSearch(const SearchProblem &problem,
                         std::vector<Pending> &pending,
                         std::vector<Lesson> &lessons, double incumbent,
                         const std::function<void(Pending &)> &estimate)
    : problem(problem), pending(pending), lessons(lessons),
      incumbent(incumbent) {
  // Half of what the corrections learn from. The other half are own blocks.
  constexpr size_t kMostEarlier = Corrections::kMostLessons / 2;
  findBlocks();
  takeSamples(estimate);
  for (size_t i = lessons.size() - std::min(lessons.size(), kMostEarlier);
       i < lessons.size(); ++i)
    corrections.teach(lessons[i]);
}

void BlockSearch::takeSamples(const std::function<void(Pending &)> &estimate) {
  for (Block &block : blocks) {
    block.begin = sampled.size();
    // The most virtual stages, by the numbers of data-parallel ranks and
    // stages.
    std::map<std::pair<int64_t, int64_t>, int64_t> most;
    for (size_t i : block.members) {
      const Strategy &strategy = *pending[i].strategy;
      if (strategy.vpp > 1) {
        int64_t &vpp = most[{strategy.dp, strategy.pp}];
        vpp = std::max(vpp, strategy.vpp);
      }
    }
    for (size_t i : block.members) {
      const Strategy &strategy = *pending[i].strategy;
      if (strategy.vpp == 1 || strategy.vpp == most[{strategy.dp, strategy.pp}])
        sampled.push_back(i);
    }
    block.end = sampled.size();
  }
  samples.resize(sampled.size());
  parallelFor(sampled.size(), kPendingAtOnce, [&](size_t k) {
    Pending &entry = pending[sampled[k]];
    estimate(entry);
    samples[k] = {entry.seconds,    entry.bounds.stepSeconds, entry.stateBytes,
                  entry.otherBytes, entry.isAllowed,          entry.isMegatron};
  });
}

/// Groups entries into blocks, ordered by their first entries. Threads group
/// parts of the list, and the results are joined in order.
void BlockSearch::findBlocks() {
  struct Part {
    std::unordered_map<std::string, size_t> numbers;
    std::vector<const std::string *> keys;
    std::vector<std::vector<size_t>> members;
  };
  constexpr size_t kPart = 16 * kPendingAtOnce;
  std::vector<Part> parts((pending.size() + kPart - 1) / kPart);
  parallelFor(parts.size(), 1, [&](size_t p) {
    Part &part = parts[p];
    size_t end = std::min(pending.size(), (p + 1) * kPart);
    for (size_t i = p * kPart; i < end; ++i) {
      std::string key;
      if (pending[i].bounds.memoryBytes <= problem.feasibility.limitBytes())
        key = problem.evaluator.blockOf(*pending[i].strategy);
      if (key.empty())
        continue;
      auto [it, isNew] =
          part.numbers.try_emplace(std::move(key), part.keys.size());
      if (isNew) {
        part.keys.push_back(&it->first);
        part.members.emplace_back();
      }
      part.members[it->second].push_back(i);
    }
  });
  std::unordered_map<std::string_view, size_t> numbers;
  size_t most = 0;
  for (const Part &part : parts)
    most += part.keys.size();
  numbers.reserve(most);
  for (Part &part : parts)
    for (size_t k = 0; k < part.keys.size(); ++k) {
      auto [it, isNew] = numbers.try_emplace(*part.keys[k], blocks.size());
      if (isNew)
        addBlock(part.members[k].front());
      std::vector<size_t> &members = blocks[it->second].members;
      members.insert(members.end(), part.members[k].begin(),
                     part.members[k].end());
      for (size_t i : part.members[k])
        pending[i].block = it->second;
    }
}

/// Adds an empty block for strategies with the segments of `pending[first]`.
void BlockSearch::addBlock(size_t first) {
  Block &block = blocks.emplace_back();
  block.features = blockFeatures(*pending[first].strategy);
  block.place = corrections.addPlace(block.features);
}

/// Returns by how much a strategy is expected to be better than the value
/// `least`, if it fits.
double BlockSearch::gainOf(const Sample &sample, size_t place,
                           double least) const {
  double seconds = sample.seconds * corrections.secondsFactor(place);
  double others = sample.otherBytes * corrections.bytesFactor(place);
  double bytesError = corrections.bytesDeviation(place);
  if (problem.options.objective == Objective::Memory)
    return expectedImprovement(sample.stateBytes + others, others * bytesError,
                               least);
  if (sample.boundSeconds >= least)
    return 0;
  double gain = expectedImprovement(
      seconds, seconds * corrections.secondsDeviation(place), least);
  double left = problem.feasibility.limitBytes() - sample.stateBytes;
  if (gain <= 0 || left <= 0)
    return 0;
  if (others <= 0 || bytesError <= 0)
    return others <= left ? gain : 0;
  return gain * probabilityBelow(std::log(left / others) / bytesError);
}

/// Returns the promise of `block`, or nullopt if the block is already measured
/// or not allowed in this turn. If `near` is set, only its neighbours are
/// allowed. `least` is the value of the best plan, or infinite if none fits.
std::optional<BlockSearch::Promise> BlockSearch::promiseOf(const Block &block,
                                                           Turn turn,
                                                           const Pending *near,
                                                           double least) const {
  if (block.isMeasured ||
      (near && !areNeighbourBlocks(*pending[block.members.front()].strategy,
                                   *near->strategy)))
    return std::nullopt;
  double secondsFactor = corrections.secondsFactor(block.place);
  double bytesFactor = corrections.bytesFactor(block.place) *
                       std::exp(-2 * corrections.bytesDeviation(block.place));
  std::optional<Promise> best;
  for (size_t k = block.begin; k < block.end; ++k) {
    const Sample &sample = samples[k];
    if (turn == Turn::Megatron ? !sample.isMegatron : !sample.isAllowed)
      continue;
    Promise promise;
    if (std::isfinite(least)) {
      promise = {false, -gainOf(sample, block.place, least)};
    } else {
      double bytes = sample.stateBytes + sample.otherBytes * bytesFactor;
      bool isTooLarge = bytes > problem.feasibility.limitBytes();
      double seconds =
          std::max(sample.seconds * secondsFactor, sample.boundSeconds);
      promise = {isTooLarge,
                 isTooLarge ? bytes : problem.value(seconds, bytes)};
    }
    if (!best || promise < *best)
      best = promise;
  }
  return best;
}

std::vector<size_t> BlockSearch::choose(Turn turn, size_t wanted) const {
  const Pending *found = best();
  const Pending *near = turn == Turn::Near ? found : nullptr;
  double least = leastValue();
  std::vector<std::optional<Promise>> promises(blocks.size());
  parallelFor(blocks.size(), kPendingAtOnce, [&](size_t b) {
    promises[b] = promiseOf(blocks[b], turn, near, least);
  });
  std::vector<std::pair<Promise, size_t>> order;
  for (size_t b = 0; b < blocks.size(); ++b)
    if (promises[b])
      order.emplace_back(*promises[b], b);
  wanted = std::min(wanted, order.size());
  std::partial_sort(order.begin(), order.begin() + wanted, order.end());
  std::vector<size_t> chosen;
  chosen.reserve(wanted);
  for (size_t i = 0; i < wanted; ++i)
    chosen.push_back(order[i].second);
  return chosen;
}

/// Ranks an entry that fits by its value, and any other entry by its bytes.
BlockSearch::Promise BlockSearch::rankOf(const Pending &entry) const {
  const Evaluation &known = *entry.composed;
  double bytes = known.memory.total();
  bool fits = problem.feasibility.fits(known);
  return {!fits, fits ? problem.value(known.stepSeconds, bytes) : bytes};
}

const Pending *BlockSearch::best(std::optional<bool> hasStages) const {
  const Pending *found = nullptr;
  for (size_t i : known) {
    const Pending &entry = pending[i];
    if (entry.isAllowed && entry.composed->rejected.empty() &&
        hasStages.value_or(entry.strategy->pp > 1) ==
            (entry.strategy->pp > 1) &&
        (!found || rankOf(entry) < rankOf(*found)))
      found = &entry;
  }
  return found;
}

/// Returns the seconds above which a strategy is only bounded.
double BlockSearch::limit() const {
  std::vector<double> seconds;
  for (size_t i : known) {
    const Pending &entry = pending[i];
    if (entry.isAllowed && entry.composed->rejected.empty() &&
        problem.feasibility.fits(*entry.composed))
      seconds.push_back(entry.composed->stepSeconds);
  }
  size_t kept = problem.kept();
  if (problem.options.objective == Objective::Memory || seconds.size() < kept)
    return std::numeric_limits<double>::infinity();
  std::nth_element(seconds.begin(), seconds.begin() + (kept - 1),
                   seconds.end());
  return seconds[kept - 1];
}

/// Corrects the formulas by their error for the best strategy of `block`.
void BlockSearch::learn(const Block &block) {
  const Pending *found = nullptr;
  for (size_t k = block.begin; k < block.end; ++k) {
    const Pending &entry = pending[sampled[k]];
    if (entry.composed && entry.composed->rejected.empty() &&
        (!found || rankOf(entry) < rankOf(*found)))
      found = &entry;
  }
  if (!found)
    return learnFromBounds(block);
  const Evaluation &truth = *found->composed;
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  std::optional<double> secondsOff, bytesOff;
  if (truth.stepSeconds > 0 && found->seconds > 0)
    secondsOff = std::log(truth.stepSeconds / found->seconds);
  if (bytes > 0 && found->otherBytes > 0)
    bytesOff = std::log(bytes / found->otherBytes);
  lessons.push_back({block.features, secondsOff, bytesOff});
  corrections.teach(lessons.back());
}

/// Corrects the formulas if all strategies of `block` are slower than the
/// limit: the error is at least bound / estimate.
void BlockSearch::learnFromBounds(const Block &block) {
  double least = std::numeric_limits<double>::infinity();
  for (size_t k = block.begin; k < block.end; ++k) {
    const Pending &entry = pending[sampled[k]];
    if (entry.isPruned && entry.seconds > 0)
      least = std::min(least, entry.bounds.stepSeconds / entry.seconds);
  }
  // A bound below the estimate does not say that the estimate is too high.
  if (least > 1 && std::isfinite(least)) {
    lessons.push_back({block.features, std::log(least), std::nullopt});
    corrections.teach(lessons.back());
  }
}

void BlockSearch::measure(const std::vector<size_t> &chosen) {
  std::vector<std::vector<Strategy>> asked;
  for (size_t b : chosen) {
    blocks[b].isMeasured = true;
    std::vector<Strategy> &strategies = asked.emplace_back();
    for (size_t i : blocks[b].members)
      strategies.push_back(*pending[i].strategy);
  }
  auto answers = problem.evaluator.compose(asked, limit());
  for (size_t k = 0; k < chosen.size(); ++k) {
    const Block &block = blocks[chosen[k]];
    for (size_t m = 0; m < answers[k].size(); ++m) {
      Pending &entry = pending[block.members[m]];
      std::optional<Composition> &answer = answers[k][m];
      if (!answer)
        continue;
      entry.isDone = true;
      entry.isPruned = answer->isBound;
      if (answer->isBound) {
        entry.bounds.stepSeconds = answer->evaluation.stepSeconds;
        continue;
      }
      entry.composed =
          std::make_unique<Evaluation>(std::move(answer->evaluation));
      known.push_back(block.members[m]);
    }
    learn(block);
  }
  count += static_cast<int64_t>(chosen.size());
  if (onMeasured)
    onMeasured();
}

std::pair<double, double> BlockSearch::expected(size_t i) const {
  const Pending &entry = pending[i];
  if (entry.composed)
    return {entry.composed->stepSeconds, entry.composed->memory.total()};
  double secondsFactor = 1, bytesFactor = 1;
  if (entry.block < blocks.size()) {
    size_t place = blocks[entry.block].place;
    secondsFactor = corrections.secondsFactor(place);
    bytesFactor = corrections.bytesFactor(place);
  }
  return {std::max(entry.seconds * secondsFactor, entry.bounds.stepSeconds),
          entry.stateBytes + entry.otherBytes * bytesFactor};
}

/// Returns the value of the best plan that fits, or infinity.
double BlockSearch::leastValue() const {
  const Pending *found = best();
  bool fits = found && !rankOf(*found).first;
  return fits ? std::min(incumbent, rankOf(*found).second) : incumbent;
}

/// Returns the best value that the corrected estimates of `block` have, of the
/// strategies that need at most `factor` times the memory; infinity if none.
double BlockSearch::estimateOf(const Block &block, double factor) const {
  const double secondsFactor = corrections.secondsFactor(block.place),
               bytesFactor = corrections.bytesFactor(block.place);
  double best = std::numeric_limits<double>::infinity();
  for (size_t k = block.begin; k < block.end; ++k) {
    const Sample &sample = samples[k];
    const double bytes = sample.stateBytes + sample.otherBytes * bytesFactor;
    if (!sample.isAllowed || bytes > factor * problem.feasibility.limitBytes())
      continue;
    const double seconds =
        std::max(sample.seconds * secondsFactor, sample.boundSeconds);
    best = std::min(best, problem.value(seconds, bytes));
  }
  return best;
}

/// Returns whether `block` has a strategy that is estimated to be at most
/// `factor` times as slow, or as large, as `least`.
bool BlockSearch::isNear(const Block &block, double least,
                         double factor) const {
  return estimateOf(block, factor) < factor * least;
}

/// Returns at most `most` blocks, each with a value of a key that no measured
/// block has, the best estimates first.
std::vector<size_t> BlockSearch::untriedValues(size_t most) const {
  const double least = leastValue();
  TriedValues tried(TriedValues::Keys::OfBlocks);
  std::vector<std::pair<double, size_t>> order;
  for (size_t b = 0; std::isfinite(least) && b < blocks.size(); ++b)
    if (blocks[b].isMeasured)
      tried.add(*pending[blocks[b].members.front()].strategy);
    else if (double value = estimateOf(blocks[b], kWorstValue);
             value < kWorstValue * least)
      order.emplace_back(value, b);
  std::sort(order.begin(), order.end());
  std::vector<size_t> chosen;
  for (auto [value, b] : order)
    if (chosen.size() < most &&
        tried.add(*pending[blocks[b].members.front()].strategy))
      chosen.push_back(b);
  return chosen;
}

/// Returns whether a measurement of `block` seems worth its time, or whether no
/// plan fits so far. The first measurements are cheap in comparison with a lost
/// plan, and the errors are not yet known well.
bool BlockSearch::mayImprove(size_t block) const {
  constexpr double kLeastGain = 0.0003; // of the best plan
  constexpr int64_t kCheap = 64;
  constexpr double kError = 1.2;
  double least = leastValue();
  if (!std::isfinite(least))
    return true;
  if (count < kCheap && isNear(blocks[block], least, kError))
    return true;
  std::optional<Promise> promise =
      promiseOf(blocks[block], Turn::Any, nullptr, least);
  return promise && -promise->second > kLeastGain * least;
}

/// Returns at most `most` blocks that are not measured and differ in one change
/// from the best plan, or from the best one with or without stages, the most
/// promising first. The errors of their estimates may be larger than those of
/// similar blocks say.
std::vector<size_t> BlockSearch::unmeasuredChanges(size_t most) const {
  const double least = leastValue();
  const std::array<const Pending *, 2> found = {best(false), best(true)};
  auto isChange = [&](const Strategy &strategy) {
    return std::ranges::any_of(found, [&](const Pending *entry) {
      return entry && areNeighbourBlocks(strategy, *entry->strategy, 1);
    });
  };
  std::vector<std::pair<Promise, size_t>> order;
  for (size_t b = 0; std::isfinite(least) && b < blocks.size(); ++b)
    if (!blocks[b].isMeasured &&
        isChange(*pending[blocks[b].members.front()].strategy) &&
        isNear(blocks[b], least, kWorstChange))
      order.emplace_back(*promiseOf(blocks[b], Turn::Any, nullptr, least), b);
  std::sort(order.begin(), order.end());
  std::vector<size_t> chosen;
  for (size_t i = 0; i < std::min(most, order.size()); ++i)
    chosen.push_back(order[i].second);
  return chosen;
}

/// Measures the blocks that seem best, until `most` are measured or no block
/// may improve on the best plan.
void BlockSearch::measurePromising(int64_t most, bool all) {
  const size_t width = static_cast<size_t>(problem.evaluator.batchSize());
  constexpr Turn kTurns[] = {Turn::Megatron, Turn::Any, Turn::Near, Turn::Any,
                             Turn::Near};
  for (int64_t round = 0; count < most; ++round) {
    const size_t wanted = std::min<size_t>(width, most - count);
    if (all && round > 0)
      if (std::vector<size_t> untried = untriedValues(wanted);
          !untried.empty()) {
        measure(untried);
        continue;
      }
    const Turn turn = all ? kTurns[round % 5] : Turn::Megatron;
    std::vector<size_t> chosen = choose(turn, wanted);
    if (all) {
      std::vector<size_t> any =
          turn == Turn::Any ? chosen : choose(Turn::Any, wanted);
      if (any.empty() || !mayImprove(any.front()))
        return;
      // The first round also finds the baseline with a layout of Megatron-LM.
      if (round > 0)
        std::erase_if(chosen, [&](size_t block) { return !mayImprove(block); });
      if (chosen.empty())
        chosen = std::move(any);
    }
    if (chosen.empty())
      return;
    measure(chosen);
  }
}

void BlockSearch::run(int64_t most, bool all) {
  measurePromising(all ? most - (most - count) / kOfChanges : most, all);
  if (all)
    runChanges(most);
}

void BlockSearch::runChanges(int64_t most) {
  const size_t width = static_cast<size_t>(problem.evaluator.batchSize());
  while (count < most) {
    std::vector<size_t> changes =
        unmeasuredChanges(std::min<size_t>(width, most - count));
    if (changes.empty())
      return;
    measure(changes);
  }
}

} // namespace dpc::cost
