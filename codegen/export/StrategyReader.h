//===- StrategyReader.h - Base of the configuration readers -----*- C++ -*-===//
#pragma once

#include "codegen/export/Import.h"

#include <algorithm>

namespace dpc::exports {

/// Keeps only the first error.
class StrategyReader {
protected:
  /// The product of three accepted numbers does not overflow.
  static constexpr int64_t kMost = 1 << 20;

  StrategyReader(std::string prefix, int64_t devices)
      : devices(devices), prefix(std::move(prefix)) {}

  void fail(const std::string &why) {
    if (error.empty())
      error = prefix + why;
  }
  /// Chooses dp so that the strategy uses all devices.
  void setDegrees(int64_t tp, int64_t pp, int64_t cp) {
    cost::Strategy &strategy = result.strategy;
    strategy.tp = tp;
    strategy.pp = pp;
    strategy.cp = cp;
    // dp is at least 1 even after an error, because later steps divide by dp.
    strategy.dp = std::max<int64_t>(1, devices / (tp * pp * cp));
    if (devices % (tp * pp * cp) != 0)
      fail("the product of tp=" + std::to_string(tp) +
           ", pp=" + std::to_string(pp) + " and cp=" + std::to_string(cp) +
           " does not divide the " + std::to_string(devices) + " devices");
  }
  Expected<Imported> finish() {
    return error.empty() ? Expected<Imported>(std::move(result))
                         : Expected<Imported>(Error{error});
  }

  int64_t devices;
  Imported result;
  std::string error;

private:
  std::string prefix;
};

Expected<Imported> readDeepSpeed(const std::string &text, int64_t devices);
Expected<Imported> readMegatron(const std::string &text, int64_t devices);

} // namespace dpc::exports
