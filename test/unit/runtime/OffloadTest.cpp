#include "runtime/exec/RankMemory.h"
#include "runtime/exec/RunPlan.h"
#include "runtime/exec/Session.h"
#include "test/unit/runtime/PlanMutation.h"
#include "test/unit/runtime/TestPlans.h"

#include <filesystem>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using test::at;
using test::leastSquaresOffloaded;
using test::Mutation;
using test::op;
using test::ramp;

RunRequest request() {
  HostTensor eye = HostTensor::zeros(DType::F32, {4, 4});
  for (int i = 0; i < 4; ++i)
    eye.set(i * 5, 1);
  RunRequest request;
  request.steps = 3;
  request.poison = true;
  request.tensors = {{"w", ramp({4, 2}, 0.125, 0.5)}, {"eye", eye}};
  request.inputs = {{{"x", ramp({8, 4}, 1.0 / 32, 0.25)}}};
  return request;
}

class Offload : public testing::TestWithParam<Space> {};

TEST_P(Offload, MatchesOneDevice) {
  Plan plan = leastSquaresOffloaded(GetParam(), 2, 2);
  ASSERT_EQ(validatePlan(plan, "p").message(), "");
  RunRequest wanted = request();
  HostTensor w = wanted.tensors["w"];
  std::vector<double> losses;
  losses.reserve(3);
  for (int step = 0; step < 3; ++step)
    losses.push_back(test::leastSquaresStep(wanted.inputs[0].at("x"), w));
  Expected<RunResult> result = runPlan(plan, ".", wanted);
  ASSERT_TRUE(result.ok()) << result.status().message();
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(result->outputs[step]["loss"].at(0), losses[step],
                1e-5 * losses[step]);
  for (int64_t i = 0; i < 8; ++i)
    EXPECT_NEAR(result->tensors["w"].at(i), w.at(i), 1e-6);
}

TEST_P(Offload, PlansRoundTrip) {
  test::expectRoundTrip(leastSquaresOffloaded(GetParam(), 2, 1));
}

INSTANTIATE_TEST_SUITE_P(Spaces, Offload,
                         testing::Values(Space::Host, Space::Disk),
                         [](const auto &info) {
                           return std::string(nameOf(info.param));
                         });

TEST(Offload, WithoutOverlapInstructionsRunInOrder) {
  Plan plan = leastSquaresOffloaded(Space::Disk, 1, 2);
  KernelLibrary kernels;
  SessionOptions options;
  options.overlap = false;
  auto session = Session::create(plan, kernels, makeLocalComms(1, {}), options);
  ASSERT_TRUE(session.ok());
  InitialValues values(plan, ".", {}, request().tensors);
  ASSERT_TRUE((*session)->initialize(values).ok());
  HostTensor x = ramp({8, 4}, 1.0 / 32, 0.25), w = request().tensors["w"];
  EXPECT_TRUE((*session)->step(1, {x.data.data()}).ok());
  double loss = test::leastSquaresStep(x, w);
  EXPECT_NEAR((*session)->output("loss")->at(0), loss, 1e-5 * loss);
}

TEST(Offload, AMissingFolderIsNamed) {
  Plan plan = leastSquaresOffloaded(Space::Disk, 2, 1);
  KernelLibrary kernels;
  SessionOptions options;
  options.offloadDir = "/nonexistent/folder";
  auto session = Session::create(plan, kernels, makeLocalComms(2, {}), options);
  EXPECT_EQ(
      session.status().message(),
      "/nonexistent/folder: no file for offloading can be created there: No "
      "such file or directory; --offload-dir names another folder");
}

TEST(OffloadFile, IsUnlinkedAndHasItsSize) {
  std::string dir = testing::TempDir() + "/offload-file";
  std::filesystem::create_directories(dir);
  Expected<OffloadFile> file = OffloadFile::create(dir, 3, 100);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir));
  char text[] = "twelve bytes", back[sizeof text] = "";
  EXPECT_TRUE(file->write(80, text, 12).ok());
  EXPECT_TRUE(file->read(80, back, 12).ok());
  EXPECT_STREQ(back, text);
  std::string error = file->read(90, back, 12).message();
  EXPECT_HAS(error, "cannot read at byte 100: the file ends there");
}

TEST(OffloadFile, TooManyBytesAreRefused) {
  std::string error =
      OffloadFile::create(testing::TempDir(), 0, int64_t(1) << 60)
          .status()
          .message();
  EXPECT_HAS(error, "cannot allocate 1152921504606846976 bytes of disk");
}

TEST(ArenaDeathTest, ThePageAfterItIsProtected) {
  Expected<Arena> arena = Arena::create(3 * 4096, 0);
  ASSERT_TRUE(arena.ok());
  volatile char *end = arena->at(arena->size());
  end[-1] = 1;
  EXPECT_DEATH(end[0] = 1, "");
}

const Mutation kSpaceMutations[] = {
    {"pastTheEnd", [](Plan &p) { p.hostBytes[0] = 64; },
     "\"w\": offset 64 plus 32 bytes passes the host space's end (64)"},
    {"wrongSpace", [](Plan &p) { p.buffers[0].space = Space::Disk; },
     "passes the disk space's end (0)"},
    {"missingSize", [](Plan &p) { p.diskBytes = {}; },
     "disk_bytes has 0 numbers"},
    {"negativeSize", [](Plan &p) { p.diskBytes[0] = -1; }, "disk_bytes is -1"},
    {"scratch", [](Plan &p) { p.buffers[4].space = Space::Host; },
     "\"y\": space is host, expected device"},
    {"scalar", [](Plan &p) { p.buffers[2].space = Space::Host; },
     "\"lr\": space is host, expected device"},
    {"computes", [](Plan &p) { op<MatmulOp>(p, "forward", 2).b = 0; },
     "forward[2] (matmul): buffer 0 is in host memory, which only transfers "
     "may touch"},
    {"communicates",
     [](Plan &p) { op<AllReduceOp>(p, "update", 1).buffers = {0}; },
     "update[1] (all_reduce): buffer 0 is in host memory"},
    {"sameSpace", [](Plan &p) { op<TransferOp>(p, "forward", 0).in = 5; },
     "forward[0] (transfer): copies from device to device memory"},
    {"sizes", [](Plan &p) { op<TransferOp>(p, "forward", 0).out = 1; },
     "forward[0] (transfer): in is f32[4, 2], out is f32[4, 4]"},
    {"buffer", [](Plan &p) { op<TransferOp>(p, "forward", 0).out = 99; },
     "out is 99"},
    {"queue", [](Plan &p) { at(p, "forward", 0).queue = Queue::Comm; },
     "queue is \"comm\", expected \"copy\""},
    {"copyQueue", [](Plan &p) { at(p, "forward", 2).queue = Queue::Copy; },
     "queue is \"copy\", expected \"compute\""},
    {"readTooEarly", [](Plan &p) { at(p, "forward", 2).waits = {}; },
     "forward[2] (matmul): touches buffer 7 \"w here\" while the copy queue "
     "writes"},
    {"overwrittenTooEarly", [](Plan &p) { at(p, "forward", 0).waits = {}; },
     "forward[0] (transfer): touches buffer 7 \"w here\" while the compute "
     "queue reads"},
    {"storedTooEarly", [](Plan &p) { at(p, "update", 4).waits = {}; },
     "update[4] (transfer): touches buffer 7"},
    {"overlap",
     [](Plan &p) {
       p.tensors.push_back(p.tensors[0]);
       p.tensors.back().name = "v";
       p.tensors.back().buffer = static_cast<int>(p.buffers.size());
       p.buffers.push_back(p.buffers[0]);
       p.buffers.back().id = p.tensors.back().buffer;
     },
     "persists, but shares bytes"},
    {"output",
     [](Plan &p) {
       p.outputs.push_back(
           {"w", 0, DType::F32, {4, 2}, Layout::replicated({4, 2})});
     },
     "outputs[1] \"w\": buffer 0 is not in the device's memory"},
};
DPC_TEST_MUTATIONS(SpaceMutation, leastSquaresOffloaded(Space::Host, 2, 2), "",
                   kSpaceMutations);

} // namespace
} // namespace dpc::rt
