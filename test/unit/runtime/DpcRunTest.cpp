//===- DpcRunTest.cpp - dpc-run as a process ------------------------------===//
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
namespace {

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
  void expectTrained(const Ran &ran, int otherLines = 0) const {
    ASSERT_EQ(ran.exitCode, 0) << ran.err;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 7 + otherLines)
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

const char *kTrain = "plan --batches=batches --metrics=m.jsonl "
                     "--save-params=p.safetensors";

TEST_F(DpcRun, TrainsLocally) {
  expectTrained(run(kTrain));
  writePlanFor(3);
  expectTrained(run(kTrain));
}

TEST_F(DpcRun, TrainsUnderMpirun) {
  if (!hasMpi())
    GTEST_SKIP() << "built without MPI";
  expectTrained(run(std::string(kTrain) + " --comm=mpi --trace=t.json",
                    "mpirun --oversubscribe -np 2"));
  auto trace = nlohmann::json::parse(read("t.json"));
  std::vector<bool> seen(2);
  for (const auto &event : trace["traceEvents"])
    seen[event["pid"].get<size_t>()] = true;
  EXPECT_TRUE(seen[0] && seen[1]);
}

TEST_F(DpcRun, WritesOutputsAndTraces) {
  Ran ran = run("plan --batches=batches --steps=1 --trace=t.json "
                "--outputs=results");
  ASSERT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_TRUE(nlohmann::json::parse(read("t.json")).contains("traceEvents"));
  EXPECT_TRUE(openNpy(at("results/loss.npy")).ok());
}

TEST_F(DpcRun, RandomDataAndInitNeedNoFiles) {
  std::filesystem::remove(dir / "weights.bin");
  Ran ran = run("plan --steps=2 --init=random:5");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_HAS(ran.out, "\nweights: 2 from --init=random:5\n");
  expectError(run("plan --steps=2"), "parameter 'w'");
}

/// Trains `w`; `eye` is frozen.
TEST_F(DpcRun, SavedWeightsHoldTheFrozenOnesToo) {
  Plan plan = planFor(2);
  plan.tensors[1].role = TensorRole::Buffer;
  ASSERT_TRUE(writePlan(plan, at("plan")).ok());
  Ran ran = run("plan --batches=batches --steps=2 --save-params=a.safetensors");
  ASSERT_EQ(ran.exitCode, 0) << ran.err;
  Expected<SafetensorsFile> saved = openSafetensors(at("a.safetensors"));
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  ASSERT_EQ(saved->entries.size(), 2u);
  ASSERT_EQ(saved->entries["eye"].shape, (std::vector<int64_t>{4, 4}));
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(loadAsDouble(saved->file.data() + saved->entries["eye"].offset,
                           DType::F32, i),
              i % 5 == 0);
  // The file alone gives all values to a run that changes none.
  std::filesystem::remove(dir / "weights.bin");
  plan.phases["update"].clear();
  ASSERT_TRUE(writePlan(plan, at("plan")).ok());
  ran = run("plan --batches=batches --steps=1 --init=a.safetensors "
            "--save-params=b.safetensors");
  ASSERT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_EQ(read("a.safetensors"), read("b.safetensors"));
}

TEST_F(DpcRun, NamesOfInitAreChecked) {
  SafetensorsWriter writer;
  ASSERT_TRUE(writer
                  .start(at("w.safetensors"), {{"w", DType::F32, {4, 2}},
                                               {"eyes", DType::F32, {4, 4}}})
                  .ok());
  ASSERT_TRUE(writer.append(w()).ok());
  ASSERT_TRUE(writer.append(HostTensor::zeros(DType::F32, {4, 4})).ok());
  ASSERT_TRUE(writer.finish().ok());
  expectError(run("plan --batches=batches --init=w.safetensors"),
              "--init: w.safetensors lacks 1 weight of the plan: 'eye' "
              "(similar: 'eyes'); it has 1 tensor that the model lacks: "
              "'eyes'; --init-partial accepts");
  Ran ran = run("plan --batches=batches --init=w.safetensors --init-partial");
  EXPECT_HAS(ran.out, "--init-partial: 1 weight that w.safetensors lacks keeps "
                      "the values of the plan: 'eye'\n");
  EXPECT_HAS(ran.out, "--init-partial: 1 tensor of w.safetensors that the "
                      "model lacks is ignored: 'eyes'\n");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  expectError(run("plan --init-partial"), "--init");
  expectError(run("plan --init=zeros --init-partial"),
              "--init-partial is for --init=FILE, not for --init=zeros");
}

TEST_F(DpcRun, ErrorsInInputAreOneLine) {
  expectError(run("nowhere"), "nowhere/plan.json");
  setenv("DPC_CUDA_PLUGIN", "/nowhere.so", 1);
  expectError(run("plan --device=cuda"), "--device=cuda: /nowhere.so");
  unsetenv("DPC_CUDA_PLUGIN");
  expectError(run("plan --comm=nccl"), "--comm=nccl");
  expectError(run("plan --comm=pigeons"), "--comm");
  expectError(run("plan --comm=tcp"), "--comm=local runs all ranks in it");
  expectError(run("plan --resume"), "--resume");
  expectError(run("plan --steps=0"), "--steps");
  expectError(run("plan --init=ones"), "--init=ones");
  expectError(run("plan --batches=none"), "none/x.npy");
  ASSERT_TRUE(writeNpy(at("batches/x.npy"), ramp({3, 7, 4})).ok());
  expectError(run("plan --batches=batches"),
              "found f32[3, 7, 4], expected f32[steps, 8, 4]");
}

TEST_F(DpcRun, ANanLossEndsTheRun) {
  HostTensor bad = x();
  // In step 2, on rank 1. The weights of the two have different signs, so that
  // their sum is NaN.
  bad.set(32 + 28, -INFINITY);
  bad.set(32 + 31, -INFINITY);
  ASSERT_TRUE(writeNpy(at("batches/x.npy"), bad).ok());
  std::string words = "plan --batches=batches --checkpoint=c "
                      "--checkpoint-every=1 --check-replicas=1";
  Ran ran = run(words);
  expectError(ran,
              "step 2: the loss is nan; input 'x' holds -inf in "
              "sample 7; --check-numbers names",
              3);
  std::filesystem::remove_all(at("c"));
  ran = run(words + " --max-restarts=5"); // a restart would fail again
  expectError(ran, "step 2: the loss is nan", 3);
  EXPECT_TRUE(std::filesystem::exists(at("c/step-1")));
  EXPECT_FALSE(std::filesystem::exists(at("c/step-2")));
  const char *place = "step 2: the loss is nan; input 'x' holds -inf in sample "
                      "7; it comes from rank 1: ";
  expectError(run("plan --batches=batches --check-numbers"), place, 3);
  ran = run("plan --batches=batches --on-nan=go-on");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_HAS(ran.out, "loss nan");
  if (hasMpi())
    expectError(run("plan --batches=batches --comm=mpi --check-numbers",
                    "mpirun --oversubscribe -np 2"),
                place, 3);
}

TEST_F(DpcRun, DataIsCheckedBeforeTheFirstStep) {
  HostTensor bad = x();
  for (double value : {double(NAN), double(INFINITY)}) {
    bad.set(64 + 30, value); // in step 3
    ASSERT_TRUE(writeNpy(at("batches/x.npy"), bad).ok());
    std::string place = std::string("input 'x' holds ") +
                        (std::isnan(value) ? "nan" : "inf") +
                        " in step 3, element 30";
    Ran ran = run("plan --batches=batches --metrics=m.jsonl");
    expectError(ran, "--batches=batches: " + place +
                         ", expected finite numbers; --on-nan=go-on");
    EXPECT_EQ(ran.out, "");
    ran = run("plan --batches=batches --steps=1 --on-nan=go-on");
    EXPECT_EQ(ran.exitCode, 0) << ran.err;
    EXPECT_HAS(ran.out, "\n" + place + "\n");
  }
  if (hasMpi())
    expectError(run("plan --batches=batches --comm=mpi",
                    "mpirun --oversubscribe -np 2"),
                "input 'x' holds inf in step 3");
}

TEST_F(DpcRun, TheDataIsDescribedBeforeTheFirstStep) {
  ASSERT_TRUE(writeNpy(at("batches/other.npy"), x()).ok());
  Ran ran = run("plan --batches=batches --steps=4");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_HAS(ran.out, "--batches=batches: no input reads 'other.npy'\n");
  EXPECT_HAS(ran.out, "\ninput 'x': -0.75 to 0.7344, mean -0.007812\n");
  EXPECT_HAS(ran.out, "3 batches are repeated\n");
  EXPECT_LT(ran.out.find("input 'x'"), ran.out.find("step 1/4"));
  ran = run("plan --batches=batches --steps=3");
  EXPECT_EQ(ran.out.find("repeated"), std::string::npos);
  std::filesystem::create_directories(dir / "data");
  ASSERT_TRUE(writeNpy(at("data/x.npy"), ramp({5, 4}, 0.125)).ok());
  ran = run("plan --data=data --steps=5");
  EXPECT_HAS(ran.out,
             "5 samples, 1 step an epoch, 8 epochs, in the order of the file\n"
             "5 samples fill a step of 8\n");
}

/// The state after the last step is saved, and no rank waits in the next step.
TEST_F(DpcRun, AStepWithoutItsDataEndsTheRun) {
  Started run(dir, {"plan", "--batches=batches", "--steps=100000000",
                    "--save-params=p.safetensors", "--checkpoint=c"});
  ASSERT_TRUE(run.await("step 3/")) << run.output();
  std::filesystem::resize_file(at("batches/x.npy"), 200); // within step 1
  EXPECT_EQ(run.exitCode(), 1);
  EXPECT_HAS(run.output(), "batches/x.npy");
  EXPECT_TRUE(std::filesystem::exists(at("p.safetensors")));
  size_t place = run.output().find("dpc-run: error: step ");
  ASSERT_NE(place, std::string::npos) << run.output();
  int64_t failed = std::stoll(run.output().substr(place + 21));
  EXPECT_TRUE(
      std::filesystem::exists(at("c/step-" + std::to_string(failed - 1))));
}

TEST_F(DpcRun, OutputsAreCheckedBeforeTheFirstStep) {
  for (const char *option :
       {"--metrics=", "--save-params=", "--trace=", "--outputs="}) {
    Ran ran = run(std::string("plan --steps=2 ") + option + "/dev/null/x");
    expectError(ran, std::string(option, strlen(option) - 1) + ": /dev/null/x");
    EXPECT_EQ(ran.out, "") << option;
  }
  expectError(run("plan --save-params=batches"), "it is a folder");
  EXPECT_EQ(run("plan --steps=1 --init=none --save-params=p.safetensors "
                "--metrics=m.jsonl")
                .exitCode,
            1);
  EXPECT_FALSE(std::filesystem::exists(at("m.jsonl")));
  EXPECT_FALSE(std::filesystem::exists(at("p.safetensors")));
  EXPECT_FALSE(std::filesystem::exists(at("p.safetensors.new")));
}

TEST_F(DpcRun, OneRanksErrorDoesNotStallTheOthers) {
  if (!hasMpi())
    GTEST_SKIP() << "built without MPI";
  expectError(run("plan --comm=mpi --metrics=/dev/null/x --timeout-seconds=60",
                  "timeout 20 mpirun --oversubscribe -np 2"),
              "--metrics: /dev/null/x");
}

TEST_F(DpcRun, ErrorsInPlansAreOneLine) {
  Plan plan = planFor(2);
  plan.version = kPlanVersion + 1;
  ASSERT_TRUE(writePlan(plan, at("plan")).ok());
  expectError(run("plan"), "is not supported, this build reads");
  std::string text = planToJson(planFor(2));
  size_t number = text.find("\"m\":") + 4;
  text[number] = text[number] == '1' ? '2' : '1';
  std::ofstream(dir / "plan/plan.json") << text;
  expectError(run("plan"), "checksum");
  plan = planFor(2);
  std::get<MatmulOp>(plan.phases["forward"][1].op).k = 400;
  ASSERT_TRUE(writePlan(plan, at("plan")).ok());
  expectError(run("plan"), "plan/plan.json: forward[1] (matmul): lda is 4");
}

TEST_F(DpcRun, DumpsLedgers) {
  Ran ran = run("plan --dump-ledger=ledgers");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_HAS(ran.out, "ledgers/rank-N.txt of 2 ranks");
  std::string text = read("ledgers/rank-1.txt");
  EXPECT_EQ(text, ledgerText(planFor(2), 1));
  EXPECT_HAS(text, "\n0 update[0] micro_batch=0 all_reduce");
  EXPECT_FALSE(std::filesystem::exists(at("ledgers/rank-2.txt")));
  EXPECT_EQ(run("plan --dump-ledger").exitCode, 0);
  EXPECT_EQ(read("plan/ledger/rank-1.txt"), text);
  expectError(run("plan --dump-ledger=/dev/null/x"), "/dev/null/x");
}

TEST_F(DpcRun, ErrorsUnderMpirunArePrintedOnce) {
  if (!hasMpi())
    GTEST_SKIP() << "built without MPI";
  writePlanFor(4);
  expectError(run("plan --comm=mpi", "mpirun --oversubscribe -np 2"),
              "the plan is for 4 ranks, 2 processes were started");
  expectError(run("plan --comm=local", "mpirun --oversubscribe -np 2"),
              "--comm=mpi");
  writePlanFor(2);
  expectError(run("plan --batches=none", "mpirun --oversubscribe -np 2"),
              "none/x.npy");
  std::filesystem::remove(dir / "weights.bin");
  expectError(run("plan", "mpirun --oversubscribe -np 2"), "parameter 'w'");
}

TEST_F(DpcRun, ChangedWeightsAreRefusedOnEveryRank) {
  const char *message = "weights.bin: changed since the plan 'plan' was "
                        "compiled (96 bytes, hash ";
  std::string kept = read("weights.bin");
  write("weights.bin", kept.substr(0, 95) + '\x01');
  expectError(run("plan"), message);
  expectError(run("plan --init=random:5"), message);
  if (hasMpi())
    expectError(run("plan --comm=mpi", "mpirun --oversubscribe -np 2"),
                message);
  write("weights.bin", kept + '\x01');
  expectError(run("plan"), "was compiled (96 bytes; now 97 bytes)");
  write("weights.bin", kept);
  EXPECT_EQ(run("plan").exitCode, 0) << "the bytes are as before, the time not";
}

TEST_F(DpcRun, PlanAndWeightsMoveTogether) {
  std::filesystem::create_directories(dir / "elsewhere");
  for (const char *name : {"plan", "weights.bin"})
    std::filesystem::rename(dir / name, dir / "elsewhere" / name);
  Ran ran = run("elsewhere/plan --batches=batches");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
}

/// Variables of torchrun and Slurm that a shell sets before two processes.
constexpr const char *kTorchrun = "RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 "
                                  "LOCAL_WORLD_SIZE=2",
                     *kSrun = "SLURM_PROCID=$r SLURM_LOCALID=$r "
                              "SLURM_STEP_NUM_TASKS=2",
                     *kAddress = " MASTER_ADDR=127.0.0.1 MASTER_PORT=",
                     *kToken = " DPC_JOB_TOKEN=sesame";

/// Returns words that start the command behind them twice, as a launcher does.
/// `then` runs next; $first is the process of rank 1.
std::string twice(const std::string &variables, const std::string &then = "") {
  return "env -u MASTER_ADDR -u MASTER_PORT -u DPC_JOB_TOKEN sh -c 'for r in 1 "
         "0; do env " +
         variables + " \"$@\" & pids=\"$pids $!\"; first=${first:-$!}; done; " +
         then +
         "worst=0; for p in $pids; do wait $p || worst=$?; done; exit $worst' "
         "sh";
}

/// Returns a listening socket at `port`, or at any free port for 0. Returns -1
/// if the port is in use.
int socketAt(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  int made = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(made, reinterpret_cast<sockaddr *>(&address), sizeof address) == 0)
    return made;
  close(made);
  return -1;
}

/// Returns the first of three consecutive free ports.
std::string freePort() {
  for (int attempt = 0; attempt < 100; ++attempt) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    std::vector<int> sockets{socketAt(0)};
    getsockname(sockets[0], reinterpret_cast<sockaddr *>(&address), &length);
    int port = ntohs(address.sin_port);
    for (int next : {port + 1, port + 2})
      sockets.push_back(next < 65536 ? socketAt(next) : -1);
    bool areFree = std::count(sockets.begin(), sockets.end(), -1) == 0;
    for (int one : sockets)
      if (one >= 0)
        close(one);
    if (areFree)
      return std::to_string(port);
  }
  ADD_FAILURE() << "no three consecutive ports are free";
  return "0";
}

TEST_F(DpcRun, TrainsUnderTorchrunOverTcp) {
  Ran ran = run(kTrain, twice(kTorchrun + (kAddress + freePort()) + kToken));
  expectTrained(ran, 1);
  EXPECT_HAS(ran.out, "--comm=tcp: all data passes through rank 0");
}

TEST_F(DpcRun, CtrlCInOneProcessStopsAllAfterTheSameStep) {
  Ran ran = run(kTrain + std::string(" --steps=10000000"),
                "timeout 60 " +
                    twice(kTorchrun + (kAddress + freePort()) + kToken,
                          "until grep -q \"^step 1/\" out.txt; do sleep 0.05; "
                          "done; kill -INT $first; "));
  EXPECT_EQ(ran.exitCode, 130) << ran.err;
  size_t before = ran.out.rfind("\nstep ");
  ASSERT_NE(before, std::string::npos);
  std::string last =
      ran.out.substr(before + 6, ran.out.find('/', before) - before - 6);
  EXPECT_HAS(ran.out, "\nstopped by a signal after step " + last +
                          " of 10000000; the parameters are saved");
  EXPECT_HAS(ran.out, "p.safetensors (weights)");
  EXPECT_TRUE(openSafetensors(at("p.safetensors")).ok());
}

TEST_F(DpcRun, SavesTheWeightsAfterTheReaderOfItsOutputHasEnded) {
  Started run(dir.string(), {"plan", "--batches=batches", "--steps=10000000",
                             "--save-params=p.safetensors"});
  ASSERT_TRUE(run.await("step 1/")) << run.output();
  run.closeOutput(); // as Ctrl-C ends tee
  run.send(SIGINT);
  EXPECT_EQ(run.exitCode(), 128 + SIGINT);
  EXPECT_TRUE(openSafetensors(at("p.safetensors")).ok());
}

TEST_F(DpcRun, ASignalBeforeTheFirstStepRunsNoStep) {
  std::filesystem::create_directories(dir / "c");
  auto lock = std::make_unique<FolderLock>(); // the run waits for it
  ASSERT_TRUE(lock->take(at("c"), 0).ok());
  Started run(dir.string(), {"plan", "--batches=batches", "--steps=10000000",
                             "--checkpoint=c", "--save-params=p.safetensors"});
  run.awaitHandlerOf(SIGINT);
  run.send(SIGINT);
  lock.reset();
  EXPECT_EQ(run.exitCode(), 128 + SIGINT);
  EXPECT_HAS(run.output(), "\nstopped by a signal before step 1 of 10000000; "
                           "no step was run, so that no results are written\n");
  EXPECT_EQ(run.output().find("step 1/"), std::string::npos) << run.output();
  EXPECT_FALSE(std::filesystem::exists(at("p.safetensors")));
}

TEST_F(DpcRun, AStoppedInferenceLeavesNoUnfinishedFiles) {
  Plan plan = planFor(2);
  plan.trains = false;
  plan.phases["update"].clear();
  ASSERT_TRUE(writePlan(plan, at("plan")).ok());
  ASSERT_TRUE(writeNpy(at("batches/x.npy"), ramp({24, 4}, 1.0 / 64)).ok());
  Started run(dir.string(),
              {"plan", "--data=batches", "--epochs=1000000",
               "--outputs=results", "--save-params=p.safetensors"});
  ASSERT_TRUE(run.await("step 1/")) << run.output();
  EXPECT_TRUE(std::filesystem::exists(at("results/loss.npy.new")));
  run.send(SIGTERM);
  EXPECT_EQ(run.exitCode(), 128 + SIGTERM);
  EXPECT_HAS(run.output(),
             "of 3000000; the parameters are saved; results gets no outputs, "
             "because they need every sample\nwrote p.safetensors (weights "
             "as they were read: an inference plan trains none)\n");
  EXPECT_TRUE(std::filesystem::is_empty(at("results")));
}

TEST_F(DpcRun, TrainsUnderSrunWithoutMpiOverTcp) {
  expectTrained(run(kTrain, twice(kSrun + (kAddress + freePort()) + kToken)),
                1);
  // A step of one task, and a shell in an allocation.
  expectTrained(run(kTrain, "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1"));
  expectTrained(run(kTrain, "SLURM_PROCID=0 SLURM_NTASKS=2"));
}

TEST_F(DpcRun, ErrorsUnderLaunchersArePrintedOnceAndTheirAdviceWorks) {
  std::string torchrun = kTorchrun + (kAddress + freePort());
  expectError(run("plan", twice(torchrun)),
              "--comm=tcp: DPC_JOB_TOKEN is not set");
  expectError(run("plan --comm=mpi", twice(torchrun + kToken)),
              "--comm=tcp works here");
  expectError(run("plan --comm=local", twice(torchrun + kToken)),
              "start dpc-run without torchrun, or use --comm=tcp");
  EXPECT_EQ(run("plan --steps=1 --comm=tcp", twice(torchrun + kToken)).exitCode,
            0);
  expectError(run("plan", twice(kSrun)), "MASTER_ADDR (the host of rank 0)");
  writePlanFor(3);
  expectError(run("plan", twice(torchrun + kToken)),
              "2 processes were started; use torchrun --no-python "
              "--nproc-per-node=3");
}

TEST_F(DpcRun, HelpListsTheOptions) {
  Ran ran = run("--help");
  EXPECT_EQ(ran.exitCode, 0);
  for (const char *option :
       {"--batches", "--data", "--steps", "--comm", "--device", "--metrics",
        "--save-params", "--trace", "--inputs", "--outputs", "--init",
        "--timeout-seconds"})
    EXPECT_HAS(ran.out, option) << option;
}

} // namespace
} // namespace dpc::rt
