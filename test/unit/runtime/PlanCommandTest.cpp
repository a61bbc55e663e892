#include "runtime/plan/PlanCommand.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

using Words = std::vector<std::string>;

class PlanCommandFile : public test::ScratchFolder {};

TEST_F(PlanCommandFile, RoundTrips) {
  PlanCommand command{"/models/a b.onnx", "local:4", {"--lr=1e-3", "--infer"}};
  ASSERT_TRUE(writePlanCommand(command, dir.string()).ok());
  auto read = readPlanCommand(dir.string());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->model, command.model);
  EXPECT_EQ(read->cluster, command.cluster);
  EXPECT_EQ(read->words, command.words);
}

TEST(PlanCommand, WordsForOtherDevicesKeepTheCluster) {
  PlanCommand command{"/a.onnx", "local:4", {"--infer"}};
  EXPECT_EQ(wordsFor(command, 3),
            (Words{"/a.onnx", "--infer", "--cluster=local:3"}));
  command.cluster = "/dgx.json";
  EXPECT_EQ(wordsFor(command, 3),
            (Words{"/a.onnx", "--infer", "--cluster=/dgx.json",
                   "--strategy=ranks=3"}));
}

TEST(PlanCommand, OutputAndStrategyAreNotStepOptions) {
  for (const char *name : {"output", "calibrate", "dump-ir-dir", "emit",
                           "strategy", "cluster", "", "l"})
    EXPECT_FALSE(isStepOption(name)) << name;
  EXPECT_TRUE(isStepOption("lr"));
}

} // namespace
} // namespace dpc::rt
