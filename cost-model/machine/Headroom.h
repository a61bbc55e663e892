//===- Headroom.h - Memory that plans leave free ----------------*- C++ -*-===//
//
// The memory of a device has three parts:
//   * the reserve (Device::memoryReservedBytes), which the driver, the context
//     and the communicators fill before a plan starts: a fact of the device;
//   * the headroom, a share of the rest, that a plan leaves free because
//     predictions have errors and allocators fragment: a choice of the user;
//   * what a plan may use.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/machine/Cluster.h"

namespace dpc::cost {

/// The share of the usable memory that plans leave free by default.
inline constexpr double kDefaultHeadroom = 0.05;

/// Returns `cluster` with devices whose plans leave `share` (from 0 to less
/// than 1) of Device::usableBytes free: it counts as reserved.
Cluster withHeadroom(Cluster cluster, double share);

} // namespace dpc::cost
