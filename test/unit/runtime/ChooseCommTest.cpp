//===- ChooseCommTest.cpp - launchers and communicators -------------------===//
#include "runtime/exec/ChooseComm.h"
#include "test/unit/runtime/Expect.h"

#include <cstdlib>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

Launch launched(const std::string &launcher, int size = 2,
                bool hasPmi = false) {
  Launch launch;
  launch.launcher = launcher;
  launch.size = launch.localSize = size;
  launch.hasPmi = hasPmi;
  return launch;
}

const Launch kAlone = launched("", 1), kTorchrun = launched("torchrun"),
             kMpirun = launched("mpirun", 2, true), kSrun = launched("srun"),
             kSrunPmi = launched("srun", 2, true);

/// A cell of the table: the communicator, or a part of the message.
struct Cell {
  const char *name, *asked;
  Launch launch;
  bool hasMpi, hasAddress;
  std::string comm, error;
};

const Cell kCells[] = {
    {"alone", "", kAlone, true, false, "local", ""},
    {"aloneLocal", "local", kAlone, true, false, "local", ""},
    {"aloneMpi", "mpi", kAlone, true, false, "mpi", ""},
    {"aloneNoMpi", "mpi", kAlone, false, false, "", "--comm=local works here"},
    {"aloneTcp", "tcp", kAlone, true, false, "", "--comm=local runs all ranks"},
    {"aloneNccl", "nccl", kAlone, true, false, "",
     "add --device=cuda, or use --comm=local"},

    {"torchrun", "", kTorchrun, true, true, "tcp", ""},
    {"torchrunNoMpi", "", kTorchrun, false, true, "tcp", ""},
    {"torchrunLocal", "local", kTorchrun, true, true, "",
     "start dpc-run without torchrun, or use --comm=tcp"},
    {"torchrunMpi", "mpi", kTorchrun, true, true, "", "--comm=tcp works here"},
    {"torchrunTcp", "tcp", kTorchrun, true, true, "tcp", ""},
    {"torchrunNccl", "nccl", kTorchrun, true, true, "",
     "add --device=cuda, or use --comm=tcp"},
    {"torchrunOfOne", "", launched("torchrun", 1), true, true, "local", ""},

    {"mpirun", "", kMpirun, true, false, "mpi", ""},
    {"mpirunNoMpi", "", kMpirun, false, false, "",
     "dpc-run without mpirun runs all ranks in one process"},
    {"mpirunNoMpiAddress", "", kMpirun, false, true, "tcp", ""},
    {"mpirunLocal", "local", kMpirun, true, false, "",
     "start dpc-run without mpirun, or use --comm=mpi"},
    {"mpirunMpi", "mpi", kMpirun, true, false, "mpi", ""},
    {"mpirunAskedNoMpi", "mpi", kMpirun, false, true, "",
     "--comm=tcp works here"},
    {"mpirunTcp", "tcp", kMpirun, true, true, "tcp", ""},
    {"mpirunNccl", "nccl", kMpirun, true, false, "",
     "add --device=cuda, or use --comm=mpi"},

    {"srunPmi", "", kSrunPmi, true, false, "mpi", ""},
    {"srunPmiMpi", "mpi", kSrunPmi, true, false, "mpi", ""},
    {"srunPmiLocal", "local", kSrunPmi, true, false, "",
     "start dpc-run without srun, or use --comm=mpi"},
    {"srun", "", kSrun, true, false, "", "srun --mpi=pmix"},
    {"srunAddress", "", kSrun, true, true, "tcp", ""},
    {"srunNoMpi", "", kSrun, false, false, "",
     "dpc-run without srun runs all ranks in one process"},
    {"srunLocal", "local", kSrun, true, false, "",
     "start dpc-run without srun; srun --mpi=pmix"},
    {"srunMpi", "mpi", kSrun, true, false, "mpi", ""}, // see wrongCount()
    {"srunTcp", "tcp", kSrun, true, true, "tcp", ""},
    {"srunOfOne", "", launched("srun", 1), true, false, "local", ""},
};

class ChooseCommCell : public testing::TestWithParam<Cell> {};

TEST_P(ChooseCommCell, WorksOrSaysWhatWorks) {
  const Cell &cell = GetParam();
  CommQuestion question{cell.asked, false, cell.launch, cell.hasMpi,
                        cell.hasAddress};
  CommChoice choice = chooseComm(question);
  if (cell.error.empty()) {
    EXPECT_EQ(choice.error, "");
    EXPECT_EQ(choice.comm, cell.comm);
    return;
  }
  EXPECT_HAS(choice.error, cell.error);
  EXPECT_EQ(choice.error.find('\n'), std::string::npos);
  // A recommended --comm is accepted under the same launcher. A name that
  // depends on a condition is accepted if the condition holds.
  question.hasAddress |=
      choice.error.find("if MASTER_ADDR") != std::string::npos;
  for (const char *comm : {"local", "mpi", "tcp"}) {
    question.asked = comm;
    bool isAdvised =
        cell.asked != question.asked &&
        choice.error.find(std::string("--comm=") + comm) != std::string::npos;
    if (isAdvised)
      EXPECT_EQ(chooseComm(question).error, "") << choice.error;
  }
}

INSTANTIATE_TEST_SUITE_P(Cells, ChooseCommCell, testing::ValuesIn(kCells),
                         [](const auto &info) { return info.param.name; });

TEST(ChooseComm, GpusUseNccl) {
  auto choose = [](const char *asked, const Launch &launch) {
    return chooseComm({asked, true, launch, true, true});
  };
  EXPECT_EQ(choose("", kAlone).comm, "local");
  for (const Launch &launch : {kTorchrun, kMpirun, kSrun, kSrunPmi}) {
    EXPECT_EQ(choose("", launch).comm, "nccl");
    EXPECT_EQ(choose("nccl", launch).error, "");
    for (const char *asked : {"local", "mpi", "tcp"})
      EXPECT_HAS(choose(asked, launch).error, "--comm=nccl");
  }
}

TEST(ChooseComm, ACountNamesTheLauncher) {
  EXPECT_EQ(wrongCount("tcp", kTorchrun, 2, 2), "");
  EXPECT_HAS(wrongCount("tcp", kTorchrun, 2, 4),
             "use torchrun --no-python --nproc-per-node=4");
  EXPECT_HAS(wrongCount("mpi", kMpirun, 2, 4), "use mpirun -np 4");
  EXPECT_HAS(wrongCount("mpi", kSrunPmi, 2, 4), "use srun -n 4");
  EXPECT_HAS(wrongCount("mpi", kAlone, 1, 4),
             "use mpirun -np 4, or --comm=local");
  // MPI did not find the other processes.
  EXPECT_HAS(wrongCount("mpi", kSrun, 1, 2),
             "MPI connects 1 of the 2 processes of srun; use srun --mpi=pmix");
}

Launch onNodes(const std::string &launcher, int nodes) {
  Launch launch = launched(launcher, 4);
  launch.nodes = nodes;
  launch.localSize = nodes > 0 ? 4 / nodes : 1;
  return launch;
}

TEST(ChooseComm, WordsKeepTheNumberOfNodes) {
  EXPECT_EQ(startWords(onNodes("torchrun", 2), 8),
            "torchrun --no-python --nnodes=2 --nproc-per-node=4");
  EXPECT_EQ(startWords(onNodes("torchrun", 1), 8),
            "torchrun --no-python --nproc-per-node=8");
  for (int nodes : {0, 2}) // unequal numbers
    EXPECT_HAS(startWords(onNodes("torchrun", nodes), 7),
               "with 7 processes in total");
  EXPECT_EQ(startWords(onNodes("srun", 2), 8), "srun -N 2 -n 8");
  EXPECT_EQ(startWords(onNodes("mpirun", 2), 8), "mpirun -np 8");
}

TEST(ChooseComm, SlowCommunicationIsSaid) {
  EXPECT_EQ(speedOf("tcp", false, 4),
            "--comm=tcp: all data passes through rank 0");
  EXPECT_EQ(speedOf("tcp", true, 4),
            "--comm=tcp: all data passes through rank 0; mpirun -np 4 dpc-run "
            "is faster");
  for (const char *comm : {"local", "mpi", "nccl"})
    EXPECT_EQ(speedOf(comm, true, 4), "");
}

TEST(ChooseComm, ErrorsOfAProcessNameItsRank) {
  EXPECT_EQ(errorOfProcess(kAlone, "node7", "no plan"), "no plan");
  Launch third = launched("torchrun", 4);
  third.rank = 3;
  EXPECT_EQ(errorOfProcess(third, "node7", "no plan"),
            "rank 3 on node7: no plan");
  EXPECT_EQ(errorOfProcess(third, "node7", "rank 3 waited 9 s"),
            "rank 3 on node7 waited 9 s");
  EXPECT_EQ(errorOfProcess(third, "node7", "rank 31 failed"),
            "rank 3 on node7: rank 31 failed");
}

/// Sets variables, and removes them at the end.
class Variables {
public:
  Variables(std::initializer_list<std::pair<const char *, const char *>> set) {
    for (auto [name, value] : set) {
      setenv(name, value, 1);
      names.push_back(name);
    }
  }
  ~Variables() {
    for (const char *name : names)
      unsetenv(name);
  }
  Variables(const Variables &) = delete;
  Variables &operator=(const Variables &) = delete;

private:
  std::vector<const char *> names;
};

TEST(ChooseComm, PmiOfSlurmIsNotMpirun) {
  {
    Variables slurm{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "3"}};
    EXPECT_EQ(detectLaunch().launcher, "srun");
    EXPECT_FALSE(detectLaunch().hasPmi);
    Variables pmix{{"PMIX_RANK", "1"}};
    EXPECT_TRUE(detectLaunch().hasPmi);
  }
  {
    Variables pmi2{{"SLURM_PROCID", "1"},
                   {"SLURM_STEP_NUM_TASKS", "3"},
                   {"PMI_RANK", "1"},
                   {"PMI_SIZE", "3"}};
    EXPECT_EQ(detectLaunch().launcher, "srun");
    EXPECT_TRUE(detectLaunch().hasPmi);
  }
  // The daemon of mpirun is a task of Slurm.
  Variables hydra{{"SLURM_PROCID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"},
                  {"PMI_RANK", "1"},
                  {"PMI_SIZE", "3"}};
  EXPECT_EQ(detectLaunch().launcher, "mpirun");
  EXPECT_EQ(detectLaunch().rank, 1);
}

TEST(ChooseComm, NodesComeFromTheLauncher) {
  {
    Variables torchrun{{"RANK", "1"},
                       {"WORLD_SIZE", "4"},
                       {"LOCAL_WORLD_SIZE", "1"},
                       {"LOCAL_RANK", "0"},
                       {"GROUP_WORLD_SIZE", "2"}};
    EXPECT_EQ(detectLaunch().nodes, 2) << "1 process here, 3 on the other node";
    EXPECT_EQ(detectLaunch().localSize, 1);
  }
  {
    Variables torchrun{
        {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}};
    EXPECT_EQ(detectLaunch().nodes, 2);
  }
  Variables slurm{{"SLURM_PROCID", "1"},
                  {"SLURM_STEP_NUM_TASKS", "8"},
                  {"SLURM_STEP_NUM_NODES", "2"}};
  EXPECT_EQ(detectLaunch().nodes, 2);
  EXPECT_EQ(detectLaunch().localSize, 4);
}

TEST(ChooseComm, VariablesThatContradictEachOtherAreAnError) {
  {
    Variables torchrun{{"RANK", "1"}, {"WORLD_SIZE", "1"}};
    EXPECT_EQ(detectLaunch().error, "RANK=1 must be less than WORLD_SIZE=1");
  }
  {
    Variables torchrun{
        {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_WORLD_SIZE", "2"}};
    EXPECT_EQ(detectLaunch().error,
              "LOCAL_WORLD_SIZE=2 is more than WORLD_SIZE=1");
  }
  Variables torchrun{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}};
  EXPECT_EQ(detectLaunch().error, "");
}

} // namespace
} // namespace dpc::rt
