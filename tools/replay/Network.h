//===- Network.h - Links of clusters as they are published ------*- C++ -*-===//
#ifndef DPC_TOOLS_REPLAY_NETWORK_H
#define DPC_TOOLS_REPLAY_NETWORK_H

#include "cost-model/machine/Cluster.h"

namespace dpc::validate {

/// The level of the network between nodes that `text` describes, per GPU:
///
///   [COUNTx]RATE(Gb|Tb|GB|TB)[/s] WORDS per [N-GPU ]node | GPU
///
/// "8x200Gb HDR IB per 8-GPU node", "400Gb/s RoCE per GPU", "800Gb/s per node".
/// A node without a number of its own has `gpusPerNode`. The level's span is
/// left to the caller.
Expected<cost::Level> parseNetwork(const std::string &text,
                                   int64_t gpusPerNode);

/// The device file for a GPU as tables name it: "A100-80GB-SXM", "GB200",
/// "V100-16GB-SXM2 (p3.16xlarge)". Where no memory is named, the kind with
/// most.
Expected<cost::Device> findDevice(const std::string &gpu);

/// What joins the GPUs of a node, by device.
cost::Level nodeLevel(const cost::Device &device);

/// A cluster of `gpus` devices. `network` is not looked at for a single node.
Expected<cost::Cluster> clusterOf(const std::string &gpu, int64_t gpus,
                                  int64_t gpusPerNode,
                                  const std::string &network);

} // namespace dpc::validate

#endif // DPC_TOOLS_REPLAY_NETWORK_H
