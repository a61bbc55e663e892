//===- GemmChoicesTest.cpp - cuBLASLt's routines by simulated times -------===//
#include "runtime/cuda/GemmChoices.h"
#include "test/unit/cuda/DeviceRuns.h"
#include "test/unit/cuda/FakeBlas.h"
#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/TestPlans.h"

#include <cstring>
#include <gmock/gmock.h>
#include <mutex>

using testing::HasSubstr;

namespace dpc::rt::test {
namespace {

class GemmChoicesOf : public ScratchFolder {
protected:
  void TearDown() override {
    setFakeRoutines({3, 1, 2});
    ScratchFolder::TearDown();
  }

  /// Runs the plan and returns the routine of each rank's last GEMM.
  std::vector<int> run(const Plan &plan, Ranks ranks, bool measures = true,
                       const std::string &folder = "cache") {
    setFakeRoutines({3, 4, 9, 2, 1}); // also resets fakeGemms()
    remarks.clear();
    DeviceWishes wishes;
    wishes.measuresGemms = measures;
    wishes.gemmCache = folder.empty() ? "" : at(folder);
    wishes.remark = [this](const std::string &text) {
      std::lock_guard lock(mutex);
      remarks.push_back(text);
    };
    Status status = assign(last, runOnDevice(plan, ranks, request(8), wishes));
    EXPECT_TRUE(status.ok()) << status.message();
    return lastFakeRoutines();
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> all;
    if (std::filesystem::exists(dir / "cache"))
      for (const auto &file :
           std::filesystem::directory_iterator(dir / "cache"))
        all.push_back(file.path());
    std::sort(all.begin(), all.end());
    return all;
  }
  static std::string textOf(const std::filesystem::path &path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  DeviceResult last;
  std::mutex mutex;
  std::vector<std::string> remarks;
};

TEST_F(GemmChoicesOf, TheFastestRoutineIsStoredAndReadAgain) {
  Plan plan = leastSquares(1, 2);
  EXPECT_EQ(run(plan, Ranks::InProcess), std::vector{4});
  DeviceResult first = last;
  int measured = fakeGemms();
  size_t kept = files().size();
  EXPECT_EQ(kept, ownersOfGemms(plan).size());
  EXPECT_EQ(run(plan, Ranks::InProcess), std::vector{4});
  EXPECT_LT(fakeGemms(), measured);
  EXPECT_TRUE(remarks.empty()) << remarks.front();
  EXPECT_EQ(files().size(), kept);

  // Without measurements, another routine gives the same results.
  EXPECT_EQ(run(plan, Ranks::InProcess, /*measures=*/false), std::vector{0});
  for (const auto &[name, value] : first.tensors)
    EXPECT_EQ(value.data, last.tensors[name].data) << name;
}

/// GEMMs share a routine only if their epilogues, with alignments, are equal.
TEST_F(GemmChoicesOf, EpiloguesHaveSeparateKeys) {
  Plan plan = leastSquares(1, 1);
  size_t before = ownersOfGemms(plan).size();
  addEpilogues(plan);
  std::map<std::string, int> owners = ownersOfGemms(plan);
  EXPECT_EQ(owners.size(), before + 11);
  for (Instruction &instruction : plan.phases["update"])
    if (auto *op = std::get_if<MatmulOp>(&instruction.op))
      if (op->epilogue == Epilogue::GeluAuxBias)
        for (int64_t *offset : {&op->biasOffset, &op->auxOffset}) {
          *offset += 2;
          EXPECT_NE(ownersOfGemms(plan), owners);
          *offset -= 2;
        }
  run(plan, Ranks::InProcess);
  EXPECT_EQ(files().size(), owners.size());
  EXPECT_TRUE(remarks.empty());
  refuseFakeEpilogues(CUBLAS_STATUS_NOT_SUPPORTED);
  run(plan, Ranks::InProcess);
  refuseFakeEpilogues(CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0],
              HasSubstr("bias, gelu, gelu_aux, gelu_aux_bias, gelu_bias, "
                        "gelu_grad, gelu_grad_bias, relu, relu_bias, "
                        "sums_of_a, sums_of_b"));
}

/// An fp8 GEMM's routine depends on its formats, but not on its transposes.
TEST_F(GemmChoicesOf, Fp8RoutinesAreStored) {
  Plan plan = leastSquares(1, 1);
  size_t before = ownersOfGemms(plan).size();
  addFp8(plan);
  constexpr size_t kFormats = 3, kKindsOfC = 3, kEpilogues = 2 * 11;
  EXPECT_EQ(ownersOfGemms(plan).size(),
            before + kFormats * kKindsOfC + kEpilogues);
  run(plan, Ranks::InProcess);
  EXPECT_EQ(files().size(), ownersOfGemms(plan).size());
  run(plan, Ranks::InProcess);
  for (const std::string &remark : remarks)
    EXPECT_EQ(remark.find("measured again"), std::string::npos) << remark;
}

/// The first rank of a stage reports the stage's missing epilogues.
TEST_F(GemmChoicesOf, LaterStagesReportMissingEpilogues) {
  Plan plan = twoStages(2, 1);
  for (Instruction &instruction : plan.phases["s1.forward"])
    if (auto *op = std::get_if<MatmulOp>(&instruction.op))
      op->epilogue = Epilogue::Relu;
  refuseFakeEpilogues(CUBLAS_STATUS_NOT_SUPPORTED);
  run(plan, Ranks::InProcess);
  refuseFakeEpilogues(CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], HasSubstr("epilogue relu;"));
}

TEST_F(GemmChoicesOf, NothingIsStoredWithoutAFolder) {
  EXPECT_EQ(run(leastSquares(1, 1), Ranks::InProcess, true, ""),
            std::vector{4});
  EXPECT_TRUE(files().empty());
  EXPECT_TRUE(remarks.empty());
}

/// All ranks use the first rank's choice, although other routines are faster on
/// their handles.
TEST_F(GemmChoicesOf, AllRanksTakeTheRoutineOfTheFirst) {
  for (Ranks ranks : {Ranks::InProcess, Ranks::Nccl})
    for (int64_t count : {2, 3}) {
      std::filesystem::remove_all(dir / "cache");
      std::vector<int> routines = run(leastSquares(count, 1, 9), ranks);
      ASSERT_EQ(routines.size(), static_cast<size_t>(count));
      for (int routine : routines)
        EXPECT_EQ(routine, routines.front());
      EXPECT_NE(routines.front(), 0);
    }
}

TEST_F(GemmChoicesOf, GemmsOfLaterStagesHaveAnOwner) {
  Plan plan = twoStages(2, 2);
  std::map<std::string, int> owners = ownersOfGemms(plan);
  EXPECT_EQ(std::count_if(owners.begin(), owners.end(),
                          [](const auto &it) { return it.second == 0; }) > 0,
            true);
  bool later = false;
  for (const auto &[key, owner] : owners) {
    EXPECT_TRUE(owner == 0 || plan.mesh.stageOf(owner) == 1) << key;
    later |= owner > 0;
  }
  EXPECT_TRUE(later);
  run(plan, Ranks::Nccl);
  EXPECT_EQ(files().size(), owners.size());
}

/// Empty, truncated, changed and exchanged files are reported and rewritten.
TEST_F(GemmChoicesOf, DamagedFilesAreReplaced) {
  Plan plan = leastSquares(1, 2);
  run(plan, Ranks::InProcess);
  auto all = files();
  ASSERT_GE(all.size(), 2u);
  const std::string good = textOf(all[0]);
  std::string flipped = good;
  flipped[good.find("routine") + 20] ^= 1;
  for (const std::string &bad :
       {std::string(), good.substr(0, good.size() / 2), flipped, good + "x",
        textOf(all[1]), std::string(1 << 20, 'x')}) {
    std::ofstream(all[0], std::ios::binary) << bad;
    EXPECT_EQ(run(plan, Ranks::InProcess), std::vector{4});
    ASSERT_EQ(remarks.size(), 1u);
    EXPECT_EQ(remarks[0].rfind(all[0].string() + " is damaged", 0), 0u);
    EXPECT_EQ(textOf(all[0]), good);
  }
}

/// Stored routines that the device does not support are replaced.
TEST_F(GemmChoicesOf, RoutinesAreCheckedBeforeTheyRun) {
  Plan plan = leastSquares(1, 2);
  run(plan, Ranks::InProcess);
  GemmTuning tuning;
  tuning.folder = at("cache");
  tuning.device = "a fake, sm_90, cuBLASLt 130000";
  GemmCache cache(tuning, 0);
  cublasLtMatmulAlgo_t wrong = {};
  wrong.data[0] = 77;
  for (const auto &[key, owner] : ownersOfGemms(plan)) {
    ASSERT_TRUE(cache.read(key)) << key;
    cache.write(key, wrong);
  }
  EXPECT_EQ(run(plan, Ranks::InProcess), std::vector{4});
  EXPECT_EQ(remarks.size(), files().size());
  EXPECT_THAT(remarks[0], HasSubstr("does not support"));
  run(plan, Ranks::InProcess);
  EXPECT_TRUE(remarks.empty());
}

TEST_F(GemmChoicesOf, OtherDevicesHaveSeparateFiles) {
  GemmTuning here, there;
  here.folder = there.folder = at("cache");
  here.device = "one";
  there.device = "other";
  cublasLtMatmulAlgo_t how = {{1, 2, 3, 4, 5, 6, 7, ~uint64_t(0)}};
  GemmCache(here, 0).write("k", how);
  auto read = GemmCache(here, 3).read("k");
  ASSERT_TRUE(read);
  EXPECT_EQ(std::memcmp(read->data, how.data, sizeof how), 0);
  EXPECT_FALSE(GemmCache(there, 0).read("k"));
  EXPECT_FALSE(GemmCache(here, 0).read("l"));
}

TEST_F(GemmChoicesOf, UnusableFoldersAreReported) {
  write("file", "");
  EXPECT_EQ(run(leastSquares(1, 1), Ranks::InProcess, true, "file/cache"),
            std::vector{4});
  ASSERT_FALSE(remarks.empty());
  EXPECT_THAT(remarks[0], HasSubstr("cannot be written"));
}

} // namespace
} // namespace dpc::rt::test
