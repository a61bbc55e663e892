//===- HostileFilesTest.cpp - malicious files -----------------------------===//
#include "runtime/base/Json.h"
#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/ShardFile.h"
#include "runtime/data/Dataset.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/WeightFiles.h"
#include "runtime/kernels/KernelLibrary.h"
#include "runtime/plan/PlanCommand.h"
#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/ScratchFolder.h"

#include <cstring>
#include <sys/stat.h>

namespace dpc::rt {
namespace {

class HostileFiles : public test::ScratchFolder {
protected:
  /// A nested list. Writing or copying it recursively would exhaust the stack.
  static std::string deep() {
    constexpr size_t levels = 500000;
    return std::string(levels, '[') + std::string(levels, ']');
  }
  static void expectDeep(const Status &status) {
    EXPECT_HAS(status.message(), "too deep");
  }
};

TEST_F(HostileFiles, BracketsInStringsAreIgnored) {
  std::string many(1000, '[');
  EXPECT_FALSE(nestsTooDeep("{\"a\": \"" + many + "\\\"" + many + "\"}"));
  EXPECT_FALSE(nestsTooDeep("[[], [], {}]"));
  EXPECT_TRUE(nestsTooDeep("{\"a\\\\\": " + many));
  std::string wide;
  for (int i = 0; i < 1000; ++i)
    wide += "[{}],";
  EXPECT_FALSE(nestsTooDeep("[" + wide + "0]"));
}

TEST_F(HostileFiles, DeepListsAreRefusedBeforeTheyAreParsed) {
  write("plan.json", R"({"version": 6, "checksum": "x", "a": )" + deep() + "}");
  expectDeep(readPlan(dir).status());
  expectDeep(
      parseManifest(R"({"checksum": "x", "manifest": )" + deep() + "}", "m")
          .status());
  std::string header = R"({"w": {"dtype": )" + deep() + "}}";
  uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char *>(&length), sizeof length);
  write("w.safetensors", bytes + header);
  expectDeep(openSafetensors(at("w.safetensors")).status());
  write("model.safetensors.index.json",
        R"({"weight_map": {"w": )" + deep() + "}}");
  expectDeep(WeightFiles::open(dir).status());
}

/// dlsym would find these symbols in the C library.
TEST_F(HostileFiles, KernelsOfOtherLibrariesAreNotCalled) {
  std::filesystem::create_directories(dir / "kernels");
  std::filesystem::copy_file(DPC_TEST_KERNELS, dir / "kernels/kernels.so");
  Plan plan;
  plan.kernelFile = "kernels.so";
  plan.kernelHash = *hashFile(DPC_TEST_KERNELS);
  for (const char *symbol : {"system", "free", "abort"}) {
    plan.phases["forward"] = {
        {Queue::Compute, {}, -1, "", 0, KernelOp{symbol, {}, {}, {}}}};
    std::string why = KernelLibrary::load(plan, dir).status().message();
    EXPECT_HAS(why, std::string("symbol ") + symbol);
  }
}

/// A program that opened these pipes would block, because they have no writer.
TEST_F(HostileFiles, PipesAndDevicesAreRefused) {
  Plan plan;
  plan.inputs = {{"x", 0, DType::I64, {2, 3}, {}, 10}};
  for (const char *name :
       {"t.bin", "d.safetensors", "x.npy", "plan.json", "command.json",
        "manifest.json", "model.safetensors.index.json", "rank-00000.st"})
    ASSERT_EQ(mkfifo(at(name).c_str(), 0600), 0) << name;
  auto expectRefused = [&](const Status &status, const std::string &name) {
    EXPECT_HAS(status.message(), at(name) + ": is not a regular file");
  };
  expectRefused(openDataset(plan, at("t.bin")).status(), "t.bin");
  expectRefused(openDataset(plan, at("d.safetensors")).status(),
                "d.safetensors");
  expectRefused(openDataset(plan, dir).status(), "x.npy");
  expectRefused(readPlan(dir).status(), "plan.json");
  expectRefused(readPlanCommand(dir).status(), "command.json");
  expectRefused(readManifest(dir).status(), "manifest.json");
  expectRefused(WeightFiles::open(dir).status(),
                "model.safetensors.index.json");
  expectRefused(ShardFile::open(at("rank-00000.st"), {}).status(),
                "rank-00000.st");
  expectRefused(hashFile(at("plan.json")).status(), "plan.json");
  EXPECT_EQ(MappedFile::open("/dev/zero").status().message(),
            "/dev/zero: is not a regular file");
}

TEST_F(HostileFiles, LargeFilesAreNotRead) {
  for (const char *name : {"plan.json", "command.json"}) {
    write(name, "{}");
    std::filesystem::resize_file(at(name), uintmax_t(30) << 30); // sparse
  }
  EXPECT_EQ(readPlan(dir).status().message(),
            at("plan.json") +
                ": has 32212254720 bytes, expected at most 4294967296; "
                "a plan folder written by dpc-opt is accepted");
  EXPECT_EQ(readPlanCommand(dir).status().message(),
            at("command.json") +
                ": has 32212254720 bytes, expected at most 1048576; dpc-opt "
                "writes it with every plan");
}

} // namespace
} // namespace dpc::rt
