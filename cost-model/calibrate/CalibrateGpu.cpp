//===- CalibrateGpu.cpp - A device file for a measured GPU ----------------===//

#include "cost-model/calibrate/CalibrateGpu.h"
#include "cost-model/calibrate/Calibrate.h"

#include "runtime/base/Json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <map>

namespace dpc::cost {

using nlohmann::json;
using nlohmann::ordered_json;

static constexpr double kGibi = 1024.0 * 1024.0 * 1024.0;

static void readGemm(const json &entry, const std::string &where,
                     GpuMeasurements &found, JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  MeasuredGemm gemm;
  std::string type;
  constexpr int64_t most = int64_t(1) << 40;
  fields.string("type", type);
  fields.integer("m", gemm.shape.m, 1, most);
  fields.integer("n", gemm.shape.n, 1, most);
  fields.integer("k", gemm.shape.k, 1, most);
  fields.optionalBoolean("trans_a", gemm.shape.transA);
  fields.optionalBoolean("trans_b", gemm.shape.transB);
  fields.number("seconds", gemm.seconds, positive);
  fields.finish();
  std::optional<DType> known = symbolizeDType(type);
  if (!errors && !known)
    errors.report(fields.path("type"), "value " + type,
                  "f64, f32, bf16, f16 or fp8");
  if (errors)
    return;
  gemm.type = *known;
  found.gemms.push_back(gemm);
}

static void readBytes(const json &entry, const std::string &where,
                      bool isOfHost, GpuMeasurements &found,
                      JsonErrors &errors) {
  JsonFields fields(entry, where, errors);
  MeasuredBytes one;
  bool isTo = false;
  fields.number("bytes", one.bytes, positive);
  fields.number("seconds", one.seconds, positive);
  if (isOfHost)
    fields.optionalBoolean("to_device", isTo);
  fields.finish();
  (!isOfHost ? found.streams
   : isTo    ? found.toDevice
             : found.fromDevice)
      .push_back(one);
}

Expected<GpuMeasurements> parseGpuMeasurements(const std::string &text,
                                               const std::string &file) {
  Expected<json> root = parseJson(text, file);
  if (!root)
    return Error{root.message()};
  JsonErrors errors;
  JsonFields fields(*root, file, errors);
  GpuMeasurements found;
  int64_t version = 0;
  fields.integer("device_measurements", version, 1, 1);
  fields.string("name", found.name);
  fields.string("libraries", found.libraries);
  fields.number("memory_bytes", found.memoryBytes, positive);
  fields.number("reserved_bytes", found.reservedBytes, nonNegative);
  fields.integer("multiprocessors", found.multiprocessors, 1, 1 << 24);
  fields.number("launch_seconds", found.launchSeconds, positive);
  auto each = [&](const char *key, auto &&read) {
    const json *list = fields.array(key, "an array of measurements");
    for (size_t i = 0; list && i < list->size() && !errors; ++i)
      read((*list)[i], fields.path(key) + "[" + std::to_string(i) + "]");
  };
  each("products", [&](const json &entry, const std::string &where) {
    readGemm(entry, where, found, errors);
  });
  each("streams", [&](const json &entry, const std::string &where) {
    readBytes(entry, where, false, found, errors);
  });
  each("host_copies", [&](const json &entry, const std::string &where) {
    readBytes(entry, where, true, found, errors);
  });
  fields.finish();
  if (!errors && found.reservedBytes >= found.memoryBytes)
    errors.report(fields.path("reserved_bytes"),
                  "nothing is left of the memory", "less than memory_bytes");
  if (errors)
    return Error{errors.status().message()};
  return found;
}

/// "NVIDIA A100-SXM4-80GB" -> nvidia, a100, sxm4, 80gb
static std::vector<std::string> wordsOf(const std::string &name) {
  std::vector<std::string> words(1);
  for (char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)))
      words.back() +=
          static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else
      words.emplace_back();
  return words;
}

std::string knownGpu(const GpuMeasurements &measured) {
  std::vector<std::string> words = wordsOf(measured.name);
  constexpr double kMostOff = 0.1;
  std::string best;
  double least = kMostOff;
  for (const std::string &name : knownDevices()) {
    Expected<Device> device = loadDevice(name);
    std::string model = wordsOf(name).front();
    if (!device || device->multiprocessors != measured.multiprocessors ||
        std::ranges::find(words, model) == words.end())
      continue;
    double off = std::abs(device->memoryBytes / measured.memoryBytes - 1);
    if (off < least) {
      least = off;
      best = name;
    }
  }
  return best;
}

/// Returns the bandwidth for the largest buffer, where launches matter least.
static double rateOf(const std::vector<MeasuredBytes> &measured) {
  auto largest = std::ranges::max_element(measured, {}, &MeasuredBytes::bytes);
  return largest == measured.end() ? 0 : largest->bytes / largest->seconds;
}

namespace {

/// A constant to fit, its range, and its start if the device file has no value.
struct FittedConstant {
  double GemmModel::*member;
  double least, most, start;
};

constexpr FittedConstant fittedConstants[] = {
    {&GemmModel::peakFraction, 0.05, 1, 0.7},
    {&GemmModel::operandCost, 0.1, 200, 16},
    {&GemmModel::rampSeconds, 1e-8, 1e-4, 5e-6},
    {&GemmModel::halfK, 0.5, 4000, 100},
    {&GemmModel::misalignedFraction, 0.1, 1, 0.7}};

} // namespace

/// Returns ln(predicted / measured) of each GEMM of `type`.
static std::vector<double> errorsOf(const Device &device, DType type,
                                    const std::vector<MeasuredGemm> &gemms) {
  std::vector<double> errors;
  for (const MeasuredGemm &gemm : gemms)
    if (gemm.type == type)
      errors.push_back(
          std::log(gemmSeconds(device, type, gemm.shape) / gemm.seconds));
  return errors;
}

static double meanSquare(const std::vector<double> &values) {
  double sum = 0;
  for (double value : values)
    sum += value * value;
  return sum / static_cast<double>(values.size());
}

/// Runs the pattern search, which tries a step along each constant in turn and
/// halves the steps if none of them is better.
static void fitGemm(Device &device, DType type,
                    const std::vector<MeasuredGemm> &gemms) {
  constexpr double kFirstStep = 0.4, kLastStep = 0.002;
  for (const FittedConstant &each : fittedConstants)
    device.gemm.*each.member = std::clamp(
        device.gemm.*each.member > 0 ? device.gemm.*each.member : each.start,
        each.least, each.most);
  double best = meanSquare(errorsOf(device, type, gemms));
  for (double step = kFirstStep; step > kLastStep;) {
    bool isBetter = false;
    for (const FittedConstant &each : fittedConstants)
      for (double factor : {std::exp(step), std::exp(-step)}) {
        double &value = device.gemm.*each.member;
        double before = value;
        value = std::clamp(value * factor, each.least, each.most);
        double now = meanSquare(errorsOf(device, type, gemms));
        isBetter |= now < best;
        if (now < best)
          best = now;
        else
          value = before;
      }
    if (!isBetter)
      step /= 2;
  }
}

static DType typeToFit(const std::vector<MeasuredGemm> &gemms) {
  std::map<DType, int> counts;
  for (const MeasuredGemm &gemm : gemms)
    ++counts[gemm.type];
  if (counts.count(DType::BF16))
    return DType::BF16;
  return std::ranges::max_element(
             counts, {}, [](const auto &entry) { return entry.second; })
      ->first;
}

static Device unknownDevice(const GpuMeasurements &measured) {
  Device device;
  for (const MeasuredGemm &gemm : measured.gemms) {
    double &peak = device.peakFlops[static_cast<int>(gemm.type)];
    peak = std::max(peak, gemm.shape.flops() / gemm.seconds);
  }
  double &f32 = device.peakFlops[static_cast<int>(DType::F32)];
  if (f32 == 0)
    f32 = std::ranges::max(device.peakFlops);
  device.memoryBytesPerSecond = rateOf(measured.streams);
  device.gemm.tileM = 256;
  device.gemm.tileN = 128;
  device.gemm.alignBytes = 128;
  return device;
}

static ordered_json constant(double value, const std::string &source) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return {{"value", std::strtod(text, nullptr)}, {"source", source}};
}

/// Returns the device file, with keys in the order of other device files. Keys
/// without a measurement come from `base`, a known device file or null.
static ordered_json toJson(const Device &device, const json &base,
                           const std::string &measured,
                           const std::string &fitted) {
  ordered_json out = {{"version", 1}, {"name", device.name}};
  auto take = [&](const char *key, const ordered_json &otherwise) {
    if (base.is_object() && base.contains(key))
      out[key] = base[key];
    else if (!otherwise.is_null())
      out[key] = otherwise;
  };
  ordered_json peaks;
  for (int i = 0; i < numDTypes; ++i)
    if (device.peakFlops[i] > 0)
      peaks[std::string(stringify(static_cast<DType>(i)))] =
          constant(device.peakFlops[i] / 1e12, measured + ": fastest GEMM");
  take("compute_capability", nullptr);
  take("peak_teraflops", peaks);
  out["memory_gibibytes"] = constant(device.memoryBytes / kGibi, measured);
  take("memory_gigabytes_per_second",
       constant(device.memoryBytesPerSecond / 1e9,
                measured + ": copies on the device"));
  out["memory_fraction"] =
      constant(device.memoryFraction, measured + ": copies on the device");
  out["memory_reserved_gibibytes"] =
      constant(device.memoryReservedBytes / kGibi,
               measured + ": context and workspaces");
  out["multiprocessors"] =
      constant(static_cast<double>(device.multiprocessors), measured);
  out["launch_microseconds"] =
      constant(device.launchSeconds * 1e6, measured + ": kernels of a graph");
  take("attention_forward_fraction", nullptr);
  take("attention_backward_fraction", nullptr);
  take("cudnn_attention", nullptr);
  auto tile = [&](const char *key, int64_t value) {
    bool isKnown = base.is_object();
    return isKnown ? ordered_json(base["gemm"][key])
                   : constant(static_cast<double>(value),
                              "estimate: the largest tile of cuBLAS");
  };
  out["gemm"] = {
      {"peak_fraction", constant(device.gemm.peakFraction, fitted)},
      {"tile_m", tile("tile_m", device.gemm.tileM)},
      {"tile_n", tile("tile_n", device.gemm.tileN)},
      {"operand_cost", constant(device.gemm.operandCost, fitted)},
      {"ramp_microseconds", constant(device.gemm.rampSeconds * 1e6, fitted)},
      {"half_k", constant(device.gemm.halfK, fitted)},
      {"align_bytes", tile("align_bytes", device.gemm.alignBytes)},
      {"misaligned_fraction",
       constant(device.gemm.misalignedFraction, fitted)}};
  return out;
}

static std::string nameOf(const GemmShape &shape) {
  return std::to_string(shape.m) + " x " + std::to_string(shape.n) + " x " +
         std::to_string(shape.k);
}

static std::string tableOf(const GpuMeasurements &measured,
                           const Device &device, DType type) {
  std::string table = "calibrated, " + measured.name + ":\n";
  double peak = device.peak(type);
  std::string typeName(stringify(type));
  size_t worst = 0;
  std::vector<double> errors = errorsOf(device, type, measured.gemms);
  std::vector<const MeasuredGemm *> fitted;
  for (const MeasuredGemm &gemm : measured.gemms) {
    const GemmShape &shape = gemm.shape;
    if (gemm.type == type)
      fitted.push_back(&gemm);
    if (gemm.type == type && shape.m == shape.n && shape.n == shape.k)
      table += calibrationLine(
          "GEMM of " + nameOf(shape), shape.flops() / gemm.seconds / 1e12,
          "TFLOP/s in " + typeName + ", " +
              std::to_string(
                  std::lround(100 * shape.flops() / gemm.seconds / peak)) +
              " % of the peak");
  }
  double sum = 0;
  for (size_t i = 0; i < errors.size(); ++i) {
    sum += std::abs(std::expm1(errors[i]));
    if (std::abs(errors[i]) > std::abs(errors[worst]))
      worst = i;
  }
  table += calibrationLine(
      "the formula is off by", 100 * sum / static_cast<double>(errors.size()),
      "% in the mean of " + std::to_string(errors.size()) + " GEMMs");
  table += calibrationLine("at most", 100 * std::abs(std::expm1(errors[worst])),
                           "% (" + nameOf(fitted[worst]->shape) + ")");
  table += calibrationLine("memory", achievableBandwidth(device) / 1e9, "GB/s");
  if (double rate = rateOf(measured.toDevice))
    table += calibrationLine("from the host", rate / 1e9, "GB/s");
  if (double rate = rateOf(measured.fromDevice))
    table += calibrationLine("to the host", rate / 1e9, "GB/s");
  return table +
         calibrationLine("kernel of a graph", device.launchSeconds * 1e6, "us");
}

Expected<GpuCalibration> calibrateGpu(const GpuMeasurements &measured) {
  std::string known = knownGpu(measured);
  Device device = unknownDevice(measured);
  json base;
  if (!known.empty()) {
    Expected<json> file = loadDeviceFile(known);
    Expected<Device> loaded = loadDevice(known);
    if (!file || !loaded)
      return Error{file ? loaded.message() : file.message()};
    base = *file;
    device = *loaded;
  }
  std::vector<std::string> words = wordsOf(measured.name);
  device.name = known;
  for (size_t i = 0; known.empty() && i < words.size(); ++i)
    device.name += (i > 0 ? "-" : "") + words[i];
  device.memoryBytes = measured.memoryBytes;
  device.memoryReservedBytes = measured.reservedBytes;
  device.multiprocessors = measured.multiprocessors;
  device.launchSeconds = measured.launchSeconds;
  device.memoryFraction =
      std::min(1.0, rateOf(measured.streams) / device.memoryBytesPerSecond);
  DType type = typeToFit(measured.gemms);
  if (device.peak(type) <= 0)
    return Error{"calibration: " + known + " has no peak for " +
                 std::string(stringify(type)) +
                 ", the type of the measured GEMMs; expected another type"};
  fitGemm(device, type, measured.gemms);
  std::string source =
      "measured on " + measured.name + " with " + measured.libraries;
  size_t count = errorsOf(device, type, measured.gemms).size();
  std::string fitted = source + ": fitted to " + std::to_string(count) +
                       " GEMMs in " + std::string(stringify(type));
  return GpuCalibration{toJson(device, base, source, fitted).dump(2) + "\n",
                        tableOf(measured, device, type)};
}

} // namespace dpc::cost
