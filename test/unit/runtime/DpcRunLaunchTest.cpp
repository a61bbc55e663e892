//===- DpcRunLaunchTest.cpp - dpc-run under launchers and signals ---------===//
#include "test/unit/runtime/DpcRunFixture.h"

namespace dpc::rt {
namespace {

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
  expectTrained(ran);
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
  expectTrained(run(kTrain, twice(kSrun + (kAddress + freePort()) + kToken)));
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
