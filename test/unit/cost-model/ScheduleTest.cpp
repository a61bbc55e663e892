#include "cost-model/strategy/Schedule.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>

using namespace dpc;
using namespace dpc::cost;

using Table = std::vector<ScheduleStep>;

namespace {

struct Shape {
  ScheduleKind kind;
  int64_t pp, vpp, microBatches;
};

std::vector<ScheduleKind> allKinds() {
  std::vector<ScheduleKind> kinds;
  for (std::string_view name : kNamesOf<ScheduleKind>)
    kinds.push_back(*symbolize<ScheduleKind>(name));
  return kinds;
}

std::vector<Shape> allShapes() {
  std::vector<Shape> shapes;
  for (int64_t pp = 1; pp <= 6; ++pp)
    for (int64_t m = 1; m <= 14; ++m) {
      for (ScheduleKind kind : allKinds())
        for (int64_t vpp = 1; vpp <= (hasChunks(kind) ? 4 : 1); ++vpp)
          shapes.push_back({kind, pp, vpp, m});
    }
  return shapes;
}

std::string nameOf(const Shape &shape) {
  return std::string(stringify(shape.kind)) +
         " pp=" + std::to_string(shape.pp) +
         " vpp=" + std::to_string(shape.vpp) +
         " M=" + std::to_string(shape.microBatches);
}

std::vector<Table> tablesOf(const Shape &shape) {
  auto tables =
      makeSchedule(shape.kind, shape.pp, shape.vpp, shape.microBatches);
  EXPECT_TRUE(tables) << nameOf(shape);
  return tables ? *tables : std::vector<Table>();
}

ScheduleCosts equalCosts(int64_t virtualStages, PhaseSeconds seconds,
                         double transfer = 0) {
  return {std::vector<PhaseSeconds>(virtualStages, seconds),
          chainTransfers(virtualStages, transfer),
          {}};
}

ScheduleTimeline timelineOf(const Shape &shape, PhaseSeconds seconds,
                            double transfer = 0) {
  auto timeline = simulateSchedule(
      tablesOf(shape), equalCosts(shape.pp * shape.vpp, seconds, transfer));
  EXPECT_TRUE(timeline) << nameOf(shape) << ": " << timeline.message();
  return timeline ? *timeline : ScheduleTimeline();
}

/// Returns the largest number of micro-batches, summed over all chunks, that
/// are alive at once. A micro-batch is alive from its first to its last entry.
int64_t aliveOf(const Table &table) {
  int64_t alive = 0, most = 0;
  std::map<std::pair<int64_t, int64_t>, int64_t> entriesLeft;
  for (const ScheduleStep &step : table)
    ++entriesLeft[{step.chunk, step.microBatch}];
  for (const ScheduleStep &step : table) {
    alive += step.phase == SchedulePhase::Forward;
    most = std::max(most, alive);
    alive -= --entriesLeft[{step.chunk, step.microBatch}] == 0;
  }
  return most;
}

} // namespace

TEST(Schedule, Names) {
  EXPECT_EQ(allKinds().size(), 4u);
  for (ScheduleKind kind : allKinds())
    EXPECT_EQ(symbolize<ScheduleKind>(stringify(kind)), kind);
  EXPECT_EQ(stringify(ScheduleKind::OneFOneB), "1f1b");
  EXPECT_FALSE(symbolize<ScheduleKind>("1F1B"));
  EXPECT_EQ(stringifySchedulePhase(SchedulePhase::Weight), "weight");
}

TEST(Schedule, TablesHaveEachEntryOnce) {
  for (const Shape &shape : allShapes()) {
    SCOPED_TRACE(nameOf(shape));
    std::vector<Table> tables = tablesOf(shape);
    ASSERT_EQ(static_cast<int64_t>(tables.size()), shape.pp);
    int64_t phases = splitsBackward(shape.kind) ? 3 : 2;
    for (const Table &table : tables) {
      std::set<std::tuple<int64_t, int64_t, int64_t>> entries;
      for (const ScheduleStep &step : table) {
        auto phase = static_cast<int64_t>(step.phase);
        EXPECT_TRUE(phase >= 1 && phase <= phases);
        EXPECT_TRUE(step.chunk >= 0 && step.chunk < shape.vpp);
        EXPECT_TRUE(step.microBatch >= 0 &&
                    step.microBatch < shape.microBatches);
        entries.insert({phase, step.chunk, step.microBatch});
      }
      EXPECT_EQ(entries.size(), table.size());
      EXPECT_EQ(static_cast<int64_t>(table.size()),
                phases * shape.vpp * shape.microBatches);
    }
  }
}

TEST(Schedule, TablesNeverDeadlock) {
  for (const Shape &shape : allShapes()) {
    std::vector<Table> tables = tablesOf(shape);
    ScheduleCosts costs = equalCosts(shape.pp * shape.vpp, {1, 1, 1});
    EXPECT_TRUE(simulateSchedule(tables, costs)) << nameOf(shape);
    EXPECT_TRUE(simulateSchedule(forwardOnly(tables), costs)) << nameOf(shape);
  }
}

TEST(Schedule, DeadlocksAreExplained) {
  using enum SchedulePhase;
  // The stages deadlock: stage 0 waits for the gradient of micro-batch 0 before
  // it sends the activation from which stage 1 computes this gradient.
  std::vector<Table> tables = {{{Backward, 0, 0}, {Forward, 0, 0}},
                               {{Forward, 0, 0}, {Backward, 0, 0}}};
  auto timeline = simulateSchedule(tables, equalCosts(2, {1, 1, 0}));
  ASSERT_FALSE(timeline);
  EXPECT_EQ(timeline.message(),
            "the schedule is stuck: stage 0 waits in entry 0, backward of "
            "chunk 0, micro-batch 0, for forward of virtual stage 0; stage 1 "
            "waits in entry 0, forward of chunk 0, micro-batch 0, for forward "
            "of virtual stage 0");
}

TEST(Schedule, LiveMicroBatches) {
  for (const Shape &shape : allShapes()) {
    SCOPED_TRACE(nameOf(shape));
    std::vector<Table> tables = tablesOf(shape);
    int64_t m = shape.microBatches;
    for (int64_t s = 0; s < shape.pp; ++s) {
      int64_t alive = aliveOf(tables[s]);
      int64_t slots = 0;
      for (int64_t chunk = 0; chunk < shape.vpp; ++chunk)
        slots += mostAlive(tables[s], chunk);
      EXPECT_GE(slots, alive);
      if (shape.vpp == 1)
        EXPECT_EQ(slots, alive);
      if (shape.kind == ScheduleKind::GPipe)
        EXPECT_EQ(alive, m);
      else if (shape.kind == ScheduleKind::ZbH1)
        EXPECT_EQ(alive, std::min(m, shape.pp));
      else if (shape.vpp == 1)
        EXPECT_EQ(alive, std::min(m, shape.pp - s));
      else
        EXPECT_LE(alive,
                  2 * (shape.pp - 1 - s) + (shape.vpp - 1) * shape.pp + 1);
    }
  }
}

TEST(Schedule, IdleTimeOfEqualStages) {
  for (const Shape &shape : allShapes()) {
    if (shape.microBatches % shape.pp != 0)
      continue;
    SCOPED_TRACE(nameOf(shape));
    double fill = static_cast<double>(shape.pp - 1);
    double chunks = static_cast<double>(shape.vpp);
    // All chunks of a stage together take f + b = 3 s.
    PhaseSeconds seconds{1 / chunks, 2 / chunks, 0};
    double idle = 3 * fill / chunks;
    if (shape.kind == ScheduleKind::ZbH1) {
      seconds = {1, 1, 1};
      idle = fill;
    }
    ScheduleTimeline timeline = timelineOf(shape, seconds);
    double work = 3 * static_cast<double>(shape.microBatches);
    EXPECT_NEAR(timeline.makespan, work + idle, 1e-9);
    EXPECT_NEAR(timeline.bubbleFraction, idle / (work + idle), 1e-9);
    for (double busy : timeline.busySeconds)
      EXPECT_NEAR(busy, work, 1e-9);
  }
}

TEST(Schedule, ZeroBubbleIsBelow1F1B) {
  for (int64_t pp = 2; pp <= 6; ++pp)
    for (int64_t m = 1; m <= 14; ++m)
      for (double f : {0.5, 1.0, 2.0}) {
        double split =
            timelineOf({ScheduleKind::ZbH1, pp, 1, m}, {f, 1, 1}, 0.1).makespan;
        double whole =
            timelineOf({ScheduleKind::OneFOneB, pp, 1, m}, {f, 2, 0}, 0.1)
                .makespan;
        EXPECT_LT(split, whole) << pp << " " << m << " " << f;
      }
}

TEST(Schedule, UnevenMicroBatchesCostNoMoreThanTheNextMultiple) {
  for (const Shape &shape : allShapes()) {
    Shape padded = shape;
    padded.microBatches =
        (shape.microBatches + shape.pp - 1) / shape.pp * shape.pp;
    EXPECT_LE(timelineOf(shape, {1, 2, 0}, 0.25).makespan,
              timelineOf(padded, {1, 2, 0}, 0.25).makespan + 1e-9)
        << nameOf(shape);
  }
}

static std::string textOf(const Table &table) {
  std::string text;
  for (const ScheduleStep &step : table)
    text += (text.empty() ? "" : " ") +
            std::string(1, " FBW"[static_cast<int>(step.phase)]) +
            std::to_string(step.chunk) + "." + std::to_string(step.microBatch);
  return text;
}

TEST(Schedule, OneFOneBByHand) {
  std::vector<Table> tables = tablesOf({ScheduleKind::OneFOneB, 2, 1, 3});
  EXPECT_EQ(textOf(tables[0]), "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2");
  EXPECT_EQ(textOf(tables[1]), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2");
  // The forward pass takes 1, the backward pass 2, and a transfer 0.5.
  auto timeline = simulateSchedule(tables, equalCosts(2, {1, 2, 0}, 0.5));
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->starts[0], (std::vector<double>{0, 1, 5, 7, 8, 12}));
  EXPECT_EQ(timeline->starts[1],
            (std::vector<double>{1.5, 2.5, 4.5, 5.5, 8.5, 9.5}));
  EXPECT_EQ(timeline->makespan, 14);
}

TEST(Schedule, InterleavedByHand) {
  // With two stages, the last of three micro-batches forms a group of one.
  std::vector<Table> tables = tablesOf({ScheduleKind::Interleaved, 2, 2, 3});
  EXPECT_EQ(textOf(tables[1]), "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 B0.1 "
                               "F1.2 B1.2 B0.2");
}

TEST(Schedule, PassesForTotalsRunAllForwardEntriesFirst) {
  std::vector<Table> tables = tablesOf({ScheduleKind::OneFOneB, 2, 1, 2});
  EXPECT_EQ(textOf(afterPasses(tables[0], 0, 1)), textOf(tables[0]));
  EXPECT_EQ(textOf(afterPasses(tables[1], 2, 1)),
            "F0.0 F0.1 F1.0 F1.1 F2.0 B2.0 F2.1 B2.1");
  // Two chunks per pass.
  std::vector<Table> chunks = tablesOf({ScheduleKind::Interleaved, 2, 2, 1});
  EXPECT_EQ(textOf(afterPasses(chunks[0], 1, 2)),
            "F0.0 F1.0 F2.0 F3.0 B3.0 B2.0");
}

TEST(Schedule, ZeroBubbleByHand) {
  std::vector<Table> tables = tablesOf({ScheduleKind::ZbH1, 2, 1, 2});
  EXPECT_EQ(textOf(tables[0]), "F0.0 F0.1 B0.0 W0.0 B0.1 W0.1");
  EXPECT_EQ(textOf(tables[1]), "F0.0 B0.0 F0.1 B0.1 W0.0 W0.1");
}

TEST(Schedule, ChunksNeedInterleaving) {
  for (ScheduleKind kind : allKinds())
    EXPECT_EQ(static_cast<bool>(makeSchedule(kind, 2, 2, 4)), hasChunks(kind))
        << stringify(kind);
  EXPECT_EQ(makeSchedule(ScheduleKind::GPipe, 2, 3, 4).message(),
            "schedule=gpipe has one chunk per stage, not vpp=3; expected "
            "vpp=1 or schedule=interleaved");
}

TEST(Schedule, StagesWaitForSkipEdges) {
  // Stage 2 also needs the output of stage 0, which arrives late.
  ScheduleCosts costs = equalCosts(3, {1, 1, 0});
  costs.transfers.push_back(
      {SchedulePhase::Forward, 0, SchedulePhase::Forward, 2, 10});
  auto timeline =
      simulateSchedule(tablesOf({ScheduleKind::GPipe, 3, 1, 1}), costs);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->starts[2][0], 11);
}

TEST(Schedule, StagesMayStartLateAndMessagesMayLeaveEarly) {
  ScheduleCosts costs = equalCosts(2, {2, 1, 0});
  costs.firstStarts = {3, 4};
  // The message leaves 1.5 s before its forward phase of 2 s ends.
  costs.transfers[0].seconds = -1.5;
  auto timeline =
      simulateSchedule(tablesOf({ScheduleKind::GPipe, 2, 1, 1}), costs);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->starts[0], (std::vector<double>{3, 7}));
  EXPECT_EQ(timeline->starts[1], (std::vector<double>{4, 6}));
  EXPECT_EQ(timeline->busySeconds, (std::vector<double>{3, 3}));
}

// Two ranks share each core, so a stage runs up to twice as fast while other
// stages wait, and never slower than while all stages run.
TEST(Schedule, StagesThatWaitLeaveTheirCores) {
  for (const Shape &shape : allShapes()) {
    std::vector<Table> tables = tablesOf(shape);
    ScheduleCosts costs = equalCosts(shape.pp * shape.vpp, {1, 2, 1}, 0.25);
    auto alone = simulateSchedule(tables, costs);
    costs.turns = 2;
    auto shared = simulateSchedule(tables, costs);
    ASSERT_TRUE(alone && shared) << nameOf(shape);
    double work = 0, busy = 0;
    for (int64_t stage = 0; stage < shape.pp; ++stage) {
      work += alone->busySeconds[stage];
      busy += shared->busySeconds[stage];
      EXPECT_EQ(shared->ends[stage].size(), tables[stage].size());
    }
    double pp = static_cast<double>(shape.pp);
    EXPECT_LE(shared->makespan, alone->makespan + 1e-9) << nameOf(shape);
    EXPECT_GE(shared->makespan, work / pp - 1e-9) << nameOf(shape);
    EXPECT_GE(busy, work / 2 - 1e-9) << nameOf(shape);
    EXPECT_EQ(shape.pp > 1, shared->makespan < alone->makespan - 1e-9)
        << nameOf(shape);
  }
}

// Forward only: stage 0 runs alone for 1/2 s, then both stages run for 1 s,
// then stage 1 runs alone for 1/2 s.
TEST(Schedule, SharedSecondsByHand) {
  std::vector<Table> tables =
      forwardOnly(tablesOf({ScheduleKind::GPipe, 2, 1, 2}));
  ScheduleCosts costs = equalCosts(2, {1, 0, 0});
  costs.turns = 2;
  auto timeline = simulateSchedule(tables, costs);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->starts[0], (std::vector<double>{0, 0.5}));
  EXPECT_EQ(timeline->ends[0], (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(timeline->starts[1], (std::vector<double>{0.5, 1.5}));
  EXPECT_EQ(timeline->ends[1], (std::vector<double>{1.5, 2.0}));
  // With one core per stage, no stage runs faster while another stage waits.
  costs.turns = 1;
  EXPECT_EQ(simulateSchedule(tables, costs)->makespan, 3);
}
