#include "runtime/exec/MeasureDevice.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace dpc::rt {

using Json = nlohmann::ordered_json;

/// Adds the GEMMs of a layer: queries, keys and values; the projection after
/// attention; the feed-forward network; both gradients of its second GEMM.
static void addLayer(std::vector<GemmShape> &gemms, int64_t tokens,
                     int64_t hidden) {
  constexpr DType type = DType::BF16;
  gemms.push_back({tokens, 3 * hidden, hidden, false, true, type});
  gemms.push_back({tokens, hidden, hidden, false, true, type});
  gemms.push_back({tokens, 4 * hidden, hidden, false, true, type});
  gemms.push_back({tokens, hidden, 4 * hidden, false, true, type});
  gemms.push_back({tokens, 4 * hidden, hidden, false, false, type});
  gemms.push_back({hidden, 4 * hidden, tokens, true, false, type});
}

DeviceSchedule usualSchedule() {
  DeviceSchedule schedule;
  for (auto [tokens, hidden] : {std::pair<int64_t, int64_t>(2048, 768),
                                {8192, 768},
                                {4096, 2048},
                                {8192, 4096},
                                {4096, 8192}})
    addLayer(schedule.gemms, tokens, hidden);
  auto add = [&](int64_t m, int64_t n, int64_t k, DType type) {
    schedule.gemms.push_back({m, n, k, false, true, type});
  };
  for (int64_t size : {128, 256, 512, 1024, 2048, 4096, 8192})
    add(size, size, size, DType::BF16);
  // Few tiles with a large k, and many tiles with a small k.
  add(256, 256, 16384, DType::BF16);
  add(512, 512, 8192, DType::BF16);
  add(16384, 16384, 64, DType::BF16);
  add(8192, 8192, 128, DType::BF16);
  // Vocabularies and hidden sizes, mostly unaligned.
  add(8192, 50304, 768, DType::BF16);
  add(8192, 50257, 768, DType::BF16);
  add(8192, 3000, 1000, DType::BF16);
  add(4096, 6100, 2100, DType::BF16);
  add(2048, 1600, 1600, DType::BF16);
  for (DType type : {DType::F16, DType::F32})
    for (int64_t size : {1024, 4096, 8192})
      add(size, size, size, type);
  schedule.streamBytes = {int64_t(64) << 20, int64_t(512) << 20};
  schedule.copyBytes = {int64_t(16) << 20, int64_t(128) << 20};
  return schedule;
}

namespace {

/// Seconds, by measurement and pass.
struct Times {
  std::vector<std::vector<double>> gemms, streams, to, from;
  std::vector<double> launch;

  explicit Times(const DeviceSchedule &schedule)
      : gemms(schedule.gemms.size()), streams(schedule.streamBytes.size()),
        to(schedule.copyBytes.size()), from(schedule.copyBytes.size()) {}
};

double medianOf(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

/// Appends a measurement to `times`. Fails if `seconds` is not positive.
Status keep(std::vector<double> &times, Expected<double> seconds,
            const std::string &what) {
  if (!seconds)
    return seconds.status();
  if (!(*seconds > 0))
    return Status::io("measuring ", what, ": it took ", *seconds,
                      " s; expected more than 0");
  times.push_back(*seconds);
  return Status::success();
}

std::string describe(const GemmShape &shape) {
  return concat("a GEMM of ", shape.m, " x ", shape.k, " by ", shape.k, " x ",
                shape.n, " (", nameOf(shape.type), ")");
}

Status measurePass(DeviceProbe &probe, const DeviceSchedule &schedule,
                   Times &times) {
  DPC_TRY(keep(times.launch, probe.launch(), "launches"));
  for (size_t i = 0; i < schedule.gemms.size(); ++i) {
    const GemmShape &shape = schedule.gemms[i];
    Expected<double> seconds = probe.gemm(shape);
    if (!seconds && seconds.status().code() == StatusCode::Unsupported)
      continue;
    DPC_TRY(keep(times.gemms[i], std::move(seconds), describe(shape)));
  }
  for (size_t i = 0; i < schedule.streamBytes.size(); ++i)
    DPC_TRY(keep(times.streams[i], probe.stream(schedule.streamBytes[i]),
                 "copies on the device"));
  for (size_t i = 0; i < schedule.copyBytes.size(); ++i) {
    DPC_TRY(keep(times.to[i], probe.hostCopy(schedule.copyBytes[i], true),
                 "copies to the device"));
    DPC_TRY(keep(times.from[i], probe.hostCopy(schedule.copyBytes[i], false),
                 "copies from the device"));
  }
  return Status::success();
}

Json toJson(const DeviceFacts &facts, const DeviceSchedule &schedule,
            const Times &times) {
  Json json = {{"device_measurements", 1},
               {"name", facts.name},
               {"libraries", facts.libraries},
               {"memory_bytes", facts.memoryBytes},
               {"reserved_bytes", facts.reservedBytes},
               {"multiprocessors", facts.multiprocessors},
               {"launch_seconds", medianOf(times.launch)},
               {"products", Json::array()},
               {"streams", Json::array()},
               {"host_copies", Json::array()}};
  for (size_t i = 0; i < schedule.gemms.size(); ++i) {
    const GemmShape &shape = schedule.gemms[i];
    if (!times.gemms[i].empty())
      json["products"].push_back({{"type", nameOf(shape.type)},
                                  {"m", shape.m},
                                  {"n", shape.n},
                                  {"k", shape.k},
                                  {"trans_a", shape.transA},
                                  {"trans_b", shape.transB},
                                  {"seconds", medianOf(times.gemms[i])}});
  }
  for (size_t i = 0; i < schedule.streamBytes.size(); ++i)
    json["streams"].push_back({{"bytes", schedule.streamBytes[i]},
                               {"seconds", medianOf(times.streams[i])}});
  for (size_t i = 0; i < schedule.copyBytes.size(); ++i)
    for (bool isTo : {true, false})
      json["host_copies"].push_back(
          {{"bytes", schedule.copyBytes[i]},
           {"to_device", isTo},
           {"seconds", medianOf((isTo ? times.to : times.from)[i])}});
  return json;
}

} // namespace

Expected<std::string>
measureDevice(DeviceProbe &probe, const DeviceSchedule &schedule,
              const std::function<void(const std::string &)> &progress) {
  Times times(schedule);
  for (int pass = 0; pass < schedule.passes; ++pass) {
    if (progress)
      progress("pass " + std::to_string(pass + 1) + " of " +
               std::to_string(schedule.passes));
    DPC_TRY(measurePass(probe, schedule, times));
  }
  return toJson(probe.facts(), schedule, times).dump(1) + "\n";
}

} // namespace dpc::rt
