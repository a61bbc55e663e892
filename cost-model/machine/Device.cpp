//===- Device.cpp - Device files ------------------------------------------===//

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/DataFolder.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

using nlohmann::json;

static constexpr double tera = 1e12;
static constexpr double giga = 1e9;
static constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
static constexpr double micro = 1e-6;
static constexpr std::array<std::string_view, numDTypes> precisions = {
    "fp64", "fp32", "bf16", "fp16", "fp8"};

std::string_view precisionOf(DType type) {
  return precisions[static_cast<size_t>(type)];
}

std::optional<DType> symbolizeDType(std::string_view name) {
  const auto *it = std::ranges::find(precisions, name);
  return it == precisions.end() ? symbolize<DType>(name)
                                : static_cast<DType>(it - precisions.begin());
}

int64_t bytesPerElement(DType type) {
  constexpr std::array<int64_t, numDTypes> bytes = {8, 4, 2, 2, 1};
  return bytes[static_cast<size_t>(type)];
}

static void readPeaks(const json &entry, const std::string &where,
                      Device &device, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  SourcedFields reader(fields, errors);
  for (int i = 0; i < numDTypes; ++i) {
    std::string key(stringify(static_cast<DType>(i)));
    // f32 replaces types without a peak, so every device needs a peak for f32.
    if (key == "f32")
      reader.number(key, device.peakFlops[i], positive, tera);
    else
      reader.optionalNumber(key, device.peakFlops[i], positive, tera);
  }
  fields.finish();
}

/// Reads {"source", "sizes": [...], "nn": [...], "nt": [...], "tn": [...]}.
static void readMeasured(const json &entry, const std::string &where,
                         GemmTable &table, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  std::string source;
  fields.string("source", source);
  constexpr size_t most = 16;
  if (const json *sizes = fields.array("sizes", "rising whole numbers"))
    for (const json &size : *sizes) {
      bool rises =
          size.is_number_unsigned() && table.sizes.size() < most &&
          size.get<int64_t>() > (table.sizes.empty() ? 0 : table.sizes.back());
      if (!rises)
        return errors.report(fields.path("sizes"), showJson(*sizes),
                             "at most 16 whole numbers >= 1, rising");
      table.sizes.push_back(size.get<int64_t>());
    }
  for (int i = 0; i < numTranspositions; ++i) {
    std::string key(stringify(static_cast<Transposition>(i)));
    const json *rates = fields.array(key, "GFLOP/s");
    if (!rates)
      return;
    if (static_cast<int64_t>(rates->size()) != table.numPoints())
      return errors.report(fields.path(key),
                           std::to_string(rates->size()) + " numbers",
                           std::to_string(table.numPoints()) +
                               ", one for every m, n and k of sizes");
    for (const json &rate : *rates) {
      if (!rate.is_number() || !positive.contains(rate.get<double>()))
        return errors.report(fields.path(key), showJson(rate), positive.text);
      table.rates[i].push_back(rate.get<double>() * giga);
    }
  }
  fields.finish();
}

static void readGemm(const json &entry, const std::string &where,
                     GemmModel &gemm, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  SourcedFields reader(fields, errors);
  reader.number("peak_fraction", gemm.peakFraction, fraction);
  reader.integer("tile_m", gemm.tileM);
  reader.integer("tile_n", gemm.tileN);
  reader.optionalNumber("operand_cost", gemm.operandCost, nonNegative);
  reader.optionalNumber("ramp_microseconds", gemm.rampSeconds, nonNegative,
                        micro);
  reader.number("half_k", gemm.halfK, nonNegative);
  reader.integer("align_bytes", gemm.alignBytes);
  reader.number("misaligned_fraction", gemm.misalignedFraction, fraction);
  if (const json *measured = fields.optional("measured_gigaflops"))
    readMeasured(*measured, fields.path("measured_gigaflops"), gemm.measured,
                 errors);
  if (const json *shared = fields.optional("shared_gigaflops")) {
    readMeasured(*shared, fields.path("shared_gigaflops"), gemm.shared, errors);
    if (!errors && gemm.shared.sizes != gemm.measured.sizes)
      errors.report(fields.path("shared_gigaflops"),
                    showJson(shared->at("sizes")) + " as sizes",
                    "the sizes of measured_gigaflops");
  }
  fields.finish();
}

static void readAttention(const json &entry, const std::string &where,
                          Device &device, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  SourcedFields reader(fields, errors);
  reader.number("forward_teraflops", device.cudnnForward.flops, positive, tera);
  reader.number("forward_half_length", device.cudnnForward.halfLength,
                nonNegative);
  reader.number("backward_teraflops", device.cudnnBackward.flops, positive,
                tera);
  reader.number("backward_half_length", device.cudnnBackward.halfLength,
                nonNegative);
  fields.finish();
}

Expected<Device> parseDevice(const json &root, const std::string &where) {
  JsonErrors errors;
  Device device;
  int64_t version = 0;
  JsonFields fields(root, where, errors);
  SourcedFields reader(fields, errors);
  fields.integer("version", version, 1, 1);
  fields.string("name", device.name);
  if (const json *peaks = fields.required("peak_teraflops", "an object"))
    readPeaks(*peaks, fields.path("peak_teraflops"), device, errors);
  reader.number("memory_gibibytes", device.memoryBytes, positive, gibi);
  reader.number("memory_gigabytes_per_second", device.memoryBytesPerSecond,
                positive, giga);
  reader.number("memory_fraction", device.memoryFraction, fraction);
  reader.number("memory_reserved_gibibytes", device.memoryReservedBytes,
                nonNegative, gibi);
  reader.integer("multiprocessors", device.multiprocessors);
  reader.number("launch_microseconds", device.launchSeconds, nonNegative,
                micro);
  if (fields.has("exchange_gigabytes_per_second")) {
    reader.number("exchange_gigabytes_per_second",
                  device.exchangeBytesPerSecond, positive, giga);
    reader.number("exchange_latency_microseconds",
                  device.exchangeLatencySeconds, nonNegative, micro);
  }
  reader.optionalNumber("scalar_gigaflops", device.scalarFlops, positive, giga);
  reader.optionalNumber("core_memory_gigabytes_per_second",
                        device.coreBytesPerSecond, positive, giga);
  reader.optionalNumber("board_watts", device.boardWatts, positive);
  double capability = 0;
  reader.optionalNumber("compute_capability", capability, positive);
  device.computeCapability = std::llround(capability * 10);
  if (fields.has("attention_forward_fraction")) {
    reader.number("attention_forward_fraction", device.attentionForward,
                  fraction);
    reader.number("attention_backward_fraction", device.attentionBackward,
                  fraction);
  }
  if (const json *rates = fields.optional("cudnn_attention"))
    readAttention(*rates, fields.path("cudnn_attention"), device, errors);
  if (const json *gemm = fields.required("gemm", "an object"))
    readGemm(*gemm, fields.path("gemm"), device.gemm, errors);
  fields.finish();
  if (!errors && device.usableBytes() <= 0)
    errors.report(fields.path("memory_reserved_gibibytes"),
                  "nothing is left of the memory",
                  "less than memory_gibibytes");
  if (errors)
    return Error{errors.status().message()};
  return device;
}

static constexpr DataFolder devices{"device", "DPC_DEVICE_DIR", DPC_DEVICE_DIR};

std::vector<std::string> knownDevices() { return devices.names(); }

Expected<json> loadDeviceFile(const std::string &name) {
  auto file = devices.read(name);
  if (!file)
    return Error{file.message()};
  return file->second;
}

Expected<Device> loadDevice(const std::string &name) {
  auto file = devices.read(name);
  if (!file)
    return Error{file.message()};
  return parseDevice(file->second, file->first);
}

} // namespace dpc::cost
