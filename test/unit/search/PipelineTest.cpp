//===- PipelineTest.cpp - Time and memory of two stages -------------------===//
#include "passes/lower/Lower.h"
#include "passes/price/StepRecord.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace dpc;

namespace {

/// Two devices on which an op takes 1 s and a message takes 0.5 s, apart from
/// small fractions of a second.
cost::Cluster secondsPerOp() {
  cost::Cluster cluster;
  cost::Device device;
  device.name = "toy";
  device.peakFlops.fill(1e18);
  device.memoryBytes = device.memoryBytesPerSecond = 1e18;
  device.launchSeconds = 1;
  cluster.groups.push_back(cost::NodeGroup{1, 2, device});
  cluster.levels.push_back({.name = "wire",
                            .span = 2,
                            .bytesPerSecond = 1e18,
                            .latencySeconds = 0.5});
  return cluster;
}

/// Returns the text of a step function. In it, `$` is replaced by the type of a
/// tensor with 4096 bytes.
std::string step(int64_t stage, const std::string &arguments,
                 const std::string &body,
                 const std::vector<cost::ScheduleStep> &table) {
  std::string triples;
  for (const cost::ScheduleStep &entry : table)
    triples += (triples.empty() ? ": " : ", ") +
               std::to_string(static_cast<int64_t>(entry.phase)) + ", " +
               std::to_string(entry.chunk) + ", " +
               std::to_string(entry.microBatch);
  std::string text =
      "func.func @step." + std::to_string(stage) + "(" + arguments +
      ") attributes {dpc.mesh = #dpc.mesh<pp=2, mb=3>, "
      "dpc.stage = " +
      std::to_string(stage) + " : i64, dpc.schedule = array<i64" + triples +
      ">} {\n" + body + "return }\n";
  for (size_t at; (at = text.find('$')) != std::string::npos;)
    text.replace(at, 1, "tensor<1024xf32>");
  return text;
}

std::string op(const std::string &result, const std::string &operand,
               const std::string &phase) {
  return "%" + result + " = dpc.unary exp %" + operand + " {dpc.phase = \"" +
         phase + "\"} : $ -> $\n";
}

std::string send(const std::string &value, int64_t to, int64_t tag,
                 const std::string &phase) {
  return "dpc.send %" + value + " to = " + std::to_string(to) +
         " tag = " + std::to_string(tag) + " {dpc.phase = \"" + phase +
         "\"} : $\n";
}

std::string recv(const std::string &value, int64_t from, int64_t tag,
                 const std::string &phase) {
  return "%" + value + " = dpc.recv from = " + std::to_string(from) +
         " tag = " + std::to_string(tag) + " {dpc.phase = \"" + phase +
         "\"} : $\n";
}

const std::string kInput = "%x: $ {dpc.name = \"x\", dpc.role = \"input\"}";
const std::string kParameter =
    "%w: $ {dpc.name = \"w\", dpc.role = \"parameter\"}";

class TwoStages : public ::testing::Test {
protected:
  TwoStages() { context.loadDialect<DpcDialect, func::FuncDialect>(); }

  /// Builds two stages on which forward takes 1 s, backward 2 s and update 1 s.
  /// Stage 1 sends its message after op `sendAfter` of backward.
  void build(int64_t sendAfter, cost::ScheduleKind kind) {
    auto tables = cost::makeSchedule(kind, 2, 1, 3);
    ASSERT_TRUE(tables);
    std::string first = op("y", "x", "forward") + send("y", 1, 0, "forward") +
                        recv("dy", 1, 1, "backward") +
                        "%t = dpc.binary mul %dy, %y {dpc.phase = "
                        "\"backward\"} : ($, $) -> $\n" +
                        op("dx", "t", "backward") + op("u", "w", "update");
    std::string message = send("dz", 0, 1, "backward");
    std::string second =
        recv("y", 0, 0, "forward") + op("z", "y", "forward") +
        op("dz", "z", "backward") + (sendAfter == 0 ? message : "") +
        op("dw", "y", "backward") + (sendAfter == 1 ? message : "") +
        op("u", "w", "update");
    module = parseSourceString<ModuleOp>(
        step(0, kInput + ", " + kParameter, first, (*tables)[0]) +
            step(1, kParameter, second, (*tables)[1]),
        &context);
    ASSERT_TRUE(module);
    steps = findSteps(*module);
    ASSERT_EQ(steps.size(), 2u);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  SmallVector<func::FuncOp> steps;
};

} // namespace

TEST_F(TwoStages, TimeByHand) {
  build(1, cost::ScheduleKind::OneFOneB);
  StepTime time = *estimateTime(steps, secondsPerOp());
  // The schedule ends at 14 s, as in OneFOneBByHand of ScheduleTest. The update
  // takes 1 s.
  EXPECT_NEAR(time.seconds, 15, 1e-6);
  EXPECT_NEAR(time.computeSeconds, 10, 1e-6);
  // Each stage computes 9 s of the 14 s that the schedule takes.
  EXPECT_NEAR(time.bubbleFraction, 5.0 / 15, 1e-6);
  EXPECT_NEAR(time.exposedCommunicationSeconds, 0, 1e-6);
  ASSERT_EQ(time.stages.size(), 2u);
  for (const StageTime &stage : time.stages) {
    EXPECT_NEAR(stage.forwardSeconds, 1, 1e-6);
    EXPECT_NEAR(stage.backwardSeconds, 2, 1e-6);
    EXPECT_EQ(stage.weightSeconds, 0);
    EXPECT_NEAR(stage.idleSeconds, 5, 1e-6);
  }
  // One message of 4096 bytes per micro-batch and direction.
  ASSERT_EQ(time.bytesPerLevel.size(), 1u);
  EXPECT_EQ(time.bytesPerLevel[0], 3 * 4096);
}

TEST_F(TwoStages, MessagesLeaveAfterTheirProducer) {
  // Stage 1 sends after the first of the two ops of a backward. Its gradients
  // arrive at 4, 7 and 11 s instead of 5, 8 and 12 s.
  build(0, cost::ScheduleKind::OneFOneB);
  EXPECT_NEAR(estimateTime(steps, secondsPerOp())->seconds, 13, 1e-6);
}

TEST_F(TwoStages, FramesOfLiveMicroBatches) {
  auto tensors = [&](int64_t stage) {
    return estimateMemory(steps[stage]).categories.total() / 4096;
  };
  // Stage 0 keeps y for backward, and with 1F1B two micro-batches are live. The
  // peak is at the op that computes t: w, t, dy and two copies of y.
  build(1, cost::ScheduleKind::OneFOneB);
  EXPECT_EQ(tensors(0), 5);
  // Stage 1 has one live micro-batch. Its peak is w, y and two of z, dz, dw.
  EXPECT_EQ(tensors(1), 4);
  // All three micro-batches are live. Stage 1 keeps y and z of each, and dw
  // reuses the buffer of z.
  build(1, cost::ScheduleKind::GPipe);
  EXPECT_EQ(tensors(0), 6);
  EXPECT_EQ(tensors(1), 1 + 3 * 2 + 1);
}

TEST_F(TwoStages, FindsOneStepOrAllInOrder) {
  build(1, cost::ScheduleKind::GPipe);
  EXPECT_EQ(steps[0].getName(), "step.0");
  EXPECT_EQ(steps[1].getName(), "step.1");
  auto single =
      parseSourceString<ModuleOp>("func.func @step() { return }", &context);
  EXPECT_EQ(findSteps(*single).size(), 1u);
  auto none = parseSourceString<ModuleOp>("module {}", &context);
  EXPECT_TRUE(findSteps(*none).empty());
}

/// The end of the last op.
static double lastEnd(const StepRecord &record) {
  double last = 0;
  for (const StageRecord &stage : record.stages)
    last = std::max(last, stage.end());
  return last;
}

static double busySeconds(const StageRecord &stage) {
  double busy = 0;
  for (const RecordedEntry &entry : stage.entries) {
    const RecordedPhase &phase = stage.phases[entry.phase];
    busy += phase.seconds - (phase.waitEnd - phase.waitBegin);
  }
  return busy;
}

TEST_F(TwoStages, TheRecordEndsWithTheStep) {
  for (cost::ScheduleKind kind :
       {cost::ScheduleKind::OneFOneB, cost::ScheduleKind::GPipe}) {
    build(1, kind);
    StepRecord record;
    StepTime time = *estimateTime(steps, secondsPerOp(), &record);
    EXPECT_EQ(record.seconds, time.seconds);
    EXPECT_DOUBLE_EQ(lastEnd(record) + record.hostSeconds, time.seconds);
    ASSERT_EQ(record.stages.size(), 2u);
    for (size_t i = 0; i < 2; ++i)
      EXPECT_NEAR(busySeconds(record.stages[i]) + time.stages[i].idleSeconds,
                  time.seconds - record.hostSeconds, 1e-6);
    // Three micro-batches with forward and backward, and one update.
    EXPECT_EQ(record.stages[0].entries.size(), 7u);
    double free = 0;
    for (const RecordedEntry &entry : record.stages[1].entries) {
      EXPECT_GE(entry.begin, free);
      free = entry.begin + record.stages[1].phases[entry.phase].seconds;
    }
  }
}

TEST_F(TwoStages, TheRecordHasMessages) {
  build(1, cost::ScheduleKind::OneFOneB);
  StepRecord record;
  StepTime time = *estimateTime(steps, secondsPerOp(), &record);
  const RecordedPhase &forward = record.stages[0].phases.front();
  ASSERT_EQ(forward.ops.size(), 2u); // exp, send
  const RecordedOp &sent = forward.ops[1];
  EXPECT_TRUE(isa<SendOp>(sent.op));
  EXPECT_NEAR(sent.begin, 1, 1e-6);
  EXPECT_NEAR(sent.end - sent.begin, 0.5, 1e-6);
  ASSERT_EQ(sent.bytesPerLevel.size(), 1u);
  EXPECT_EQ(3 * sent.bytesPerLevel[0], time.bytesPerLevel[0]);
}

TEST_F(TwoStages, TheLargestMomentIsThePeak) {
  for (cost::ScheduleKind kind :
       {cost::ScheduleKind::OneFOneB, cost::ScheduleKind::GPipe}) {
    build(1, kind);
    for (func::FuncOp step : steps) {
      double most = 0;
      for (const cost::MemoryBreakdown &bytes : memoryOverStep(step))
        most = std::max(most, bytes.total());
      EXPECT_EQ(most, estimateMemory(step).categories.total());
    }
  }
}
