//===- Calibrate.cpp - Device constants from measurements -----------------===//
//
// GEMM: seconds(k) of a fixed m x n grow as launch + (k + halfK) * slope (the
// model's depth factor k / (k + halfK)), so two depths give both constants:
//   slope = (t2 - t1) / (k2 - k1), halfK = t1 / slope - k1, peak = flops /
//   slope.
// Streaming bandwidth and exchange: the difference of two sizes, so that the
// call itself does not count.
//
//===----------------------------------------------------------------------===//

#include "cost-model/Calibrate.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dpc::cost {

using nlohmann::ordered_json;

namespace {

/// What is fitted.
struct Fit {
  double peakFlops = 0;
  double halfK = 0;
  double misaligned = 1;
  double bytesPerSecond = 0;
  double launchSeconds = 0;
  double exchangeBytesPerSecond = 0;
  double exchangeLatencySeconds = 0;
};

} // namespace

static Error failed(const std::string &what, double seconds) {
  return Error{"calibration: " + what + " took " + std::to_string(seconds) +
               " s; expected a positive time that grows with the size"};
}

static Status fitGemm(const CalibrationProbe &probe, Fit &fit) {
  const GemmShape shallow{1, 512, 512, 64}, deep{1, 512, 512, 2048};
  double t1 = probe.gemm(shallow, DType::F32) - fit.launchSeconds;
  double t2 = probe.gemm(deep, DType::F32) - fit.launchSeconds;
  if (t1 <= 0 || t2 <= t1)
    return failed("a product of 512 x 512 x 2048", t2);
  double slope = (t2 - t1) / double(deep.k - shallow.k);
  fit.halfK = std::max(0.0, t1 / slope - double(shallow.k));
  fit.peakFlops = 2.0 * double(deep.m * deep.n) / slope;
  // A size that no vector length divides, against its aligned neighbour.
  const GemmShape aligned{1, 512, 512, 512}, odd{1, 512, 509, 509};
  double ta = probe.gemm(aligned, DType::F32) - fit.launchSeconds;
  double to = probe.gemm(odd, DType::F32) - fit.launchSeconds;
  if (ta <= 0 || to <= 0)
    return failed("a product of 512 x 509 x 509", to);
  double ratio = (odd.flops() / to) / (aligned.flops() / ta);
  fit.misaligned = std::clamp(ratio, 0.05, 1.0);
  return Status();
}

/// Bytes per second and seconds per call from two sizes.
static Status fitLine(const std::function<double(double)> &measure,
                      const std::string &what, double small, double large,
                      double &bytesPerSecond, double &latency) {
  double t1 = measure(small), t2 = measure(large);
  if (t1 <= 0 || t2 <= t1)
    return failed(what, t2);
  bytesPerSecond = (large - small) / (t2 - t1);
  latency = std::max(0.0, t1 - small / bytesPerSecond);
  return Status();
}

static Result<Fit> fitAll(const CalibrationProbe &probe) {
  constexpr double mebi = 1024.0 * 1024.0;
  Fit fit;
  fit.launchSeconds = probe.launch();
  if (fit.launchSeconds <= 0)
    return failed("an empty kernel", fit.launchSeconds);
  double ignored = 0;
  // Past the caches: what plans stream is far larger than they are.
  if (Status status = fitLine(probe.stream, "streaming", 32 * mebi, 256 * mebi,
                              fit.bytesPerSecond, ignored);
      !status)
    return Error{status.error()};
  if (Status status = fitGemm(probe, fit); !status)
    return Error{status.error()};
  if (!probe.exchange)
    return fit;
  if (Status status =
          fitLine(probe.exchange, "an exchange between ranks", 4096, 8 * mebi,
                  fit.exchangeBytesPerSecond, fit.exchangeLatencySeconds);
      !status)
    return Error{status.error()};
  return fit;
}

Result<std::string> calibrateDevice(const CalibrationProbe &probe) {
  assert(probe.gemm && probe.stream && probe.launch && "a complete probe");
  if (probe.memoryBytes <= 0 || probe.cores < 1)
    return Error{"calibration: a machine of " +
                 std::to_string(probe.memoryBytes) + " bytes and " +
                 std::to_string(probe.cores) + " cores; expected both > 0"};
  Result<Fit> fit = fitAll(probe);
  if (!fit)
    return Error{fit.error()};
  std::string measured = "measured on " + probe.machine;
  auto constant = [](double value, const std::string &source) {
    return ordered_json{{"value", value}, {"source", source}};
  };
  constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
  double reserved = std::min(0.5, probe.memoryBytes / gibi / 16);
  ordered_json json = {
      {"version", 1},
      {"name", "cpu-local"},
      {"peak_teraflops",
       {{"f32", constant(fit->peakFlops / 1e12,
                         measured + ": slope of 512 x 512 x k over k")}}},
      {"memory_gibibytes", constant(probe.memoryBytes / gibi, measured)},
      {"memory_gigabytes_per_second",
       constant(fit->bytesPerSecond / 1e9, measured + ": 32 to 256 MiB")},
      {"memory_fraction", constant(1, "the bandwidth is a measured one")},
      {"memory_reserved_gibibytes",
       constant(reserved, "estimate: operating system and process")},
      {"multiprocessors", constant(double(probe.cores), measured)},
      {"launch_microseconds", constant(fit->launchSeconds * 1e6, measured)}};
  if (probe.exchange) {
    json["exchange_gigabytes_per_second"] =
        constant(fit->exchangeBytesPerSecond / 1e9, measured + ": 8 MiB");
    json["exchange_latency_microseconds"] =
        constant(fit->exchangeLatencySeconds * 1e6, measured + ": 4 KiB");
  }
  json["gemm"] = {
      {"peak_fraction", constant(1, "the peak is a measured one")},
      {"tile_m", constant(16, "estimate: register block, rounded")},
      {"tile_n", constant(16, "estimate: register block, rounded")},
      {"half_k", constant(fit->halfK, measured + ": 512 x 512 x 64 and 2048")},
      {"align_bytes", constant(32, "one AVX2 vector")},
      {"misaligned_fraction",
       constant(fit->misaligned, measured + ": 509 against 512")}};
  return json.dump(2) + "\n";
}

} // namespace dpc::cost
