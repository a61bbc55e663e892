//===- RunStartTest.cpp - the first lines of a run ------------------------===//
#include "runtime/job/RunStart.h"

#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/TestPlans.h"

#include <algorithm>

namespace dpc::rt {
namespace {

using Strings = std::vector<std::string>;

/// The update writes "w" and no other tensor.
TEST(TrainedWeights, AreThoseThatTheUpdateWrites) {
  Plan plan = test::leastSquares(2, 2);
  EXPECT_EQ(trainedWeights(plan).trained, Strings{"w"});
  EXPECT_EQ(trainedWeights(plan).kept, Strings{"eye"});
  plan.tensors[1].isUnsaved = true; // a constant of the program
  EXPECT_EQ(trainedWeights(plan).kept, Strings());
  plan.tensors[0].role = TensorRole::Buffer; // running statistics
  EXPECT_EQ(trainedWeights(plan).trained, Strings());
  EXPECT_EQ(trainedWeights(plan).updated, Strings{"w"});
  plan = test::leastSquares(2, 2);
  plan.phases["update"].clear();
  EXPECT_EQ(trainedWeights(plan).trained, Strings());
}

TEST(TrainedWeights, MayBeOutsideTheDevice) {
  for (Space space : {Space::Host, Space::Disk})
    EXPECT_EQ(trainedWeights(test::leastSquaresOffloaded(space, 2, 2)).trained,
              Strings{"w"});
}

class RunStart : public test::ScratchFolder {
protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    plan = test::leastSquares(1, 1);
    plan.lossOutput = "loss";
    write("weights.bin", std::string(96, '\0'));
    for (int i : {0, 1}) {
      plan.tensors[i].init = InitKind::Source;
      plan.tensors[i].source =
          TensorSource{at("weights.bin"), 32 * i, 32 + 32 * i, DType::F32};
    }
    options.plan = at("plan");
    options.steps = 5;
  }
  std::string lines(const std::string &from = "") const {
    auto inputs = randomInputs(plan, 0);
    InitChoice init;
    if (!options.init.empty())
      init = *InitChoice::parse(options.init);
    std::string text;
    for (const std::string &line : firstLines(
             {options, plan, *inputs, init, DataReport(), from, "", "", 3}))
      text += line + "\n";
    return text;
  }

  Plan plan;
  RunOptions options;
};

TEST_F(RunStart, SaysWhatIsTrained) {
  EXPECT_HAS(lines(), "training the output 'loss': 1 weight; not trained: "
                      "'eye'\n");
  Tensor kept = plan.tensors[1];
  for (int i = 0; i < 6; ++i) {
    kept.name = "k" + std::to_string(i);
    plan.tensors.push_back(kept);
  }
  EXPECT_HAS(lines(),
             "not trained: 'eye', 'k0', 'k1', 'k2', 'k3' and 2 more\n");
}

TEST_F(RunStart, SaysWhereTheWeightsComeFrom) {
  const std::string file = at("weights.bin");
  EXPECT_HAS(lines(), "\nweights: 2 from " + file + "\n");
  options.init = "random:7";
  EXPECT_HAS(lines(), "\nweights: 2 from " + file +
                          "; no weight lacks an initial value: "
                          "--init=random:7 changes nothing\n");
  plan.tensors[0].source.reset();
  EXPECT_HAS(lines(),
             "\nweights: 1 from --init=random:7, 1 from " + file + "\n");
  std::filesystem::remove(file);
  EXPECT_HAS(lines(), "\nweights: 2 from --init=random:7\n");
  options.init = "";
  plan.tensors[0].init = InitKind::Zeros;
  plan.tensors[1].init = InitKind::Random;
  plan.tensors[1].source.reset();
  EXPECT_HAS(lines(), "\nweights: 1 from constants of the plan, 1 from random "
                      "numbers of the plan (seed 0)\n");
  EXPECT_HAS(lines("ck/step-3"), "\nweights: from ck/step-3\n");
}

} // namespace
} // namespace dpc::rt
