//===- Launch.h - the place of this process in its job ----------*- C++ -*-===//
#pragma once

#include <string>

namespace dpc::rt {

/// The process of a job, as the launcher describes it.
struct Launch {
  std::string launcher; ///< "torchrun", "mpirun", "srun" or "" (none)
  int rank = 0;
  int size = 1;
  int localSize = 1; ///< number of processes of the job on this machine
  int localRank = 0; ///< index of this process on this machine
  /// Whether the launcher provides PMI, by which MPI finds the other processes.
  bool hasPmi = false;
  int nodes = 1;     ///< number of machines; 0: unknown
  std::string error; ///< why the variables contradict each other, or ""
};

/// Reads the environment variables of torchrun (RANK, WORLD_SIZE), Open MPI
/// (OMPI_COMM_WORLD_*), other MPIs (PMI_*) and Slurm (SLURM_*), in this order.
/// If PMI_* and SLURM_* agree, Slurm is the launcher, because mpirun in a job
/// of Slurm has SLURM_* of its own daemon. If the number of processes on this
/// machine is unknown, assumes that all processes are on this machine.
Launch detectLaunch();

} // namespace dpc::rt
