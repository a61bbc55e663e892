//===- CompileTest.cpp - The stages of a compilation ----------------------===//
#include "tools/driver/Compile.h"

#include "runtime/plan/PlanJson.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dpc;
using namespace mlir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;

namespace {

/// Keeps errors and output.
class Listener : public Reporter {
public:
  std::vector<std::string> errors;
  std::string printed;

  void error(const std::string &line) override { errors.push_back(line); }
  llvm::raw_ostream &output() override { return stream; }

private:
  llvm::raw_string_ostream stream{printed};
};

class Compile : public testing::Test {
protected:
  fs::path root;
  CompileOptions options;
  Listener listener;

  void SetUp() override {
    std::string name = testing::TempDir() + "dpc-compile-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root = name;
    options.model = DPC_FIXTURES "/models/mlp/model.onnx";
    options.cluster = "local:2";
    options.strategy = "dp=2";
    options.globalBatch = 8;
    options.verify = "off";
    options.output = (root / "plan").string();
  }
  void TearDown() override { fs::remove_all(root); }
};

} // namespace

TEST_F(Compile, EveryStageKnowsMore) {
  Session session(options, listener);
  FailureOr<Loaded> loaded = load(session);
  ASSERT_TRUE(succeeded(loaded));
  EXPECT_EQ(loaded->machine.cluster.numDevices(), 2);
  FailureOr<Prepared> prepared = prepare(session, std::move(*loaded));
  ASSERT_TRUE(succeeded(prepared));
  EXPECT_TRUE(prepared->program.trains());
  EXPECT_FALSE(prepared->trained.empty());
  FailureOr<Searched> searched = search(session, std::move(*prepared));
  ASSERT_TRUE(succeeded(searched));
  ASSERT_TRUE(searched->isExecutable());
  EXPECT_EQ(searched->winner().strategy.dp, 2);
  EXPECT_EQ(searched->spec(options).dp, 2);
  FailureOr<Built> built = build(session, std::move(*searched));
  ASSERT_TRUE(succeeded(built));
  ASSERT_TRUE(built->plan);
  EXPECT_EQ(built->plan->ranks(), 2);
  EXPECT_TRUE(fs::exists(built->folder->path() / "plan.json"));
  EXPECT_FALSE(fs::exists(options.output));
  FailureOr<Verified> verified = verify(session, std::move(*built));
  ASSERT_TRUE(succeeded(verified));
  EXPECT_EQ(verified->verification.why, "--verify=off");
  FailureOr<Written> written = write(session, std::move(*verified));
  ASSERT_TRUE(succeeded(written));
  EXPECT_TRUE(fs::exists(root / "plan" / "report.json"));
  EXPECT_TRUE(succeeded(session.end(success())));
  EXPECT_THAT(listener.errors, IsEmpty());
}

// If the result of build() is dropped, the temporary folder is removed.
TEST_F(Compile, AStageThatIsDroppedLeavesNothing) {
  {
    Session session(options, listener);
    FailureOr<Loaded> loaded = load(session);
    ASSERT_TRUE(succeeded(loaded));
    FailureOr<Prepared> prepared = prepare(session, std::move(*loaded));
    ASSERT_TRUE(succeeded(prepared));
    FailureOr<Searched> searched = search(session, std::move(*prepared));
    ASSERT_TRUE(succeeded(searched));
    ASSERT_TRUE(succeeded(build(session, std::move(*searched))));
  }
  EXPECT_TRUE(fs::is_empty(root));
}

// The offsets in the program are those of the model that was read. So a plan
// must not accept a model that changed after that, even during compilation.
TEST_F(Compile, PlansRecordTheModelThatWasRead) {
  fs::path model = root / "model.onnx";
  fs::copy_file(options.model, model);
  options.model = model.string();
  options.verify = "on";
  Expected<std::string> before = rt::hashFile(options.model);
  ASSERT_TRUE(before);
  Session session(options, listener);
  FailureOr<Loaded> loaded = load(session);
  ASSERT_TRUE(succeeded(loaded));
  std::fstream(model, std::ios::binary | std::ios::in | std::ios::out)
      .seekp(1000)
      .put(1);
  ASSERT_NE(*rt::hashFile(options.model), *before);
  FailureOr<Prepared> prepared = prepare(session, std::move(*loaded));
  ASSERT_TRUE(succeeded(prepared));
  FailureOr<Searched> searched = search(session, std::move(*prepared));
  ASSERT_TRUE(succeeded(searched));
  FailureOr<Built> built = build(session, std::move(*searched));
  ASSERT_TRUE(succeeded(built));
  ASSERT_EQ(built->plan->sourceFiles.size(), 1u);
  const rt::SourceFile &entry = built->plan->sourceFiles[0];
  EXPECT_EQ(entry.file, options.model);
  EXPECT_EQ(entry.bytes, static_cast<int64_t>(fs::file_size(model)));
  EXPECT_EQ(entry.hash, *before);
  EXPECT_TRUE(failed(verify(session, std::move(*built))));
  EXPECT_THAT(listener.errors,
              ElementsAre(HasSubstr("model.onnx: changed since the plan")));
}

TEST_F(Compile, ReportsTheFirstErrorAlone) {
  options.model = (root / "none.onnx").string();
  EXPECT_TRUE(failed(compileModel(options, listener)));
  EXPECT_THAT(listener.errors, ElementsAre(HasSubstr("none.onnx")));
  EXPECT_EQ(listener.printed, "");
}

TEST_F(Compile, ReportsEveryExportThatIsRefused) {
  options.emit = {"megatron", "galvatron"}; // both accept only transformers
  EXPECT_TRUE(failed(compileModel(options, listener)));
  EXPECT_THAT(listener.errors,
              ElementsAre(testing::StartsWith("--emit=galvatron: "),
                          testing::StartsWith("--emit=megatron: ")));
  EXPECT_TRUE(fs::exists(fs::path(options.output) / "report.json"));
  EXPECT_FALSE(fs::exists(fs::path(options.output) / "exports"));
}
