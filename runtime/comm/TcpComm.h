//===- TcpComm.h - a communicator over TCP, without MPI ---------*- C++ -*-===//
#pragma once

#include "runtime/comm/Communicator.h"
#include "runtime/comm/TcpStore.h"

namespace dpc::rt {

/// Returns the communicator of `rank` in a world of `size` processes. Rank 0
/// listens on `address`, and all data passes through rank 0. This is right for
/// every run, but slow for large tensors on CPUs. In runs on GPUs, only data in
/// host memory is sent this way; NCCL communicates the tensors.
Expected<std::unique_ptr<Communicator>> makeTcpComm(const StoreAddress &address,
                                                    int rank, int size,
                                                    const CommOptions &options);

} // namespace dpc::rt
