//===- Launch.h - which process of a job this is ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_LAUNCH_H
#define DPC_RUNTIME_EXEC_LAUNCH_H

#include <string>

namespace dpc::rt {

/// What the launcher's environment variables say.
struct Launch {
  std::string launcher; ///< "torchrun", "mpirun", "srun" or "" (none)
  int rank = 0;
  int size = 1;
  int localSize = 1; ///< processes of the job on this machine
  int localRank = 0; ///< this one among them
};

/// Reads RANK/WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, PMI_*, SLURM_*, in
/// this order. Without a word about this machine, all processes are taken to
/// be on it.
Launch detectLaunch();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_LAUNCH_H
