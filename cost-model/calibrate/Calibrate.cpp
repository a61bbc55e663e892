//===- Calibrate.cpp - Device constants from measurements -----------------===//
//
// The calibration measures in several passes and uses the shortest times,
// because other work on the machine rarely disturbs the same measurement in
// every pass. GEMMs are measured at every point of a table (GemmTable.h).
// Streaming and all_reduce are measured with two sizes: the difference of the
// times does not include the overhead of a call.
//
//===----------------------------------------------------------------------===//

#include "cost-model/calibrate/Calibrate.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace dpc::cost {

using nlohmann::ordered_json;

namespace {

constexpr double kMebi = 1024.0 * 1024.0;
constexpr int kPasses = 3;
/// Sizes in bytes of buffers that do not fit in the caches.
constexpr double kStreamed[] = {32 * kMebi, 256 * kMebi};
constexpr double kReduced[] = {4096, 16 * kMebi};

/// The shortest time of each measurement over all passes.
struct Times {
  double launch = 0;
  double scalars = 0;
  std::array<std::vector<double>, numTranspositions> gemm, sharedGemm;
  double stream[2] = {}, coreStream[2] = {}, allReduce[2] = {};
};

/// Calls `visit` for every GEMM of the table in the order of GemmTable::rates.
template <typename F>
void forEachGemm(const std::vector<int64_t> &sizes, F visit) {
  for (int i = 0; i < numTranspositions; ++i) {
    size_t at = 0;
    for (int64_t m : sizes)
      for (int64_t n : sizes)
        for (int64_t k : sizes) {
          auto which = static_cast<Transposition>(i);
          visit(GemmShape{1, m, n, k, which == Transposition::Left,
                          which == Transposition::Right},
                i, at++);
        }
  }
}

} // namespace

static Error failed(const std::string &what, double seconds) {
  return Error{"calibration: " + what + " took " + std::to_string(seconds) +
               " s; expected a positive time that grows with the size"};
}

static std::string nameOf(const GemmShape &shape) {
  return "GEMM of " + std::to_string(shape.m) + " x " +
         std::to_string(shape.n) + " x " + std::to_string(shape.k);
}

/// 0 means no measurement yet. Failures are negative and thus remain least.
static void keepLeast(double &seconds, double more) {
  seconds = seconds == 0 ? more : std::min(seconds, more);
}

static double &slot(std::vector<double> &seconds, size_t at) {
  seconds.resize(std::max(seconds.size(), at + 1));
  return seconds[at];
}

static void measureOnce(const CalibrationProbe &probe,
                        const std::vector<int64_t> &sizes, Times &times) {
  keepLeast(times.launch, probe.launch());
  if (probe.scalars)
    keepLeast(times.scalars, probe.scalars());
  for (int i = 0; i < 2; ++i) {
    keepLeast(times.stream[i], probe.stream(kStreamed[i]));
    if (probe.coreStream)
      keepLeast(times.coreStream[i], probe.coreStream(kStreamed[i]));
  }
  forEachGemm(sizes, [&](const GemmShape &shape, int which, size_t at) {
    keepLeast(slot(times.gemm[which], at), probe.gemm(shape));
    if (probe.sharedGemm)
      keepLeast(slot(times.sharedGemm[which], at), probe.sharedGemm(shape));
  });
  for (int i = 0; probe.allReduce && i < 2; ++i)
    keepLeast(times.allReduce[i], probe.allReduce(kReduced[i]));
}

/// Computes `table` from the measured times of `count` simultaneous GEMMs.
static Status
fitGemms(const std::array<std::vector<double>, numTranspositions> &measured,
         double launchSeconds, double count, GemmTable &table) {
  Status status;
  forEachGemm(table.sizes, [&](const GemmShape &shape, int which, size_t at) {
    double seconds = measured[which][at] - launchSeconds;
    if (seconds <= 0 && status)
      status = failed("a " + nameOf(shape), seconds);
    table.rates[which].push_back(shape.flops() * count / seconds);
  });
  return status;
}

static Status fitGemms(const CalibrationProbe &probe, const Times &times,
                       Device &device) {
  GemmTable &measured = device.gemm.measured, &shared = device.gemm.shared;
  Status status =
      fitGemms(times.gemm, device.launchSeconds, double(probe.cores), measured);
  if (!status || !probe.sharedGemm)
    return status;
  shared.sizes = measured.sizes;
  return fitGemms(times.sharedGemm, device.launchSeconds, 1, shared);
}

/// Computes bytes per second and seconds per call from the times of two sizes.
static Status fitLine(const std::string &what, const double (&bytes)[2],
                      const double (&seconds)[2], double &bytesPerSecond,
                      double &latency) {
  if (seconds[0] <= 0 || seconds[1] <= seconds[0])
    return failed(what, seconds[1]);
  bytesPerSecond = (bytes[1] - bytes[0]) / (seconds[1] - seconds[0]);
  latency = std::max(0.0, seconds[0] - bytes[0] / bytesPerSecond);
  return Status();
}

static Status fitKernels(const CalibrationProbe &probe, const Times &times,
                         Device &device) {
  double ignored = 0;
  Status status = fitLine("streaming", kStreamed, times.stream,
                          device.memoryBytesPerSecond, ignored);
  if (status && probe.coreStream)
    status = fitLine("streaming by one core", kStreamed, times.coreStream,
                     device.coreBytesPerSecond, ignored);
  if (!status || !probe.scalars)
    return status;
  if (times.scalars <= 0)
    return failed("an elementwise kernel", times.scalars);
  device.scalarFlops =
      probe.scalarOperations * double(probe.cores) / times.scalars;
  return status;
}

static Status fitExchange(const Times &times, Device &device) {
  // An all_reduce of two ranks takes 2 * (latency + bytes / 2 / bandwidth).
  Status status =
      fitLine("an all_reduce of two ranks", kReduced, times.allReduce,
              device.exchangeBytesPerSecond, device.exchangeLatencySeconds);
  device.exchangeLatencySeconds /= 2;
  return status;
}

static Expected<Device> fitAll(const CalibrationProbe &probe) {
  Device device;
  std::vector<int64_t> &sizes = device.gemm.measured.sizes;
  sizes = {32, 128, 512, 2048};
  Times times;
  for (int pass = 0; pass < kPasses; ++pass)
    measureOnce(probe, sizes, times);
  device.launchSeconds = times.launch;
  if (device.launchSeconds <= 0)
    return failed("an empty kernel", device.launchSeconds);
  Status status = fitKernels(probe, times, device);
  if (status)
    status = fitGemms(probe, times, device);
  if (status && probe.allReduce)
    status = fitExchange(times, device);
  if (!status)
    return Error{status.message()};
  return device;
}

static ordered_json constant(double value, const std::string &source) {
  return {{"value", value}, {"source", source}};
}

static double peakOf(const GemmTable &table) {
  double peak = 0;
  for (const std::vector<double> &rates : table.rates)
    peak = std::max(peak, *std::ranges::max_element(rates));
  return peak;
}

static ordered_json tableJson(const GemmTable &table,
                              const std::string &source) {
  ordered_json rates = {{"source", source}, {"sizes", table.sizes}};
  for (int i = 0; i < numTranspositions; ++i) {
    std::vector<double> giga;
    for (double rate : table.rates[i])
      giga.push_back(std::round(rate / 1e7) / 100);
    rates[std::string(stringify(static_cast<Transposition>(i)))] =
        std::move(giga);
  }
  return rates;
}

/// A device file must have the constants of the GEMM formula (ComputeCost.h),
/// although the measured tables replace them.
static ordered_json gemmJson(const GemmModel &gemm,
                             const std::string &measured) {
  const std::string unused = "not used: GEMMs were measured";
  ordered_json json = {{"peak_fraction", constant(1, unused)},
                       {"tile_m", constant(16, unused)},
                       {"tile_n", constant(16, unused)},
                       {"half_k", constant(0, unused)},
                       {"align_bytes", constant(1, unused)},
                       {"misaligned_fraction", constant(1, unused)}};
  json["measured_gigaflops"] = tableJson(
      gemm.measured, measured + ": every core runs its own GEMM, all at once");
  if (!gemm.shared.empty())
    json["shared_gigaflops"] =
        tableJson(gemm.shared, measured + ": one GEMM on all cores");
  return json;
}

Expected<std::string> calibrateDevice(const CalibrationProbe &probe) {
  assert(probe.gemm && probe.stream && probe.launch && "a complete probe");
  if (probe.memoryBytes <= 0 || probe.cores < 1)
    return Error{"calibration: a machine of " +
                 std::to_string(probe.memoryBytes) + " bytes and " +
                 std::to_string(probe.cores) + " cores; expected both > 0"};
  Expected<Device> device = fitAll(probe);
  if (!device)
    return Error{device.message()};
  std::string measured = "measured on " + probe.machine;
  constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
  double reserved = std::min(0.5, probe.memoryBytes / gibi / 16);
  ordered_json json = {
      {"version", 1},
      {"name", "cpu-local"},
      {"peak_teraflops",
       {{"f32", constant(peakOf(device->gemm.measured) / 1e12,
                         measured + ": the fastest GEMM")}}},
      {"memory_gibibytes", constant(probe.memoryBytes / gibi, measured)},
      {"memory_gigabytes_per_second",
       constant(device->memoryBytesPerSecond / 1e9,
                measured + ": 32 to 256 MiB")},
      {"memory_fraction", constant(1, "the bandwidth is measured")},
      {"memory_reserved_gibibytes",
       constant(reserved, "estimate: operating system and process")},
      {"multiprocessors", constant(double(probe.cores), measured)},
      {"launch_microseconds", constant(device->launchSeconds * 1e6, measured)}};
  if (device->coreBytesPerSecond > 0)
    json["core_memory_gigabytes_per_second"] = constant(
        device->coreBytesPerSecond / 1e9, measured + ": one core alone");
  if (device->scalarFlops > 0)
    json["scalar_gigaflops"] =
        constant(device->scalarFlops / 1e9,
                 measured + ": gelu and its gradient, all cores");
  if (probe.allReduce) {
    json["exchange_gigabytes_per_second"] =
        constant(device->exchangeBytesPerSecond / 1e9,
                 measured + ": all_reduce of 16 MiB");
    json["exchange_latency_microseconds"] =
        constant(device->exchangeLatencySeconds * 1e6,
                 measured + ": all_reduce of 4 KiB");
  }
  json["gemm"] = gemmJson(device->gemm, measured);
  return json.dump(2) + "\n";
}

std::string calibrationLine(const std::string &what, double value,
                            const std::string &unit) {
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "  %-30s %8.4g %s\n", what.c_str(),
                value, unit.c_str());
  return line.data();
}

Expected<std::string> describeCalibration(const std::string &text) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  Expected<Device> device = parseDevice(json, "calibration");
  if (!device)
    return Error{device.message()};
  std::string table = "calibrated, all " +
                      std::to_string(device->multiprocessors) +
                      " cores together:\n";
  for (int64_t size : device->gemm.measured.sizes) {
    GemmShape shape{1, size, size, size};
    table += calibrationLine(
        nameOf(shape), device->gemm.measured.rate(shape) / 1e9, "GFLOP/s");
  }
  if (const GemmTable &shared = device->gemm.shared; !shared.empty())
    table +=
        calibrationLine("one GEMM of 2048 x 2048 x 2048",
                        shared.rate({1, 2048, 2048, 2048}) / 1e9, "GFLOP/s");
  table +=
      calibrationLine("memory", device->memoryBytesPerSecond / 1e9, "GB/s");
  if (device->coreBytesPerSecond > 0)
    table += calibrationLine("memory of one core",
                             device->coreBytesPerSecond / 1e9, "GB/s");
  if (device->scalarFlops > 0)
    table += calibrationLine("elementwise kernels", device->scalarFlops / 1e9,
                             "GFLOP/s");
  table += calibrationLine("kernel call", device->launchSeconds * 1e9, "ns");
  if (device->exchangeBytesPerSecond > 0)
    table += calibrationLine("exchange of two ranks",
                             device->exchangeBytesPerSecond / 1e9, "GB/s") +
             calibrationLine("", device->exchangeLatencySeconds * 1e6,
                             "us at least");
  return table;
}

} // namespace dpc::cost
