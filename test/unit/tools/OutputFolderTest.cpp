//===- OutputFolderTest.cpp - folders that -o may replace -----------------===//
#include "tools/driver/OutputFolder.h"
#include "tools/driver/Exports.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace dpc;

namespace {

const char *kPlan = R"({"version": 1, "checksum": "0"})";
const char *kReport = R"({"candidates": [], "baselines": []})";

class Output : public testing::Test {
protected:
  fs::path root, plan;

  void SetUp() override {
    std::string name = testing::TempDir() + "dpc-output-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    plan = root / "plan";
    write("plan.json", kPlan);
    write("report.json", kReport);
    write("kernels/kernels.so", "");
  }
  void TearDown() override {
    fs::permissions(plan, fs::perms::owner_all);
    fs::remove_all(root);
  }

  void write(const fs::path &name, const std::string &text) const {
    fs::create_directories((plan / name).parent_path());
    std::ofstream(plan / name) << text;
  }

  std::string replace(const fs::path &target, bool writesPlan,
                      const char *name) const {
    std::string error;
    OutputFolder folder(target, writesPlan, error);
    if (!error.empty())
      return error;
    std::ofstream(folder.path() / name) << "new";
    return folder.commit();
  }

  void expectRefusal(bool writesPlan, const std::string &mention) const {
    auto count = [&] {
      return std::distance(fs::recursive_directory_iterator(root),
                           fs::recursive_directory_iterator());
    };
    auto before = count();
    std::string error = replace(plan, writesPlan, "plan.json");
    EXPECT_NE(error.find(mention), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
    EXPECT_EQ(count(), before);
  }
};

} // namespace

TEST_F(Output, ReplacesAPlan) {
  EXPECT_EQ(replace(plan, true, "plan.json"), "");
  EXPECT_FALSE(fs::exists(plan / "kernels"));
  EXPECT_FALSE(fs::exists(plan / "report.json"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root), {}), 1);
}

TEST_F(Output, FollowsALink) {
  fs::create_directory_symlink(plan, root / "link");
  EXPECT_EQ(replace(root / "link", true, "program.mlir"), "");
  EXPECT_TRUE(fs::is_symlink(root / "link"));
  EXPECT_TRUE(fs::exists(plan / "program.mlir"));
  EXPECT_FALSE(fs::exists(plan / "plan.json"));
}

TEST_F(Output, RefusesWhatOthersWrote) {
  write("weights.safetensors", "precious");
  expectRefusal(true, "'weights.safetensors'");
  fs::remove(plan / "weights.safetensors");
  write("kernels/notes.txt", "precious");
  expectRefusal(true, "'kernels/notes.txt'");
}

TEST_F(Output, ReplacesExportsThatItsIndexLists) {
  EXPECT_EQ(writeExportedFiles({{"ds_config.json", "{}"}}, "dp=2", plan), "");
  EXPECT_EQ(replace(plan, true, "plan.json"), "");
  EXPECT_FALSE(fs::exists(plan / "exports"));
  EXPECT_EQ(std::distance(fs::directory_iterator(root), {}), 1);
}

TEST_F(Output, RefusesExportsOfOthers) {
  EXPECT_EQ(writeExportedFiles({{"ds_config.json", "{}"}}, "dp=2", plan), "");
  write("exports/mine.json", "precious");
  expectRefusal(true, "'exports/mine.json'");
}

TEST_F(Output, RefusesFilesThatOnlyHaveOurNames) {
  fs::remove(plan / "plan.json");
  write("report.json", R"({"experiment": 7})");
  expectRefusal(true, "'report.json'");
  write("report.json", "precious");
  expectRefusal(true, "'report.json'");
}

TEST_F(Output, AReportDoesNotReplaceAPlan) {
  expectRefusal(false, "holds a plan");
  fs::remove(plan / "plan.json");
  EXPECT_EQ(replace(plan, false, "report.json"), "");
}

TEST_F(Output, SetsAPlanAsideUntilAnotherReplacesIt) {
  std::string error;
  fs::path previous = plan / "plan.json.previous";
  EXPECT_EQ(OutputFolder::setPlanAside(plan, error), previous);
  EXPECT_EQ(error, "");
  EXPECT_FALSE(fs::exists(plan / "plan.json"));
  EXPECT_TRUE(fs::exists(previous));
  EXPECT_TRUE(fs::exists(plan / "kernels/kernels.so"));
  EXPECT_EQ(OutputFolder::setPlanAside(plan, error), ""); // there is none
  EXPECT_TRUE(fs::exists(previous));
  expectRefusal(false, "holds a plan");
  EXPECT_EQ(replace(plan, true, "plan.json"), "");
  EXPECT_FALSE(fs::exists(previous));
}

TEST_F(Output, SetsAPlanAsideBetweenFilesOfOthers) {
  write("run.jsonl", "precious");
  write("checkpoints/step-1/manifest.json", "{}");
  std::string error;
  fs::path previous = plan / "plan.json.previous";
  EXPECT_EQ(OutputFolder::setPlanAside(plan, error), previous);
  EXPECT_EQ(error, "");
  EXPECT_FALSE(fs::exists(plan / "plan.json"));
  EXPECT_TRUE(fs::exists(previous));
  EXPECT_TRUE(fs::exists(plan / "run.jsonl"));
  EXPECT_TRUE(fs::exists(plan / "checkpoints/step-1/manifest.json"));
}

TEST_F(Output, SetsNoFilesOfOthersAside) {
  std::string error;
  for (const char *text : {R"({"experiment": 7})", "precious"}) {
    write("plan.json", text);
    EXPECT_EQ(OutputFolder::setPlanAside(plan, error), "") << text;
    EXPECT_TRUE(fs::exists(plan / "plan.json")) << text;
  }
  EXPECT_EQ(OutputFolder::setPlanAside(root / "none", error), "");
  EXPECT_EQ(error, "");
  write("plan.json", kPlan);
  write("plan.json.previous", "precious");
  EXPECT_EQ(OutputFolder::setPlanAside(plan, error), "");
  EXPECT_NE(error.find("is no plan of dpc-opt"), std::string::npos) << error;
  EXPECT_TRUE(fs::exists(plan / "plan.json"));
}

TEST_F(Output, SeesWhatCameWhileItWrote) {
  std::string error;
  OutputFolder folder(plan, true, error);
  ASSERT_EQ(error, "");
  write("notes.txt", "precious");
  EXPECT_NE(folder.commit().find("'notes.txt'"), std::string::npos);
  EXPECT_TRUE(fs::exists(plan / "notes.txt"));
}

TEST_F(Output, AFolderThatCannotBeReadIsRefused) {
  if (geteuid() == 0)
    GTEST_SKIP() << "root reads everything";
  fs::permissions(plan, fs::perms::none);
  EXPECT_NE(OutputFolder::refusal(plan, true).find("cannot be read"),
            std::string::npos);
}
