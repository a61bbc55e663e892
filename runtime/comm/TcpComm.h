//===- TcpComm.h - a communicator over TCP, without MPI ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_COMM_TCPCOMM_H
#define DPC_RUNTIME_COMM_TCPCOMM_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/TcpStore.h"

namespace dpc::rt {

/// The communicator of `rank` among `size` processes, whose rank 0 listens on
/// `address`. It handles any data, but all of it passes through rank 0. It is
/// meant for the host side of a run whose devices communicate by NCCL.
Expected<std::unique_ptr<Communicator>> makeTcpComm(const StoreAddress &address,
                                                    int rank, int size,
                                                    const CommOptions &options);

} // namespace dpc::rt

#endif // DPC_RUNTIME_COMM_TCPCOMM_H
