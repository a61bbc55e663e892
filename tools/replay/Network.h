//===- Network.h - Clusters from their published descriptions ---*- C++ -*-===//
#pragma once

#include "cost-model/machine/Cluster.h"

namespace dpc::validate {

/// Parses the description of a network between nodes. Returns the level, with
/// the bandwidth per GPU but without a span. The form is:
///
///   [COUNTx]RATE(Gb|Tb|GB|TB)[/s] WORDS per [N-GPU ]node | tray | GPU
///
/// "8x200Gb HDR IB per 8-GPU node", "400Gb/s RoCE per GPU", "800Gb/s per node".
/// If the text does not state the number of GPUs of a node, it is
/// `gpusPerNode`.
Expected<cost::Level> parseNetwork(const std::string &text,
                                   int64_t gpusPerNode);

/// Returns the device of a GPU with a published name, such as "A100-80GB-SXM",
/// "GB200" or "V100-16GB-SXM2 (p3.16xlarge)". If the name has no memory size,
/// returns the variant with the most memory.
Expected<cost::Device> findDevice(const std::string &gpu);

cost::Level nodeLevel(const cost::Device &device);

/// Returns a cluster of `gpus` devices. If it has a single node, `network` is
/// ignored.
Expected<cost::Cluster> clusterOf(const std::string &gpu, int64_t gpus,
                                  int64_t gpusPerNode,
                                  const std::string &network);

} // namespace dpc::validate
