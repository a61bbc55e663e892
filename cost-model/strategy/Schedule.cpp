//===- Schedule.cpp - What a pipeline stage runs, in which order ----------===//

#include "cost-model/strategy/Schedule.h"

#include <algorithm>
#include <iterator>

namespace dpc::cost {

using Table = std::vector<ScheduleStep>;

std::string_view stringifySchedulePhase(SchedulePhase phase) {
  static constexpr std::string_view names[] = {"forward", "backward", "weight"};
  return names[static_cast<int64_t>(phase) - 1];
}

static Table gpipeTable(int64_t microBatches) {
  Table table;
  for (int64_t m = 0; m < microBatches; ++m)
    table.push_back({SchedulePhase::Forward, 0, m});
  for (int64_t m = microBatches - 1; m >= 0; --m)
    table.push_back({SchedulePhase::Backward, 0, m});
  return table;
}

/// Merges entries: first `warmUp` F, then F and B in turn, then B.
static Table takeTurns(const Table &forwards, const Table &backwards,
                       size_t warmUp) {
  warmUp = std::min(warmUp, forwards.size());
  Table table(forwards.begin(), forwards.begin() + warmUp);
  for (size_t i = 0; i < backwards.size(); ++i) {
    if (warmUp + i < forwards.size())
      table.push_back(forwards[warmUp + i]);
    table.push_back(backwards[i]);
  }
  return table;
}

static Table oneFOneBTable(int64_t stage, int64_t pp, int64_t microBatches) {
  Table forwards, backwards;
  for (int64_t m = 0; m < microBatches; ++m) {
    forwards.push_back({SchedulePhase::Forward, 0, m});
    backwards.push_back({SchedulePhase::Backward, 0, m});
  }
  return takeTurns(forwards, backwards, pp - 1 - stage);
}

static Table interleavedTable(int64_t stage, int64_t pp, int64_t vpp,
                              int64_t microBatches) {
  Table forwards, backwards;
  for (int64_t group = 0; group < microBatches; group += pp)
    for (int64_t chunk = 0; chunk < vpp; ++chunk)
      for (int64_t m = group; m < group + pp; ++m) {
        forwards.push_back({SchedulePhase::Forward, chunk, m});
        backwards.push_back({SchedulePhase::Backward, vpp - 1 - chunk, m});
      }
  Table table =
      takeTurns(forwards, backwards, 2 * (pp - 1 - stage) + (vpp - 1) * pp);
  std::erase_if(table, [&](const ScheduleStep &step) {
    return step.microBatch >= microBatches;
  });
  return table;
}

static Table zeroBubbleTable(int64_t stage, int64_t pp, int64_t microBatches) {
  Table table;
  for (const ScheduleStep &step : oneFOneBTable(stage, pp, microBatches)) {
    table.push_back(step);
    bool isDue =
        step.phase == SchedulePhase::Backward && step.microBatch >= stage;
    if (isDue)
      table.push_back({SchedulePhase::Weight, 0, step.microBatch - stage});
  }
  for (int64_t m = std::max<int64_t>(0, microBatches - stage); m < microBatches;
       ++m)
    table.push_back({SchedulePhase::Weight, 0, m});
  return table;
}

Expected<std::vector<Table>> makeSchedule(ScheduleKind kind, int64_t pp,
                                          int64_t vpp, int64_t microBatches) {
  assert(pp >= 1 && vpp >= 1 && microBatches >= 1 && "degrees are positive");
  if (vpp > 1 && !hasChunks(kind))
    return Error{"schedule=" + std::string(stringify(kind)) +
                 " has one chunk per stage, not vpp=" + std::to_string(vpp) +
                 "; expected vpp=1 or schedule=interleaved"};
  auto tableOf = [&](int64_t stage) -> Table {
    switch (kind) {
    case ScheduleKind::GPipe:
      return gpipeTable(microBatches);
    case ScheduleKind::ZbH1:
      return zeroBubbleTable(stage, pp, microBatches);
    case ScheduleKind::OneFOneB:
      return oneFOneBTable(stage, pp, microBatches);
    case ScheduleKind::Interleaved:
      return vpp > 1 ? interleavedTable(stage, pp, vpp, microBatches)
                     : oneFOneBTable(stage, pp, microBatches);
    }
    return {};
  };
  std::vector<Table> tables;
  tables.reserve(pp);
  for (int64_t stage = 0; stage < pp; ++stage)
    tables.push_back(tableOf(stage));
  return tables;
}

std::vector<Table> forwardOnly(const std::vector<Table> &tables) {
  std::vector<Table> forwards = tables;
  for (Table &table : forwards)
    std::erase_if(table, [](const ScheduleStep &step) {
      return step.phase != SchedulePhase::Forward;
    });
  return forwards;
}

Table afterPasses(const Table &table, int64_t passes, int64_t chunks) {
  Table result;
  for (int64_t pass = 0; pass <= passes; ++pass)
    for (ScheduleStep step : table) {
      if (pass < passes && step.phase != SchedulePhase::Forward)
        continue;
      step.chunk += pass * chunks;
      result.push_back(step);
    }
  return result;
}

int64_t mostAlive(const Table &table, int64_t chunk) {
  std::vector<int64_t> left;
  for (const ScheduleStep &step : table)
    if (step.chunk == chunk) {
      left.resize(std::max<size_t>(left.size(), step.microBatch + 1));
      ++left[step.microBatch];
    }
  std::vector<bool> isAlive(left.size());
  int64_t alive = 0, most = 0;
  for (const ScheduleStep &step : table) {
    if (step.chunk != chunk)
      continue;
    alive += !isAlive[step.microBatch];
    isAlive[step.microBatch] = true;
    most = std::max(most, alive);
    alive -= --left[step.microBatch] == 0;
  }
  return most;
}

} // namespace dpc::cost
