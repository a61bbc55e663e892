//===- MeasureCollectives.cpp - measured times of collectives -------------===//
#include "runtime/comm/MeasureCollectives.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

namespace dpc::rt {

using Clock = std::chrono::steady_clock;

/// Returns how long an all_reduce takes on the slowest rank.
static Expected<double> timeOnce(Communicator &comm, std::vector<float> &data,
                                 int group) {
  DPC_TRY(comm.barrier(kWorldGroup));
  Clock::time_point start = Clock::now();
  DPC_TRY(comm.allReduce(group, data.data(), static_cast<int64_t>(data.size()),
                         DType::F32, ReduceKind::Sum));
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  DPC_TRY(
      comm.allReduce(kWorldGroup, &seconds, 1, DType::F64, ReduceKind::Max));
  return seconds;
}

Expected<CollectiveSample> measureAllReduce(Communicator &comm, int64_t bytes,
                                            int group) {
  assert(bytes >= 4 && bytes % 4 == 0 && "f32 elements");
  constexpr double secondsInAll = 0.5;
  std::vector<float> data(bytes / sizeof(float), 0.0f);
  // The first run opens connections and loads pages. Its time, which is equal
  // on all ranks, determines how many runs are measured.
  DPC_ASSIGN(double first, timeOnce(comm, data, group));
  int runs = static_cast<int>(
      std::clamp(secondsInAll / std::max(first, 1e-6), 3.0, 50.0));
  std::vector<double> times;
  for (int i = 0; i < runs; ++i) {
    DPC_ASSIGN(double seconds, timeOnce(comm, data, group));
    times.push_back(seconds);
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  return CollectiveSample{bytes, times[runs / 2]};
}

static std::string line(const char *format, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::vector<std::vector<int>>
peersAcrossHosts(const std::vector<std::string> &hosts) {
  std::map<std::string, size_t> ranksOf;
  std::vector<std::vector<int>> groups;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    size_t place = ranksOf[hosts[rank]]++;
    groups.resize(std::max(groups.size(), place + 1));
    groups[place].push_back(static_cast<int>(rank));
  }
  bool isWorld = groups.size() < 2 || ranksOf.size() < 2;
  for (const auto &[host, ranks] : ranksOf)
    if (isWorld || ranks != groups.size())
      return {};
  return groups;
}

static std::vector<int>
groupOfRanks(size_t ranks, const std::vector<std::vector<int>> &groups) {
  std::vector<int> result(ranks, 0);
  for (size_t group = 0; group < groups.size(); ++group)
    for (int rank : groups[group])
      result[rank] = static_cast<int>(group);
  return result;
}

std::string formatAllReduce(const std::vector<CollectiveSample> &samples,
                            const std::vector<std::string> &hosts,
                            const std::vector<std::vector<int>> &groups) {
  std::vector<int> groupOf = groupOfRanks(hosts.size(), groups);
  std::string text = "# Collective test starting: all_reduce_perf\n"
                     "# Using devices\n";
  for (size_t rank = 0; rank < hosts.size(); ++rank)
    text += line("#  Rank %3zu Group %2d on %s device  0 [0] cpu\n", rank,
                 groupOf[rank], hosts[rank].substr(0, 200).c_str());
  text += "#\n#                                                              "
          "out-of-place\n"
          "#       size         count      type   redop    root     time   "
          "algbw   busbw  #wrong\n"
          "#        (B)    (elements)                               (us)  "
          "(GB/s)  (GB/s)\n";
  auto ranks =
      static_cast<double>(groups.empty() ? hosts.size() : groups[0].size());
  for (const CollectiveSample &sample : samples) {
    double algorithm = static_cast<double>(sample.bytes) / sample.seconds / 1e9;
    text += line("%12lld  %12lld     float     sum      -1  %8.2f  %6.3f  "
                 "%6.3f       0\n",
                 static_cast<long long>(sample.bytes),
                 static_cast<long long>(sample.bytes / 4), sample.seconds * 1e6,
                 algorithm, algorithm * 2 * (ranks - 1) / ranks);
  }
  return text;
}

} // namespace dpc::rt
