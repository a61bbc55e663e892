#include "runtime/exec/Launch.h"

#include <cstdlib>

namespace dpc::rt {

/// Returns the number in an environment variable, or -1 if there is none.
static int numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  if (!text || !*text)
    return -1;
  char *end = nullptr;
  long value = std::strtol(text, &end, 10);
  return *end == '\0' && value >= 0 && value < (1 << 24)
             ? static_cast<int>(value)
             : -1;
}

namespace {

struct Convention {
  const char *launcher, *rank, *size, *localSize, *localRank, *nodes;
};

// SLURM_STEP_NUM_TASKS distinguishes srun from the shell of an allocation,
// which also has SLURM_PROCID.
constexpr Convention kConventions[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK",
     "GROUP_WORLD_SIZE"},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", ""},
    {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID",
     ""},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE",
     "SLURM_LOCALID", "SLURM_STEP_NUM_NODES"}};

} // namespace

/// Sets the number of nodes and of processes on this one.
static void countNodes(Launch &launch, const Convention &c) {
  int local = numberIn(c.localSize), nodes = numberIn(c.nodes);
  if (local <= 0) // The nodes have equal numbers, except for a remainder.
    local = nodes > 0 ? (launch.size + nodes - 1) / nodes : launch.size;
  launch.localSize = local;
  bool isEven = launch.size % local == 0;
  launch.nodes = nodes > 0 ? nodes : isEven ? launch.size / local : 0;
}

/// Returns why the variables cannot be those of one job, or "".
static std::string contradiction(const Launch &launch, const Convention &c) {
  auto stated = [](const char *name, int value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  std::string size = stated(c.size, launch.size);
  if (launch.rank >= launch.size)
    return stated(c.rank, launch.rank) + " must be less than " + size;
  // SLURM_NTASKS_PER_NODE is of the allocation, not of the step.
  bool isOfStep = launch.launcher != "srun";
  if (isOfStep && launch.localSize > launch.size)
    return stated(c.localSize, launch.localSize) + " is more than " + size;
  return "";
}

Launch detectLaunch() {
  bool isPmiOfSlurm = numberIn("PMI_SIZE") > 0 &&
                      numberIn("PMI_RANK") == numberIn("SLURM_PROCID") &&
                      numberIn("PMI_SIZE") == numberIn("SLURM_STEP_NUM_TASKS");
  for (const Convention &c : kConventions) {
    Launch launch;
    launch.launcher = c.launcher;
    launch.rank = numberIn(c.rank);
    launch.size = numberIn(c.size);
    bool isPmi = std::string(c.rank) == "PMI_RANK";
    if (launch.rank < 0 || launch.size <= 0 || (isPmi && isPmiOfSlurm))
      continue;
    countNodes(launch, c);
    int place = numberIn(c.localRank);
    launch.localRank = place >= 0 ? place : launch.rank;
    bool hasPmi = launch.launcher == "mpirun" || isPmiOfSlurm ||
                  (launch.launcher == "srun" && std::getenv("PMIX_RANK"));
    launch.hasPmi = hasPmi;
    launch.error = contradiction(launch, c);
    return launch;
  }
  return {};
}

} // namespace dpc::rt
