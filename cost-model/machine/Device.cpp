//===- Device.cpp - Device files ------------------------------------------===//

#include "cost-model/machine/Cluster.h"
#include "cost-model/machine/DataFolder.h"
#include "runtime/base/Json.h"

namespace dpc::cost {

using nlohmann::json;

static constexpr double tera = 1e12;
static constexpr double giga = 1e9;
static constexpr double gibi = 1024.0 * 1024.0 * 1024.0;
static constexpr double micro = 1e-6;
static constexpr std::array<std::string_view, numDTypes> dtypeNames = {
    "f64", "f32", "bf16", "f16", "fp8"};

std::string_view stringifyDType(DType type) {
  return dtypeNames[static_cast<size_t>(type)];
}

std::string_view precisionOf(DType type) {
  switch (type) {
  case DType::F64:
    return "fp64";
  case DType::F32:
    return "fp32";
  case DType::F16:
    return "fp16";
  default:
    return stringifyDType(type);
  }
}

std::optional<DType> symbolizeDType(std::string_view name) {
  if (name == "fp64")
    return DType::F64;
  if (name == "fp32")
    return DType::F32;
  if (name == "fp16")
    return DType::F16;
  for (int i = 0; i < numDTypes; ++i)
    if (dtypeNames[i] == name)
      return static_cast<DType>(i);
  return std::nullopt;
}

int64_t bytesPerElement(DType type) {
  switch (type) {
  case DType::F64:
    return 8;
  case DType::F32:
    return 4;
  case DType::BF16:
  case DType::F16:
    return 2;
  case DType::FP8:
    return 1;
  }
  assert(false && "unknown DType");
  return 0;
}

namespace {

/// Reads constants of the form {"value": number, "source": string}.
class ConstantReader {
public:
  ConstantReader(JsonFields &fields, JsonErrors &errors)
      : fields(fields), errors(errors) {}

  void number(const std::string &key, double &out, const NumberRange &range,
              double scale = 1.0) {
    if (const json *entry = fields.required(key, form)) {
      JsonFields inner(*entry, fields.path(key), errors);
      inner.number("value", out, range, scale);
      inner.string("source", source);
      inner.finish();
    }
  }

  void integer(const std::string &key, int64_t &out) {
    if (const json *entry = fields.required(key, form)) {
      JsonFields inner(*entry, fields.path(key), errors);
      inner.integer("value", out, 1, 1 << 24);
      inner.string("source", source);
      inner.finish();
    }
  }

private:
  static constexpr const char *form =
      "an object {\"value\": number, \"source\": string}";
  JsonFields &fields;
  JsonErrors &errors;
  std::string source;
};

} // namespace

static void readPeaks(const json &entry, const std::string &where,
                      Device &device, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  ConstantReader reader(fields, errors);
  for (int i = 0; i < numDTypes; ++i) {
    std::string key(dtypeNames[i]);
    // f32 is what every device falls back on; the others may be absent.
    if (key == "f32" || fields.has(key))
      reader.number(key, device.peakFlops[i], positive, tera);
    else
      fields.optional(key);
  }
  fields.finish();
}

/// {"source", "sizes": [...], "nn": [...], "nt": [...], "tn": [...]}.
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
    std::string key(stringifyTransposition(static_cast<Transposition>(i)));
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
  ConstantReader reader(fields, errors);
  reader.number("peak_fraction", gemm.peakFraction, fraction);
  reader.integer("tile_m", gemm.tileM);
  reader.integer("tile_n", gemm.tileN);
  if (fields.has("operand_cost"))
    reader.number("operand_cost", gemm.operandCost, nonNegative);
  if (fields.has("ramp_microseconds"))
    reader.number("ramp_microseconds", gemm.rampSeconds, nonNegative, micro);
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

Expected<Device> parseDevice(const json &root, const std::string &where) {
  JsonErrors errors;
  Device device;
  int64_t version = 0;
  JsonFields fields(root, where, errors);
  ConstantReader reader(fields, errors);
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
  if (fields.has("scalar_gigaflops"))
    reader.number("scalar_gigaflops", device.scalarFlops, positive, giga);
  if (fields.has("core_memory_gigabytes_per_second"))
    reader.number("core_memory_gigabytes_per_second", device.coreBytesPerSecond,
                  positive, giga);
  // Devices without kernels for it run attention as the plan has it.
  if (fields.has("attention_forward_fraction")) {
    reader.number("attention_forward_fraction", device.attentionForward,
                  fraction);
    reader.number("attention_backward_fraction", device.attentionBackward,
                  fraction);
  }
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
