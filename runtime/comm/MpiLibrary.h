//===- MpiLibrary.h - which MPI there is ------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_MPILIBRARY_H
#define DPC_RUNTIME_COMM_MPILIBRARY_H

#include <string>

namespace dpc::rt {

/// What the MPI library calls itself, "Open MPI v4.1.4"; "" in a build without.
std::string mpiLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_MPILIBRARY_H
