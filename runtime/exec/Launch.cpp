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

Launch detectLaunch() {
  struct Convention {
    const char *launcher, *rank, *size, *localSize, *localRank;
  };
  // SLURM_STEP_NUM_TASKS distinguishes srun from the shell of an allocation,
  // which also has SLURM_PROCID.
  constexpr Convention conventions[] = {
      {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK"},
      {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"mpirun", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
      {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS_PER_NODE",
       "SLURM_LOCALID"}};
  bool isPmiOfSlurm = numberIn("PMI_SIZE") > 0 &&
                      numberIn("PMI_RANK") == numberIn("SLURM_PROCID") &&
                      numberIn("PMI_SIZE") == numberIn("SLURM_STEP_NUM_TASKS");
  for (const Convention &c : conventions) {
    int rank = numberIn(c.rank), size = numberIn(c.size);
    bool isPmi = std::string(c.rank) == "PMI_RANK";
    if (rank < 0 || size <= rank || (isPmi && isPmiOfSlurm))
      continue;
    int local = numberIn(c.localSize);
    int place = numberIn(c.localRank);
    std::string launcher = c.launcher;
    bool hasPmi = launcher == "mpirun" || isPmiOfSlurm ||
                  (launcher == "srun" && std::getenv("PMIX_RANK"));
    return {launcher,
            rank,
            size,
            local > 0 ? local : size,
            place >= 0 ? place : rank,
            hasPmi && launcher != "torchrun"};
  }
  return {};
}

} // namespace dpc::rt
