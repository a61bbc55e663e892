//===- OutputFilesTest.cpp - results that would replace inputs ------------===//
#include "runtime/job/OutputFiles.h"

#include "runtime/io/Npy.h"
#include "runtime/plan/PlanCommand.h"
#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/TestPlans.h"

#include <sys/stat.h>

namespace dpc::rt {
namespace {

namespace fs = std::filesystem;

/// A plan in plan/, whose weights are in weights.bin, with data in data/.
class OutputFilesTest : public test::ScratchFolder {
protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    plan = test::leastSquares(2, 2);
    plan.sourceFiles = {{"../weights.bin", 5, ""}};
    for (const char *folder : {"plan/kernels", "data", "out", "ck/step-3"})
      fs::create_directories(dir / folder);
    for (const char *file :
         {"plan/plan.json", "plan/kernels/k.so", "weights.bin", "model.pt2",
          "data/x.npy", "data/ids.npy", "tokens.bin", "m.jsonl"})
      write(file, "kept");
    ASSERT_TRUE(
        writePlanCommand({at("model.pt2"), "local:2", {}}, at("plan")).ok());
    options.plan = at("plan");
    options.data = at("data");
  }

  std::string errorOf(const RunOptions &tried) const {
    return checkOutputs({tried, plan, nullptr, init}).message();
  }
  std::string errorOfMetrics(const std::string &path) const {
    RunOptions tried = options;
    tried.metrics = {path};
    return errorOf(tried);
  }
  std::string contents(const std::string &name) const {
    std::ifstream in(dir / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  Plan plan;
  RunOptions options;
  InitChoice init;
};

TEST_F(OutputFilesTest, NoOutputReplacesAFileOfThePlan) {
  for (const char *file :
       {"plan/plan.json", "plan/command.json", "plan/kernels/k.so"}) {
    EXPECT_HAS(errorOfMetrics(at(file)),
               "--metrics: " + at(file) + " is the plan, which the run must");
    EXPECT_NE(contents(file), "") << file;
  }
  for (const char *file : {"weights.bin", "model.pt2"}) {
    RunOptions tried = options;
    tried.saveParams = at(file);
    EXPECT_HAS(errorOf(tried),
               "--save-params: " + at(file) + " is the model file of the plan");
    EXPECT_EQ(contents(file), "kept");
  }
  RunOptions tried = options;
  tried.trace = at("plan/plan.json");
  EXPECT_HAS(errorOf(tried), "--trace: ");
}

TEST_F(OutputFilesTest, NoOutputReplacesData) {
  const char *what = " is the data of --data";
  EXPECT_HAS(errorOfMetrics(at("data/x.npy")), what);
  EXPECT_HAS(errorOfMetrics("jsonl:" + at("data/x.npy")), what);
  EXPECT_HAS(errorOfMetrics(at("data/ids.npy")), what);
  EXPECT_EQ(contents("data/ids.npy"), "kept");
  options.data = at("tokens.bin");
  EXPECT_HAS(errorOfMetrics(at("tokens.bin")), what);
  // Other files of the folder, and results of an earlier run, are free.
  EXPECT_EQ(errorOfMetrics(at("data/m.jsonl")), "");
  write("m.jsonl", "{\"step\":1}\n");
  EXPECT_EQ(errorOfMetrics(at("m.jsonl")), "");
}

TEST_F(OutputFilesTest, TwoOutputsAreTwoFiles) {
  options.saveParams = at("out/w");
  options.trace = at("out/../out/w");
  EXPECT_EQ(errorOf(options), "--trace: " + options.trace +
                                  " is also the file of --save-params; choose "
                                  "another path");
}

TEST_F(OutputFilesTest, WeightsHaveNoNameOfAnotherFormat) {
  options.saveParams = at("out/w.pt");
  EXPECT_EQ(errorOf(options),
            "--save-params: " + options.saveParams +
                ": '.pt' is another format; expected a name that ends with "
                ".safetensors");
  options.saveParams = at("out/w.safetensors");
  EXPECT_EQ(errorOf(options), "");
}

/// A file that is renamed over a device would remove the device.
TEST_F(OutputFilesTest, OnlyRegularFilesAreReplaced) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/null", at("null"));
  for (const char *file : {"pipe", "null"}) {
    RunOptions tried = options;
    tried.saveParams = at(file);
    EXPECT_EQ(errorOf(tried), "--save-params: " + at(file) +
                                  " is not a regular file, which the run would "
                                  "replace; name a file");
    EXPECT_HAS(errorOfMetrics("prometheus:" + at(file)),
               "--metrics: " + at(file) + " is not a regular file");
  }
}

TEST_F(OutputFilesTest, LinksLeadToTheSameFile) {
  fs::create_symlink(at("weights.bin"), at("soft"));
  fs::create_hard_link(at("weights.bin"), at("hard"));
  fs::create_symlink(at("weights.bin"), at("saved.new"));
  for (const char *file : {"soft", "hard"})
    EXPECT_HAS(errorOfMetrics(at(file)), " is the model file of the plan");
  RunOptions tried = options;
  tried.saveParams = at("saved"); // first written as saved.new
  EXPECT_HAS(errorOf(tried), at("saved.new") + " is the model file");
}

TEST_F(OutputFilesTest, OutputsReplaceNoInputsOfTheSameName) {
  options.inputs = at("data");
  options.data = "";
  options.outputs = at("data");
  write("data/loss.npy", "earlier");
  EXPECT_EQ(errorOf(options), "") << "the outputs of an earlier run";
  EXPECT_EQ(otherArrays(options, plan),
            "--outputs: " + at("data") +
                " has 1 array that this run does not write: ids.npy");
  options.outputs = at("out");
  EXPECT_EQ(otherArrays(options, plan), "");
  plan.outputs[0].name = "x";
  options.outputs = at("data");
  EXPECT_HAS(errorOf(options),
             "--outputs: " + at("data/x.npy") + " is the data of --inputs");
}

TEST_F(OutputFilesTest, NoOutputReplacesTheWeightsOfInit) {
  fs::create_directory(dir / "hf");
  SafetensorsWriter writer;
  ASSERT_TRUE(
      writer.start(at("hf/model.safetensors"), {{"w", DType::F32, {1}}}).ok());
  ASSERT_TRUE(writer.append(HostTensor::zeros(DType::F32, {1})).ok());
  ASSERT_TRUE(writer.finish().ok());
  options.init = at("hf");
  init = *InitChoice::parse(options.init);
  const std::string what = at("hf/model.safetensors") + " is a file of --init";
  RunOptions tried = options;
  tried.saveParams = at("hf/model.safetensors");
  EXPECT_HAS(errorOf(tried), "--save-params: " + what);
  tried = options;
  tried.exportDir = at("hf");
  EXPECT_HAS(errorOf(tried), "--export: " + what);
  tried.exportDir = at("out");
  EXPECT_EQ(errorOf(tried), "");
}

TEST_F(OutputFilesTest, CheckpointsRemoveNoInput) {
  options.checkpoint = at("ck");
  EXPECT_EQ(errorOf(options), "");
  write("ck/step-3/x.npy", "kept");
  options.data = at("ck/step-3");
  EXPECT_HAS(errorOf(options),
             "--checkpoint: " + at("ck/step-3") + " is the data of --data");
}

} // namespace
} // namespace dpc::rt
