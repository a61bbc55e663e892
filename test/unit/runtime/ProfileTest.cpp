#include "runtime/observe/Profile.h"
#include "test/unit/runtime/Expect.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dpc;
using namespace dpc::rt;

namespace {

/// Builds a trace. Durations are whole microseconds.
class TraceText {
public:
  TraceText() {
    for (int queue = 0; queue < 2; ++queue)
      add({{"name", "thread_name"},
           {"ph", "M"},
           {"pid", 0},
           {"tid", queue},
           {"args", {{"name", queue == 0 ? "compute" : "communication"}}}});
  }
  void add(int rank, int queue, int step, const char *name, const char *op,
           int begin, int micros) {
    add({{"name", name},
         {"cat", op},
         {"ph", "X"},
         {"ts", begin},
         {"dur", micros},
         {"pid", rank},
         {"tid", queue},
         {"args", {{"step", step}, {"phase", "forward"}}}});
  }
  std::string text() const { return "{\"traceEvents\": [" + events + "]}"; }

private:
  void add(const nlohmann::json &event) {
    events += (events.empty() ? "" : ",") + event.dump();
  }
  std::string events;
};

} // namespace

/// Returns a trace of two layers, with a GEMM each, and an all_reduce.
static TraceText steps(int first, int last, int ranks, int productMicros) {
  TraceText trace;
  for (int step = first; step <= last; ++step)
    for (int rank = 0; rank < ranks; ++rank) {
      int at = 1000 * step;
      // The first step is slow.
      int micros = step == 1 ? 500 : productMicros;
      trace.add(rank, 0, step, "h.0/fc", "matmul", at, micros);
      trace.add(rank, 0, step, "h.1/fc", "matmul", at + 10, micros);
      trace.add(rank, 1, step, "sum", "all_reduce", at + 20, 20);
    }
  return trace;
}

TEST(Profile, ComparesSumsOverLayersStepsAndRanks) {
  auto profile = compareTraces(steps(0, 0, 1, 8).text(), // rank 0 only
                               steps(1, 3, 2, 10).text());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->steps, 2); // the first step is omitted
  EXPECT_EQ(profile->ranks, 1);
  ASSERT_EQ(profile->rows.size(), 2U);
  const ProfileRow &product = profile->rows[0], &sum = profile->rows[1];
  EXPECT_EQ(product.name, "h.*/fc");
  EXPECT_EQ(product.op, "matmul");
  EXPECT_EQ(product.queue, "compute");
  EXPECT_DOUBLE_EQ(product.times, 2);
  EXPECT_NEAR(product.predictedSeconds.value(), 16e-6, 1e-12);
  EXPECT_NEAR(product.measuredSeconds, 20e-6, 1e-12);
  EXPECT_NEAR(product.difference(), 4e-6, 1e-12);
  EXPECT_EQ(sum.name, "sum");
  EXPECT_NEAR(sum.difference(), 0, 1e-12);
  EXPECT_NEAR(profile->step.predictedSeconds.value(), 40e-6, 1e-12);
  EXPECT_NEAR(profile->step.measuredSeconds, 40e-6, 1e-12);
  ASSERT_EQ(profile->queues.size(), 2U);
  EXPECT_EQ(profile->queues[1].name, "compute");
  EXPECT_NEAR(profile->queues[1].measuredSeconds, 20e-6, 1e-12);
}

TEST(Profile, SumsOfQueuesIgnoreEventsThatHaveNotRun) {
  TraceText predicted = steps(0, 0, 1, 8);
  predicted.add(0, 0, 0, "h.0/never", "matmul", 30, 900);
  auto profile = compareTraces(predicted.text(), steps(1, 2, 1, 10).text());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->rows.size(), 2U);
  EXPECT_EQ(profile->queues[1].name, "compute");
  EXPECT_NEAR(profile->queues[1].predictedSeconds.value(), 16e-6, 1e-12);
}

TEST(Profile, OneStepIsNotLeftOut) {
  auto profile = compareTraces("", steps(1, 1, 2, 10).text());
  ASSERT_TRUE(profile) << profile.status().message();
  EXPECT_EQ(profile->steps, 1);
  EXPECT_EQ(profile->ranks, 2);
  EXPECT_FALSE(profile->isPredicted);
  EXPECT_FALSE(profile->rows[0].predictedSeconds.has_value());
  EXPECT_NEAR(profile->rows[0].measuredSeconds, 1000e-6, 1e-12);
  auto json = nlohmann::json::parse(profileJson(*profile));
  EXPECT_EQ(json["predicted"], false);
  EXPECT_FALSE(json["rows"][0].contains("predicted_seconds"));
}

TEST(Profile, TextNamesTheLargestDifferencesFirst) {
  auto profile =
      compareTraces(steps(0, 0, 1, 8).text(), steps(1, 2, 1, 10).text());
  ASSERT_TRUE(profile);
  std::string text = profileText(*profile, 1);
  EXPECT_HAS(text, "     16.0 us     20.0 us    +4.00 us       2  "
                   "h.*/fc (matmul), forward\n"
                   "  and 1 more with smaller differences: profile.json\n");
}

TEST(Profile, RefusesOtherTexts) {
  std::string good = steps(1, 1, 1, 10).text();
  auto messageOf = [&](const std::string &predicted) {
    return compareTraces(predicted, good).status().message();
  };
  EXPECT_EQ(messageOf("{}"),
            "trace.json is not a trace: it has no traceEvents");
  EXPECT_EQ(messageOf("{\"traceEvents\": [{\"ph\": 1}]}"),
            "trace.json: traceEvents[0] is not an event of dpc");
  EXPECT_EQ(messageOf("{\"traceEvents\": []}"),
            "no measured step has a prediction");
  EXPECT_EQ(messageOf(R"({"traceEvents": [{"ph": "X", "name": "thread_name",
                "cat": "a", "pid": 0, "tid": 0, "ts": 0, "dur": 0,
                "args": {"step": 9, "phase": "f"}}]})"),
            "");
  EXPECT_EQ(messageOf(std::string(100000, '[')),
            "trace.json is not a trace: it has no traceEvents");
}
