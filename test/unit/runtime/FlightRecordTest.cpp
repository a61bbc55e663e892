//===- FlightRecordTest.cpp - which rank was lost, and where --------------===//
#include "runtime/observe/FlightRecord.h"

#include "runtime/exec/Session.h"
#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/TestPlans.h"

#include <csignal>
#include <cstdio>

#include <sys/wait.h>
#include <unistd.h>

namespace dpc::rt {
namespace {

using Lines = std::vector<std::string>;

class FlightRecords : public test::ScratchFolder {
protected:
  static std::string line(const char *kind, int64_t time,
                          const std::string &text) {
    char bytes[257];
    std::snprintf(bytes, sizeof bytes, "%-5s %-17lld %-231s\n", kind,
                  static_cast<long long>(time), text.c_str());
    return bytes;
  }
  /// Writes the record of a rank whose last pulse was at `pulse` seconds.
  void leave(int rank, double pulse, const char *kind, const char *text) {
    auto time = static_cast<int64_t>(pulse * 1e6);
    write("rank-" + std::to_string(rank),
          line("pulse", time, "step 3") + line(kind, time, text) +
              line("fresh", time, "") + line("fresh", time, ""));
  }
  std::string textOf(const std::string &name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// Returns the first instruction that is, or is not, a collective.
  static const Instruction &find(const Plan &plan, bool meets) {
    for (const auto &[phase, instructions] : plan.phases)
      for (const Instruction &instruction : instructions)
        if (isCollective(instruction.op) == meets)
          return instruction;
    std::abort();
  }

  Plan plan = test::leastSquares(2, 1);
};

TEST_F(FlightRecords, TheRankWhosePulseEndedFirstIsNamed) {
  leave(0, 5000.0, "waits", "step 3, reduce (group dp ranks=0,1,2)");
  leave(1, 4990.0, "runs", "step 3, gelu");
  leave(2, 5000.02, "runs", "step 3, relu");
  EXPECT_EQ(lastInstructions(dir), Lines{"rank 1 was last in step 3, gelu"});
}

TEST_F(FlightRecords, IfAllPulsesEndTogetherRanksThatDidNotWaitAreNamed) {
  leave(0, 5000.0, "waits", "step 3, reduce (group dp ranks=0,1,2)");
  leave(1, 5000.01, "ended", "step 3, gelu");
  leave(2, 5000.02, "runs", "step 3, relu");
  EXPECT_EQ(lastInstructions(dir), Lines{"rank 2 was last in step 3, relu"});
}

TEST_F(FlightRecords, ARankThatReportedAnErrorIsNotLost) {
  leave(0, 5000.0, "waits", "step 3, reduce (group dp ranks=0,1)");
  leave(1, 5000.0, "runs", "step 3, gelu");
  std::string text = textOf("rank-1");
  write("rank-1", "error" + text.substr(5));
  EXPECT_EQ(lastInstructions(dir),
            Lines{"rank 0 was last in step 3, reduce (group dp ranks=0,1)"});
  write("rank-0", "error" + textOf("rank-0").substr(5));
  EXPECT_EQ(lastInstructions(dir), Lines{});
}

TEST_F(FlightRecords, AFailureIsMarked) {
  auto record = FlightRecord::open(dir, plan, 1);
  ASSERT_TRUE(record.ok());
  (*record)->fail();
  EXPECT_EQ(textOf("rank-1").rfind("error", 0), 0u);
  EXPECT_EQ(lastInstructions(dir), Lines{});
}

TEST_F(FlightRecords, ARankThatWasStoppedStaysLost) {
  auto record = FlightRecord::open(dir, plan, 1);
  ASSERT_TRUE(record.ok());
  // Writes an old time of the last pulse, as after a stop. Tries again if the
  // pulse thread has overwritten the time.
  for (int i = 0; i < 100; ++i) {
    std::fstream file(at("rank-1"), std::ios::in | std::ios::out);
    file.write("pulse 1000 ", 11);
    file.close();
    (*record)->fail();
    if (textOf("rank-1").rfind("pulse 1000 ", 0) == 0)
      break;
  }
  EXPECT_EQ(lastInstructions(dir).size(), 1u);
}

/// in microseconds
static int64_t pulseOf(const std::string &path) {
  std::ifstream file(path);
  std::string kind;
  int64_t time = 0;
  file >> kind >> time;
  return time;
}

/// Stops and continues a child process, and returns whether its pulse resumes
/// within two seconds. With `starved`, the child ignores SIGCONT, as if it had
/// waited for a processor instead.
static bool pulsesAfterStop(const Plan &plan, const std::string &folder,
                            bool starved) {
  pid_t child = fork();
  if (child == 0) {
    if (starved)
      signal(SIGCONT, SIG_IGN);
    auto record = FlightRecord::open(folder, plan, 0);
    for (;;)
      pause();
  }
  std::string path = folder + "/rank-0";
  auto await = [&](int64_t after, double seconds) {
    for (int i = 0; i < int(seconds * 100) && pulseOf(path) <= after; ++i)
      usleep(10'000);
    return pulseOf(path) > after;
  };
  EXPECT_TRUE(await(0, 10));
  EXPECT_TRUE(await(pulseOf(path), 10)); // the thread runs
  kill(child, SIGSTOP);
  usleep(1'500'000);
  int64_t before = pulseOf(path);
  kill(child, SIGCONT);
  bool goesOn = await(before, 2);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return goesOn;
}

TEST_F(FlightRecords, ThePulsePausesOnlyAfterAStop) {
  EXPECT_TRUE(pulsesAfterStop(plan, at("starved"), true));
  EXPECT_FALSE(pulsesAfterStop(plan, at("stopped"), false));
}

TEST_F(FlightRecords, ASingleRecordIsAlwaysReported) {
  leave(1, 5000.0, "waits", "step 3, reduce (group dp ranks=0,1)");
  EXPECT_EQ(lastInstructions(dir),
            Lines{"rank 1 was last in step 3, reduce (group dp ranks=0,1)"});
  leave(1, 5000.0, "fresh", "");
  EXPECT_EQ(lastInstructions(dir), Lines{"rank 1 was last in step 3"});
}

TEST_F(FlightRecords, ALaterRecordIsANewFile) {
  auto first = FlightRecord::open(at("same"), plan, 0);
  auto second = FlightRecord::open(at("same"), plan, 0);
  ASSERT_TRUE(first.ok() && second.ok());
  (*second)->beginStep(5);
  first->reset(); // keeps the record of `second`
  EXPECT_EQ(lastInstructions(at("same")), Lines{"rank 0 was last in step 5"});
}

TEST_F(FlightRecords, TheLastFinishedInstructionOrTheStepIsNamed) {
  leave(0, 5000.0, "ended", "step 3, gelu");
  leave(1, 5001.0, "fresh", "");
  EXPECT_EQ(lastInstructions(dir), Lines{"rank 0 last finished step 3, gelu"});
  leave(0, 5002.0, "ended", "step 3, gelu");
  EXPECT_EQ(lastInstructions(dir), Lines{"rank 1 was last in step 3"});
}

TEST_F(FlightRecords, LinesAreLimited) {
  for (int rank = 0; rank < 9; ++rank)
    leave(rank, 10, "runs", "step 3, a\nb\033[2J");
  Lines lines = lastInstructions(dir);
  ASSERT_EQ(lines.size(), kMostRanks);
  EXPECT_EQ(lines[3], "rank 3 was last in step 3, a b [2J");
}

TEST_F(FlightRecords, OtherFilesAreIgnored) {
  write("rank-0", "short");
  write("rank-", std::string(1024, ' '));
  write("rank-1x", std::string(1024, '9'));
  write("notes", std::string(1024, '9'));
  EXPECT_EQ(lastInstructions(dir), Lines{});
  EXPECT_EQ(lastInstructions(at("nowhere")), Lines{});
  removeRecords(dir);
  EXPECT_FALSE(std::filesystem::exists(at("rank-0")));
  EXPECT_TRUE(std::filesystem::exists(at("notes")));
}

TEST_F(FlightRecords, DescribeTheCurrentInstruction) {
  auto record = FlightRecord::open(at("new"), plan, 1);
  ASSERT_TRUE(record.ok()) << record.status().message();
  (*record)->beginStep(7);
  const Instruction &reduce = find(plan, true);
  (*record)->begin(reduce, 7, "");
  leave(0, 1, "ended", ""); // a rank that was lost long ago
  std::filesystem::copy(at("new/rank-1"), at("rank-1"));
  std::filesystem::remove(at("rank-0"));
  leave(9, 9e9, "ended", ""); // the only live rank
  EXPECT_EQ(lastInstructions(dir),
            Lines{"rank 1 was last in step 7, " + reduce.name +
                  " (group dp ranks=0,1)"});
  (*record)->end(reduce);
  (*record)->begin(find(plan, false), 7, "forward of micro-batch 2, ");
  std::filesystem::copy(at("new/rank-1"), at("rank-1"),
                        std::filesystem::copy_options::overwrite_existing);
  Lines lines = lastInstructions(dir);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].rfind("rank 1 was last in step 7, forward of micro-batch "
                           "2, ",
                           0),
            0u)
      << lines[0];
}

TEST_F(FlightRecords, AreRemovedWhenARankEnds) {
  {
    SessionOptions options;
    options.flightRecord = dir;
    KernelLibrary none;
    auto session = Session::create(plan, none, makeLocalComms(2, {}), options);
    ASSERT_TRUE(session.ok()) << session.status().message();
    HostTensor x = test::ramp({8, 4});
    ASSERT_TRUE((*session)->step(1, {x.data.data()}).ok());
    std::ifstream file(at("rank-1"));
    std::string pulse, queue;
    std::getline(file, pulse);
    std::getline(file, queue);
    EXPECT_HAS(pulse, "step 1 ");
    EXPECT_EQ(queue.rfind("ended ", 0), 0u) << queue;
    EXPECT_EQ(queue.size(), 255u);
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir));
}

TEST_F(FlightRecords, AnImpossibleFolderIsReported) {
  write("file", "");
  auto record = FlightRecord::open(at("file"), plan, 0);
  EXPECT_EQ(record.status().message(),
            "--flight-record: " + at("file") + "/rank-0: Not a directory");
  // A session also works without records.
  SessionOptions options;
  options.flightRecord = at("file");
  KernelLibrary none;
  auto session = Session::create(plan, none, makeLocalComms(2, {}), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_FALSE((*session)->recordStatus().ok());
  HostTensor x = test::ramp({8, 4});
  EXPECT_TRUE((*session)->step(1, {x.data.data()}).ok());
}

} // namespace
} // namespace dpc::rt
