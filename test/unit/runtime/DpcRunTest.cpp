//===- DpcRunTest.cpp - dpc-run as a process ------------------------------===//
#include "test/unit/runtime/DpcRunFixture.h"

namespace dpc::rt {
namespace {

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
  write("batches/train.safetensors", "");
  write("batches/notes.txt", "");
  Ran ran = run("plan --batches=batches --steps=4");
  EXPECT_EQ(ran.exitCode, 0) << ran.err;
  EXPECT_HAS(ran.out, "--batches=batches: no input reads 'other.npy', "
                      "'train.safetensors'\n");
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
             "a step has 8 samples, the data only 5: each step reads some of "
             "them again\n");
  std::filesystem::create_directories(dir / "inputs");
  ASSERT_TRUE(writeNpy(at("inputs/x.npy"), ramp({8, 4}, 0.125)).ok());
  const char *same = "all 2 steps read the same samples, those of --inputs\n";
  EXPECT_HAS(run("plan --inputs=inputs --steps=2").out, same);
  EXPECT_EQ(run("plan --inputs=inputs").out.find("all 1"), std::string::npos);
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
} // namespace
} // namespace dpc::rt
