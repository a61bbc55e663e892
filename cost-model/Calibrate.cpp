//===- Calibrate.cpp - Device constants from measurements -----------------===//
//
// Products: the rate at every point of a grid (GemmTable.h).
// Streaming and reducing: the difference of two sizes, so that the call itself
// does not count.
//
//===----------------------------------------------------------------------===//

#include "cost-model/Calibrate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace dpc::cost {

using nlohmann::ordered_json;

namespace {

/// What is fitted.
struct Fit {
  GemmTable table;
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

static Status measureGemms(const CalibrationProbe &probe, Fit &fit) {
  fit.table.sizes = {32, 128, 512, 2048};
  for (int i = 0; i < numTranspositions; ++i)
    for (int64_t m : fit.table.sizes)
      for (int64_t n : fit.table.sizes)
        for (int64_t k : fit.table.sizes) {
          auto which = static_cast<Transposition>(i);
          GemmShape shape{1, m, n, k};
          shape.transA = which == Transposition::Left;
          shape.transB = which == Transposition::Right;
          double seconds = probe.gemm(shape) - fit.launchSeconds;
          if (seconds <= 0)
            return failed("a product of " + std::to_string(m) + " x " +
                              std::to_string(n) + " x " + std::to_string(k),
                          seconds);
          fit.table.rates[i].push_back(shape.flops() * double(probe.cores) /
                                       seconds);
        }
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
  if (Status status = measureGemms(probe, fit); !status)
    return Error{status.error()};
  if (!probe.allReduce)
    return fit;
  // Of two ranks in a ring: 2 (latency + bytes / 2 / bandwidth).
  if (Status status = fitLine(probe.allReduce, "an all_reduce of two ranks",
                              4096, 16 * mebi, fit.exchangeBytesPerSecond,
                              fit.exchangeLatencySeconds);
      !status)
    return Error{status.error()};
  fit.exchangeLatencySeconds /= 2;
  return fit;
}

static ordered_json constant(double value, const std::string &source) {
  return {{"value", value}, {"source", source}};
}

static double peakOf(const GemmTable &table) {
  double peak = 0;
  for (const std::vector<double> &rates : table.rates)
    peak = std::max(peak, *std::max_element(rates.begin(), rates.end()));
  return peak;
}

/// The formula's constants say nothing here: the table replaces it.
static ordered_json gemmJson(const GemmTable &table,
                             const std::string &measured) {
  const std::string unused = "not used: products were measured";
  ordered_json json = {{"peak_fraction", constant(1, unused)},
                       {"tile_m", constant(16, unused)},
                       {"tile_n", constant(16, unused)},
                       {"half_k", constant(0, unused)},
                       {"align_bytes", constant(1, unused)},
                       {"misaligned_fraction", constant(1, unused)}};
  ordered_json rates = {
      {"source", measured + ": every core its own product, all at once"},
      {"sizes", table.sizes}};
  for (int i = 0; i < numTranspositions; ++i) {
    std::vector<double> giga;
    for (double rate : table.rates[i])
      giga.push_back(std::round(rate / 1e7) / 100);
    rates[std::string(stringifyTransposition(static_cast<Transposition>(i)))] =
        std::move(giga);
  }
  json["measured_gigaflops"] = std::move(rates);
  return json;
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
  constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
  double reserved = std::min(0.5, probe.memoryBytes / gibi / 16);
  ordered_json json = {
      {"version", 1},
      {"name", "cpu-local"},
      {"peak_teraflops",
       {{"f32", constant(peakOf(fit->table) / 1e12,
                         measured + ": the fastest product")}}},
      {"memory_gibibytes", constant(probe.memoryBytes / gibi, measured)},
      {"memory_gigabytes_per_second",
       constant(fit->bytesPerSecond / 1e9, measured + ": 32 to 256 MiB")},
      {"memory_fraction", constant(1, "the bandwidth is a measured one")},
      {"memory_reserved_gibibytes",
       constant(reserved, "estimate: operating system and process")},
      {"multiprocessors", constant(double(probe.cores), measured)},
      {"launch_microseconds", constant(fit->launchSeconds * 1e6, measured)}};
  if (probe.allReduce) {
    json["exchange_gigabytes_per_second"] = constant(
        fit->exchangeBytesPerSecond / 1e9, measured + ": all_reduce of 16 MiB");
    json["exchange_latency_microseconds"] = constant(
        fit->exchangeLatencySeconds * 1e6, measured + ": all_reduce of 4 KiB");
  }
  json["gemm"] = gemmJson(fit->table, measured);
  return json.dump(2) + "\n";
}

} // namespace dpc::cost
