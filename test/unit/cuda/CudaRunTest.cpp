//===- CudaRunTest.cpp - dpc-run --device=cuda as a process ---------------===//
//
// The tests run the real plugin with fakes instead of CUDA's libraries.
//
//===----------------------------------------------------------------------===//
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/TestPlans.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <netinet/in.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using testing::HasSubstr;

namespace dpc::rt::test {
namespace {

struct Ran {
  int exitCode = 0;
  std::string err;
};

class CudaRun : public testing::Test {
protected:
  void SetUp() override {
    dir = std::filesystem::temp_directory_path() /
          ("dpc-cuda-run-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir / "batches");
    ASSERT_TRUE(
        writeNpy((dir / "batches/x.npy").string(), ramp({3, 8, 4}, 1.0 / 64))
            .ok());
    writePlanOf(leastSquares(2, 2));
  }
  void TearDown() override { std::filesystem::remove_all(dir); }

  void writePlanOf(Plan plan, const char *name = "plan") const {
    HostTensor eye = HostTensor::zeros(DType::F32, {4, 4}),
               w = ramp({4, 2}, 0.125, 0.5);
    for (int i = 0; i < 4; ++i)
      eye.set(i * 5, 1);
    std::ofstream out(dir / "weights.bin", std::ios::binary);
    out.write(reinterpret_cast<char *>(w.data.data()), 32);
    out.write(reinterpret_cast<char *>(eye.data.data()), 64);
    out.close();
    plan.tensors[0].source = TensorSource{"../weights.bin", 0, 32, DType::F32};
    plan.tensors[1].source = TensorSource{"../weights.bin", 32, 64, DType::F32};
    std::filesystem::create_directories(dir / name);
    plan.sourceFiles = *findSourceFiles(plan, (dir / name).string());
    ASSERT_TRUE(writePlan(plan, (dir / name).string()).ok());
  }

  std::string read(const std::string &name) const {
    std::ifstream in(dir / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Ran run(const std::string &arguments, const std::string &environment) const {
    std::string command = "cd " + dir.string() + " && " + environment + " " +
                          DPC_RUN + " plan --batches=batches " + arguments +
                          " > out.txt 2> err.txt";
    int status = std::system(command.c_str()); // NOLINT: the command is ours
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("err.txt")};
  }
  /// Under a launcher, errors of one process begin with its rank and host.
  static void expectError(const Ran &ran, const std::string &part) {
    EXPECT_EQ(ran.exitCode, 1);
    EXPECT_EQ(ran.err.rfind("dpc-run: error: ", 0), 0u) << ran.err;
    EXPECT_NE(ran.err.find(part), std::string::npos) << ran.err;
    EXPECT_EQ(ran.err.find('\n'), ran.err.size() - 1) << ran.err;
  }

  const std::string fakes = std::string("XDG_CACHE_HOME=$PWD/cache") +
                            " DPC_CUDA_PLUGIN=" + DPC_CUDA +
                            " DPC_CUDA_LIB=" DPC_FAKES;
  std::filesystem::path dir;
};

/// Parameters after three steps equal those of the CPU to the last bit.
TEST_F(CudaRun, TrainsAsOnTheCpu) {
  for (const char *how : {"", "--comm=nccl", "--no-overlap", "--poison"}) {
    writePlanOf(leastSquares(std::string(how) == "--comm=nccl" ? 1 : 2, 2));
    ASSERT_EQ(run("--save-params=cpu.safetensors", "").exitCode, 0);
    Ran ran =
        run(std::string("--device=cuda --save-params=gpu.safetensors ") + how,
            fakes);
    ASSERT_EQ(ran.exitCode, 0) << how << ran.err;
    EXPECT_EQ(read("gpu.safetensors"), read("cpu.safetensors")) << how;
  }
}

/// The fake cuDNN has no attention.
TEST_F(CudaRun, UnsupportedAttentionIsRefusedBeforeTheFirstStep) {
  Plan plan = leastSquares(1, 1);
  addAttention(plan, DType::BF16);
  writePlanOf(plan);
  Ran ran = run("--device=cuda", fakes);
  expectError(ran, "");
  EXPECT_THAT(ran.err,
              HasSubstr("; a plan of --attention=expanded is accepted"));
}

TEST_F(CudaRun, StoresTheFastestRoutines) {
  auto files = [&](const char *folder) {
    std::error_code none;
    auto all = std::filesystem::directory_iterator(dir / folder, none);
    return std::distance(begin(all), end(all));
  };
  ASSERT_EQ(run("--device=cuda --gemm-cache=off", fakes).exitCode, 0);
  EXPECT_EQ(files("cache/dpc"), 0);
  ASSERT_EQ(run("--device=cuda", fakes).exitCode, 0);
  EXPECT_GT(files("cache/dpc"), 0);
  ASSERT_EQ(run("--device=cuda --gemm-cache=mine", fakes).exitCode, 0);
  EXPECT_EQ(files("mine"), files("cache/dpc"));
  for (const auto &file : std::filesystem::directory_iterator(dir / "mine"))
    std::filesystem::resize_file(file, 7);
  Ran ran = run("--device=cuda --gemm-cache=mine", fakes);
  ASSERT_EQ(ran.exitCode, 0);
  EXPECT_EQ(ran.err.rfind("dpc-run: warning: mine/gemm-", 0), 0u) << ran.err;
}

TEST_F(CudaRun, Tf32IsAnOption) {
  auto valuesOf = [&](const char *file) {
    Expected<SafetensorsFile> saved = openSafetensors((dir / file).string());
    EXPECT_TRUE(saved.ok()) << saved.status().message();
    const SafetensorsEntry &w = saved->entries.at("w");
    std::vector<float> values(w.bytes / sizeof(float));
    std::memcpy(values.data(), saved->file.data() + w.offset, w.bytes);
    return values;
  };
  for (const char *how : {"", "--comm=nccl"}) {
    writePlanOf(leastSquares(std::string(how) == "--comm=nccl" ? 1 : 2, 2));
    ASSERT_EQ(run("--save-params=cpu.safetensors", "").exitCode, 0);
    std::string words = "--device=cuda --save-params=gpu.safetensors ";
    Ran ran = run(words + "--tf32 " + how, fakes);
    ASSERT_EQ(ran.exitCode, 0) << ran.err;
    std::vector<float> exact = valuesOf("cpu.safetensors"),
                       rounded = valuesOf("gpu.safetensors");
    EXPECT_NE(rounded, exact) << how;
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_NEAR(rounded[i], exact[i], 0.01 * std::abs(exact[i]) + 1e-3);
  }
  expectError(run("--tf32", ""), "--tf32 is for --device=cuda");
}

TEST_F(CudaRun, WritesTracesAndProfiles) {
  Ran ran = run("--device=cuda --trace=t.json --profile", fakes);
  ASSERT_EQ(ran.exitCode, 0) << ran.err;
  std::string trace = read("t.json");
  EXPECT_THAT(trace, HasSubstr("\"traceEvents\""));
  EXPECT_THAT(trace, HasSubstr("\"cat\":\"matmul\""));
  EXPECT_THAT(read("plan/profile.json"), HasSubstr("matmul"));
}

TEST_F(CudaRun, TheFirstNanIsNamed) {
  HostTensor bad = ramp({3, 8, 4}, 1.0 / 64);
  // In step 2, on the last rank. The weights of the two have different signs,
  // so that their sum is NaN.
  bad.set(32 + 28, -INFINITY);
  bad.set(32 + 31, -INFINITY);
  ASSERT_TRUE(writeNpy((dir / "batches/x.npy").string(), bad).ok());
  for (int ranks : {1, 2}) {
    writePlanOf(leastSquares(ranks, 2));
    std::string words = "--device=cuda --check-numbers";
    Ran ran = run(words + (ranks == 1 ? " --comm=nccl" : ""), fakes);
    EXPECT_EQ(ran.exitCode, 3) << ran.err;
    EXPECT_THAT(ran.err,
                HasSubstr("step 2: the loss is nan; input 'x' holds -inf in "
                          "sample 7; it comes from rank " +
                          std::to_string(ranks - 1) + ": forward of "));
  }
}

/// The GPU's evaluation losses equal those of the CPU.
TEST_F(CudaRun, HeldOutSamplesAreEvaluated) {
  Plan eval = leastSquares(1, 1);
  eval.trains = false;
  for (const char *phase : {"backward", "update"}) {
    eval.phases.erase(phase);
    for (auto &table : eval.schedule)
      std::erase_if(table, [&](const ScheduleEntry &entry) {
        return entry.phase == phase;
      });
  }
  writePlanOf(eval, "eval");
  writePlanOf(leastSquares(1, 2));
  std::filesystem::create_directories(dir / "held");
  ASSERT_TRUE(
      writeNpy((dir / "held/x.npy").string(), ramp({16, 4}, 1.0 / 32)).ok());
  auto linesOf = [&](const char *file) {
    std::vector<std::string> lines;
    std::istringstream all(read(file));
    for (std::string line; std::getline(all, line);)
      if (line.find("eval_loss") != std::string::npos)
        lines.push_back(line);
    return lines;
  };
  std::string words =
      "--eval-plan=eval --eval-data=held --eval-every=1 --metrics=";
  Ran ran = run(words + "cpu.jsonl", "");
  ASSERT_EQ(ran.exitCode, 0) << ran.err;
  for (const char *how : {"", " --comm=nccl"}) {
    std::filesystem::remove(dir / "gpu.jsonl");
    ran = run(words + "gpu.jsonl --device=cuda" + how, fakes);
    ASSERT_EQ(ran.exitCode, 0) << ran.err;
    EXPECT_EQ(linesOf("gpu.jsonl"), linesOf("cpu.jsonl"));
  }
  EXPECT_EQ(linesOf("cpu.jsonl").size(), 3u);
}

/// After a library that is too old, the next one on the search path is tried.
TEST_F(CudaRun, OldNcclLibrariesAreSkipped) {
  writePlanOf(leastSquares(1, 1));
  std::string words = "--device=cuda --comm=nccl";
  std::string both = std::string("XDG_CACHE_HOME=$PWD/cache DPC_CUDA_PLUGIN=") +
                     DPC_CUDA + " DPC_CUDA_LIB=" DPC_OLD_NCCL ":" DPC_FAKES;
  Ran ran = run(words, both);
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
}

TEST_F(CudaRun, MissingLibrariesAreNamed) {
  expectError(run("--device=cuda", "DPC_CUDA_PLUGIN=/nowhere.so"),
              "--device=cuda: /nowhere.so cannot be loaded");
  expectError(run("--device=cuda", "DPC_CUDA_PLUGIN=libm.so.6"),
              "--device=cuda: libm.so.6 belongs to another build of dpc");
  expectError(run("--device=cuda --comm=mpi", fakes),
              "--comm=mpi does not reach the memory of GPUs");
  expectError(run("--comm=nccl", fakes), "--comm=nccl is for GPUs");
  expectError(run("--device=cuda",
                  fakes + " RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_PORT=x"),
              "--comm=nccl: MASTER_ADDR and MASTER_PORT");
}

/// Returns a port on which no process listens.
int freePort() {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto *any = reinterpret_cast<sockaddr *>(&address);
  EXPECT_EQ(bind(fd, any, length), 0);
  EXPECT_EQ(getsockname(fd, any, &length), 0);
  close(fd);
  return ntohs(address.sin_port);
}

TEST_F(CudaRun, AMissingRankEndsTheRun) {
  std::string alone = " MASTER_ADDR=127.0.0.1 RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 "
                      "LOCAL_WORLD_SIZE=2 DPC_JOB_TOKEN=sesame MASTER_PORT=";
  std::string words = "--device=cuda --comm=nccl --timeout-seconds=1";
  expectError(run(words, fakes + alone + std::to_string(freePort())), "");
  expectError(run("--device=cuda",
                  fakes + " RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_PORT=1 "
                          "MASTER_ADDR=127.0.0.1"),
              "--comm=nccl: DPC_JOB_TOKEN is not set");
  expectError(run(words, "DPC_CUDA_PLUGIN=/nowhere.so" + alone +
                             std::to_string(freePort())),
              "--device=cuda: /nowhere.so cannot be loaded");
}

} // namespace
} // namespace dpc::rt::test
