//===- DpcRunFixture.h - dpc-run as a process -------------------*- C++ -*-===//
#pragma once

#include "runtime/checkpoint/CheckpointFolder.h"
#include "runtime/comm/Communicator.h"
#include "runtime/io/Npy.h"
#include "runtime/io/Safetensors.h"
#include "runtime/io/SourceFiles.h"
#include "runtime/plan/Ledger.h"
#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/ScratchFolder.h"
#include "test/unit/runtime/StartedRun.h"
#include "test/unit/runtime/TestPlans.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dpc::rt {

using test::leastSquares;
using test::leastSquaresStep;
using test::ramp;
using test::Started;

struct Ran {
  int exitCode = 0;
  std::string out, err;
};

class DpcRun : public test::ScratchFolder {
protected:
  void SetUp() override {
    ScratchFolder::SetUp();
    std::filesystem::create_directories(dir / "batches");
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    ASSERT_TRUE(writeNpy(at("batches/x.npy"), x()).ok());
    writeWeights();
    writePlanFor(2);
  }
  static HostTensor x() { return ramp({3, 8, 4}, 1.0 / 64, 0.75); }
  static HostTensor w() { return ramp({4, 2}, 0.125, 0.5); }

  std::string read(const std::string &name) const {
    std::ifstream in(dir / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  void writeWeights() const {
    HostTensor eye = HostTensor::zeros(DType::F32, {4, 4});
    for (int i = 0; i < 4; ++i)
      eye.set(i * 5, 1);
    std::ofstream out(dir / "weights.bin", std::ios::binary);
    HostTensor first = w();
    out.write(reinterpret_cast<char *>(first.data.data()), 32);
    out.write(reinterpret_cast<char *>(eye.data.data()), 64);
  }

  Plan planFor(int ranks) const {
    Plan plan = leastSquares(ranks, 2);
    plan.tensors[0].source = TensorSource{"../weights.bin", 0, 32, DType::F32};
    plan.tensors[1].source = TensorSource{"../weights.bin", 32, 64, DType::F32};
    plan.sourceFiles = *findSourceFiles(plan, at("plan"));
    return plan;
  }
  void writePlanFor(int ranks) const {
    std::filesystem::create_directories(dir / "plan");
    ASSERT_TRUE(writePlan(planFor(ranks), at("plan")).ok());
  }

  Ran run(const std::string &arguments, const std::string &prefix = "") const {
    std::string command = "cd " + dir.string() + " && " + prefix + " " +
                          DPC_RUN + " " + arguments + " > out.txt 2> err.txt";
    int status = std::system(command.c_str()); // NOLINT: the command is ours
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read("out.txt"),
            read("err.txt")};
  }

  /// Returns the lines of stderr that dpc-run printed, without those of mpirun.
  static std::vector<std::string> errors(const Ran &ran) {
    std::vector<std::string> lines;
    std::istringstream in(ran.err);
    for (std::string line; std::getline(in, line);)
      if (line.rfind("dpc-run:", 0) == 0)
        lines.push_back(line);
    return lines;
  }
  static void expectError(const Ran &ran, const std::string &part,
                          int exitCode = 1) {
    EXPECT_EQ(ran.exitCode, exitCode);
    std::vector<std::string> lines = errors(ran);
    ASSERT_EQ(lines.size(), 1u) << ran.err;
    EXPECT_HAS(lines[0], part);
  }

  /// Expects metrics and saved parameters that equal those of one device.
  void expectTrained(const Ran &ran) const {
    ASSERT_EQ(ran.exitCode, 0) << ran.err;
    size_t steps = ran.out.find("\nstep 1/3");
    ASSERT_NE(steps, std::string::npos) << ran.out;
    EXPECT_EQ(std::count(ran.out.begin() + steps, ran.out.end(), '\n'), 5)
        << ran.out;
    EXPECT_HAS(ran.out, "\nwrote m.jsonl (metrics), p.safetensors "
                        "(weights)");
    HostTensor weights = w(), all = x();
    std::istringstream lines(read("m.jsonl"));
    std::string line;
    for (int step = 0; step < 3; ++step) {
      HostTensor batch = HostTensor::zeros(DType::F32, {8, 4});
      for (int i = 0; i < 32; ++i)
        batch.set(i, all.at(step * 32 + i));
      double loss = leastSquaresStep(batch, weights);
      ASSERT_TRUE(std::getline(lines, line));
      auto record = nlohmann::json::parse(line);
      EXPECT_EQ(record["step"], step + 1);
      EXPECT_NEAR(record["loss"].get<double>(), loss, 1e-5 * loss);
      EXPECT_EQ(record["lr"], 0.5);
      EXPECT_GT(record["step_seconds"].get<double>(), 0);
      EXPECT_GT(record["samples_per_second"].get<double>(), 0);
      EXPECT_TRUE(record.contains("tokens_per_second"));
    }
    Expected<SafetensorsFile> saved = openSafetensors(at("p.safetensors"));
    ASSERT_TRUE(saved.ok()) << saved.status().message();
    for (int i = 0; i < 8; ++i)
      EXPECT_NEAR(loadAsDouble(saved->file.data() + saved->entries["w"].offset,
                               DType::F32, i),
                  weights.at(i), 1e-5);
  }
};

inline const char *const kTrain = "plan --batches=batches --metrics=m.jsonl "
                                  "--save-params=p.safetensors";

} // namespace dpc::rt
