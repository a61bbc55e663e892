//===- ChooseComm.h - how the ranks of a run communicate --------*- C++ -*-===//
#pragma once

#include "runtime/exec/Launch.h"

#include <string>

namespace dpc::rt {

/// What decides how the ranks communicate.
struct CommQuestion {
  std::string asked; ///< the value of --comm; "" if it is not given
  bool onGpu = false;
  Launch launch;
  bool hasMpi = false;     ///< whether this build has MPI
  bool hasAddress = false; ///< whether MASTER_ADDR is set
};

/// `comm` is "local", "mpi", "tcp" or "nccl". If `error` is not empty, it is
/// one line, and what it recommends works under the same launcher.
struct CommChoice {
  std::string comm, error;
};

CommChoice chooseComm(const CommQuestion &question);

/// Returns the words that start `ranks` processes as `launch` does, on the same
/// number of nodes: "mpirun -np 4". torchrun starts the same number on each
/// node; if the nodes cannot share `ranks` equally, the text says so instead.
std::string startWords(const Launch &launch, int ranks);

/// Returns what to print about the speed of `comm`, which connects more than
/// one process, or "".
std::string speedOf(const std::string &comm, bool hasMpi, int ranks);

/// Returns the error of one process. Under a launcher, begins with its rank and
/// its host.
std::string errorOfProcess(const Launch &launch, const std::string &host,
                           const std::string &error);

/// Returns why the processes of a job cannot run a plan for `ranks` ranks, or
/// "". `connected` is the number of processes that the communicator connects.
std::string wrongCount(const std::string &comm, const Launch &launch,
                       int connected, int ranks);

} // namespace dpc::rt
