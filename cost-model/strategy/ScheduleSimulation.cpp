//===- ScheduleSimulation.cpp - Simulates the tables of a schedule --------===//

#include "cost-model/strategy/Schedule.h"

#include <algorithm>
#include <limits>

namespace dpc::cost {

using Table = std::vector<ScheduleStep>;

std::vector<ScheduleTransfer> chainTransfers(int64_t virtualStages,
                                             double seconds) {
  std::vector<ScheduleTransfer> transfers;
  for (int64_t v = 0; v + 1 < virtualStages; ++v) {
    transfers.push_back(
        {SchedulePhase::Forward, v, SchedulePhase::Forward, v + 1, seconds});
    transfers.push_back(
        {SchedulePhase::Backward, v + 1, SchedulePhase::Backward, v, seconds});
  }
  return transfers;
}

namespace {

class TableRun {
public:
  TableRun(const std::vector<Table> &tables, const ScheduleCosts &costs);
  Expected<ScheduleTimeline> run();

private:
  /// A phase waits for `phase` of virtual stage `from`, and then for a transfer
  /// that takes `seconds`.
  struct Need {
    int64_t phase = 0;
    int64_t from = 0;
    double seconds = 0;
  };
  const std::vector<Table> &tables;
  const ScheduleCosts &costs;
  int64_t pp;
  int64_t microBatches = 0;
  std::vector<std::vector<Need>> needs; ///< By phase and virtual stage.
  std::vector<double>
      ended; ///< By phase, virtual stage and micro-batch; -1 = not ended.
  std::vector<size_t> next;
  ScheduleTimeline timeline;

  int64_t virtualStages() const { return costs.virtualStages.size(); }
  int64_t index(int64_t phase, int64_t v) const {
    return (phase - 1) * virtualStages() + v;
  }
  double &endOf(int64_t phase, int64_t v, int64_t m) {
    return ended[index(phase, v) * microBatches + m];
  }
  double secondsOfNext(int64_t stage) const;
  void finishEntry(int64_t stage, double start, double end);
  std::optional<double> startOf(int64_t stage);
  bool runEntry(int64_t stage);
  void runInTurns();
  std::string missing(const ScheduleStep &step, int64_t v) const;
  Error stuck() const;
  void sumUp();
};

} // namespace

TableRun::TableRun(const std::vector<Table> &tables, const ScheduleCosts &costs)
    : tables(tables), costs(costs), pp(tables.size()),
      needs(3 * costs.virtualStages.size()), next(tables.size(), 0) {
  assert(pp >= 1 && virtualStages() % pp == 0 && "as many chunks everywhere");
  for (const Table &table : tables)
    for (const ScheduleStep &step : table)
      microBatches = std::max(microBatches, step.microBatch + 1);
  ended.assign(needs.size() * microBatches, -1);
  constexpr auto forward = static_cast<int64_t>(SchedulePhase::Forward);
  constexpr auto backward = static_cast<int64_t>(SchedulePhase::Backward);
  constexpr auto weight = static_cast<int64_t>(SchedulePhase::Weight);
  for (int64_t v = 0; v < virtualStages(); ++v) {
    needs[index(backward, v)].push_back({forward, v, 0});
    needs[index(weight, v)].push_back({backward, v, 0});
  }
  for (const ScheduleTransfer &transfer : costs.transfers) {
    assert(transfer.from < virtualStages() && transfer.to < virtualStages());
    int64_t to = index(static_cast<int64_t>(transfer.toPhase), transfer.to);
    needs[to].push_back({static_cast<int64_t>(transfer.fromPhase),
                         transfer.from, transfer.seconds});
  }
  timeline.busySeconds.assign(pp, 0);
  timeline.starts.resize(pp);
  timeline.ends.resize(pp);
}

/// Returns the seconds of the next entry of `stage` while all other stages run.
double TableRun::secondsOfNext(int64_t stage) const {
  const ScheduleStep &step = tables[stage][next[stage]];
  const PhaseSeconds &seconds = costs.virtualStages[step.chunk * pp + stage];
  if (step.phase == SchedulePhase::Forward)
    return seconds.forward;
  return step.phase == SchedulePhase::Backward ? seconds.backward
                                               : seconds.weight;
}

/// Nullopt if no entry is left or a dependency has not ended.
std::optional<double> TableRun::startOf(int64_t stage) {
  if (next[stage] == tables[stage].size())
    return std::nullopt;
  const ScheduleStep &step = tables[stage][next[stage]];
  int64_t v = step.chunk * pp + stage;
  const std::vector<double> &ends = timeline.ends[stage];
  double start = !ends.empty()               ? ends.back()
                 : costs.firstStarts.empty() ? 0
                                             : costs.firstStarts[stage];
  for (const Need &need : needs[index(static_cast<int64_t>(step.phase), v)]) {
    double arrival = endOf(need.phase, need.from, step.microBatch);
    if (arrival < 0)
      return std::nullopt;
    start = std::max(start, arrival + need.seconds);
  }
  return start;
}

void TableRun::finishEntry(int64_t stage, double start, double end) {
  const ScheduleStep &step = tables[stage][next[stage]];
  timeline.starts[stage].push_back(start);
  timeline.ends[stage].push_back(end);
  timeline.busySeconds[stage] += end - start;
  endOf(static_cast<int64_t>(step.phase), step.chunk * pp + stage,
        step.microBatch) = end;
  ++next[stage];
}

/// Runs the next entry of a stage. Returns false if no entry can start.
bool TableRun::runEntry(int64_t stage) {
  std::optional<double> start = startOf(stage);
  if (!start)
    return false;
  finishEntry(stage, *start, *start + secondsOfNext(stage));
  return true;
}

/// Stages share cores: an entry slows down when other stages start entries.
void TableRun::runInTurns() {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Work {
    double start = kNever;
    double left = 0; ///< Remaining seconds if all other stages run.
  };
  std::vector<Work> works(pp);
  for (double now = 0;;) {
    int64_t atWork = 0;
    double nextStart = kNever, least = kNever;
    for (int64_t stage = 0; stage < pp; ++stage) {
      Work &work = works[stage];
      if (work.start > now)
        if (std::optional<double> start = startOf(stage))
          work = {std::max(*start, now), secondsOfNext(stage)};
      if (work.start <= now) {
        ++atWork;
        least = std::min(least, work.left);
      } else {
        nextStart = std::min(nextStart, work.start);
      }
    }
    if (atWork == 0 && nextStart == kNever)
      return;
    double speed = std::min(costs.turns, static_cast<double>(pp) /
                                             std::max<double>(1, atWork));
    bool ends = now + least / speed <= nextStart;
    double then = ends ? now + least / speed : nextStart;
    for (int64_t stage = 0; stage < pp; ++stage) {
      Work &work = works[stage];
      if (work.start > now)
        continue;
      bool isFirst = ends && work.left == least;
      work.left -= isFirst ? work.left : (then - now) * speed;
      if (!isFirst)
        continue;
      finishEntry(stage, work.start, then);
      work = {};
    }
    now = then;
  }
}

/// Returns the first dependency of an entry that has not ended.
std::string TableRun::missing(const ScheduleStep &step, int64_t v) const {
  for (const Need &need : needs[index(static_cast<int64_t>(step.phase), v)])
    if (ended[index(need.phase, need.from) * microBatches + step.microBatch] <
        0)
      return std::string(stringifySchedulePhase(
                 static_cast<SchedulePhase>(need.phase))) +
             " of virtual stage " + std::to_string(need.from);
  return "nothing";
}

Error TableRun::stuck() const {
  std::string text;
  for (int64_t stage = 0; stage < pp; ++stage)
    if (next[stage] < tables[stage].size()) {
      const ScheduleStep &step = tables[stage][next[stage]];
      text += (text.empty() ? "the schedule is stuck: stage " : "; stage ") +
              std::to_string(stage) + " waits in entry " +
              std::to_string(next[stage]) + ", " +
              std::string(stringifySchedulePhase(step.phase)) + " of chunk " +
              std::to_string(step.chunk) + ", micro-batch " +
              std::to_string(step.microBatch) + ", for " +
              missing(step, step.chunk * pp + stage);
    }
  assert(!text.empty() && "all tables ended");
  return Error{text};
}

void TableRun::sumUp() {
  double busy = 0;
  for (int64_t stage = 0; stage < pp; ++stage) {
    busy += timeline.busySeconds[stage];
    if (!timeline.ends[stage].empty())
      timeline.makespan =
          std::max(timeline.makespan, timeline.ends[stage].back());
  }
  double all = timeline.makespan * static_cast<double>(pp);
  timeline.bubbleFraction = all > 0 ? std::max(0.0, 1 - busy / all) : 0;
}

Expected<ScheduleTimeline> TableRun::run() {
  if (costs.turns > 1)
    runInTurns();
  for (bool moved = costs.turns <= 1; moved;) {
    moved = false;
    for (int64_t stage = 0; stage < pp; ++stage)
      while (runEntry(stage))
        moved = true;
  }
  for (int64_t stage = 0; stage < pp; ++stage)
    if (next[stage] < tables[stage].size())
      return stuck();
  sumUp();
  return std::move(timeline);
}

Expected<ScheduleTimeline> simulateSchedule(const std::vector<Table> &tables,
                                            const ScheduleCosts &costs) {
  return TableRun(tables, costs).run();
}

} // namespace dpc::cost
