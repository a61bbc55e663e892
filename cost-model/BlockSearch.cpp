//===- BlockSearch.cpp - Which blocks are measured ------------------------===//
#include "cost-model/BlockSearch.h"

#include "cost-model/Neighbours.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace dpc::cost {

void Corrections::learn(const Pending &entry, const Evaluation &truth) {
  double bytes = truth.memory.total() - stateBytesOf(truth.memory);
  if (!truth.rejected.empty() || truth.stepSeconds <= 0 || bytes <= 0 ||
      entry.seconds <= 0 || entry.otherBytes <= 0)
    return;
  Correction &off = all[entry.family];
  off.seconds += std::log(truth.stepSeconds / entry.seconds);
  off.otherBytes += std::log(bytes / entry.otherBytes);
  ++off.count;
}

BlockSearch::BlockSearch(Evaluator &evaluator, std::vector<Pending> &pending,
                         Corrections &corrections, Objective objective,
                         double memoryLimitBytes, int64_t top)
    : evaluator(evaluator), pending(pending), corrections(corrections),
      objective(objective), memoryLimitBytes(memoryLimitBytes), top(top) {
  std::map<std::string, size_t> numbers;
  for (size_t i = 0; i < pending.size(); ++i) {
    if (pending[i].bounds.memoryBytes > memoryLimitBytes)
      continue;
    std::string key = evaluator.blockOf(pending[i].strategy);
    if (key.empty())
      continue;
    auto [it, isNew] = numbers.try_emplace(std::move(key), blocks.size());
    if (isNew)
      blocks.emplace_back();
    blocks[it->second].members.push_back(i);
  }
}

BlockSearch::Promise BlockSearch::promiseOf(const Pending &entry) const {
  const Correction &off = corrections[entry.family];
  double bytes = entry.stateBytes + entry.otherBytes * off.bytesFactor();
  double seconds =
      std::max(entry.seconds * off.secondsFactor(), entry.bounds.stepSeconds);
  return {false, bytes > memoryLimitBytes, value(seconds, bytes)};
}

/// Nothing where the block is not for this turn.
std::optional<BlockSearch::Promise>
BlockSearch::promiseOf(const Block &block, Turn turn,
                       const Pending *near) const {
  if (block.isMeasured)
    return std::nullopt;
  if (near && !areNeighbourBlocks(pending[block.members.front()].strategy,
                                  near->strategy))
    return std::nullopt;
  std::optional<Promise> least;
  for (size_t i : block.members) {
    if (turn == Turn::Plain && !pending[i].isPlain)
      continue;
    Promise promise = promiseOf(pending[i]);
    if (!least || promise < *least)
      least = promise;
  }
  return least;
}

std::vector<size_t> BlockSearch::choose(Turn turn, size_t count) const {
  std::vector<std::pair<Promise, size_t>> order;
  const Pending *near = turn == Turn::Near ? best() : nullptr;
  for (size_t b = 0; b < blocks.size(); ++b)
    if (auto promise = promiseOf(blocks[b], turn, near))
      order.emplace_back(*promise, b);
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + count, order.end());
  std::vector<size_t> chosen;
  chosen.reserve(count);
  for (size_t i = 0; i < count; ++i)
    chosen.push_back(order[i].second);
  return chosen;
}

/// Of those that fit the best; else the nearest miss.
const Pending *BlockSearch::best() const {
  const Pending *found = nullptr;
  auto rank = [&](const Pending &entry) {
    const Evaluation &known = *entry.composed;
    double bytes = known.memory.total();
    bool fits = bytes <= memoryLimitBytes;
    return std::pair(!fits, fits ? value(known.stepSeconds, bytes) : bytes);
  };
  for (const Pending &entry : pending)
    if (entry.composed && entry.isAllowed && entry.composed->rejected.empty() &&
        (!found || rank(entry) < rank(*found)))
      found = &entry;
  return found;
}

/// Seconds that are still worth an exact number.
double BlockSearch::limit() const {
  std::vector<double> seconds;
  for (const Pending &entry : pending)
    if (entry.composed && entry.isAllowed && entry.composed->rejected.empty() &&
        entry.composed->memory.total() <= memoryLimitBytes)
      seconds.push_back(entry.composed->stepSeconds);
  size_t kept = static_cast<size_t>(std::max<int64_t>(top, 1));
  if (objective == Objective::Memory || seconds.size() < kept)
    return std::numeric_limits<double>::infinity();
  std::nth_element(seconds.begin(), seconds.begin() + (kept - 1),
                   seconds.end());
  return seconds[kept - 1];
}

void BlockSearch::measure(const std::vector<size_t> &chosen) {
  std::vector<std::vector<Strategy>> asked;
  for (size_t b : chosen) {
    blocks[b].isMeasured = true;
    std::vector<Strategy> &strategies = asked.emplace_back();
    for (size_t i : blocks[b].members)
      strategies.push_back(pending[i].strategy);
  }
  auto answers = evaluator.compose(asked, limit());
  for (size_t k = 0; k < chosen.size(); ++k)
    for (size_t m = 0; m < answers[k].size(); ++m) {
      Pending &entry = pending[blocks[chosen[k]].members[m]];
      std::optional<Composition> &answer = answers[k][m];
      if (!answer)
        continue;
      entry.isDone = true;
      entry.isPruned = answer->isBound;
      if (answer->isBound) {
        entry.bounds.stepSeconds = answer->evaluation.stepSeconds;
        continue;
      }
      corrections.learn(entry, answer->evaluation);
      entry.composed = std::move(answer->evaluation);
    }
}

void BlockSearch::run(int64_t most, bool all) {
  size_t width = static_cast<size_t>(evaluator.batchSize());
  const Turn turns[] = {Turn::Plain, Turn::Near, Turn::Near, Turn::Any};
  for (int64_t round = 0; count < most; ++round) {
    size_t wanted = std::min<size_t>(width, most - count);
    std::vector<size_t> chosen =
        choose(all ? turns[round % 4] : Turn::Plain, wanted);
    if (chosen.empty() && all)
      chosen = choose(Turn::Any, wanted);
    if (chosen.empty())
      return;
    measure(chosen);
    count += static_cast<int64_t>(chosen.size());
    if (onMeasured)
      onMeasured();
  }
}

} // namespace dpc::cost
