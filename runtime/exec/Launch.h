//===- Launch.h - the place of this process in its job ----------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_LAUNCH_H
#define DPC_RUNTIME_EXEC_LAUNCH_H

#include <string>

namespace dpc::rt {

/// The contents of the launcher's environment variables.
struct Launch {
  std::string launcher; ///< "torchrun", "mpirun", "srun" or "" (none)
  int rank = 0;
  int size = 1;
  int localSize = 1; ///< processes of the job on this machine
  int localRank = 0; ///< the index of this process on its machine
};

/// Reads RANK/WORLD_SIZE (torchrun), OMPI_COMM_WORLD_*, PMI_* and SLURM_*, in
/// this order. If the number of processes on this machine is unknown, all
/// processes of the job are assumed to be here.
Launch detectLaunch();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_LAUNCH_H
