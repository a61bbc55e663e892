//===- NoMpi.cpp - stubs for a build without MPI --------------------------===//
#include "runtime/comm/Communicator.h"

namespace dpc::rt {

bool hasMpi() { return false; }

std::string mpiLibrary() { return ""; }

Expected<std::unique_ptr<Communicator>> makeMpiComm(const CommOptions &) {
  return Status::unsupported(
      "--comm=mpi: this build has no MPI (install libopenmpi-dev and configure "
      "again); --comm=local runs all ranks in one process");
}

} // namespace dpc::rt
