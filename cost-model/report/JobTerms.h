//===- JobTerms.h - The terms of a whole job --------------------*- C++ -*-===//
#pragma once

#include <optional>

namespace dpc::cost {

/// The mean time between failures of one device, with its share of the host and
/// of the network: 419 unexpected interruptions in 54 days of 16,384 GPUs
/// ("The Llama 3 Herd of Models", 2024, section 3.3.4).
inline constexpr double kDeviceFailureSeconds =
    54 * 86400.0 * 16384 / 419; // 50,700 hours

/// From a failure to the first step after it, without the lost work: detection,
/// scheduling, initialization and the checkpoint. Meta's and ByteDance's
/// reports name a few minutes to a quarter of an hour.
inline constexpr double kRestartSeconds = 600;

struct JobTerms {
  double tokens = 0;                  ///< Or samples (unitOf). 0: unknown.
  std::optional<double> pricePerHour; ///< Of a device.
  double deviceFailureSeconds = kDeviceFailureSeconds;
  /// The time of a checkpoint during which no step runs; absent: all devices
  /// write parameters and optimizer states to shared storage.
  std::optional<double> checkpointSeconds;
  double restartSeconds = kRestartSeconds;
};

} // namespace dpc::cost
