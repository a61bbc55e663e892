#include "cost-model/calibrate/LinkMeasurements.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

using namespace dpc;
using namespace dpc::cost;
using testing::HasSubstr;

namespace {

Cluster twoNodes(double inner, double innerLatency, double outer,
                 double outerLatency) {
  Cluster cluster;
  cluster.name = "two nodes";
  cluster.groups.push_back(NodeGroup{2, 4, Device{}});
  cluster.levels = {{.name = "nvlink",
                     .span = 4,
                     .bytesPerSecond = inner,
                     .latencySeconds = innerLatency},
                    {.name = "network",
                     .span = 8,
                     .bytesPerSecond = outer,
                     .latencySeconds = outerLatency,
                     .kind = LinkKind::FatTree}};
  return cluster;
}

std::string table(const Cluster &cluster, const GroupPlacement &group,
                  int hosts, Collective kind = Collective::AllReduce,
                  const char *name = "all_reduce_perf") {
  std::string text = std::string("# Collective test starting: ") + name +
                     "\n# nThread 1 nGpus 1 minBytes 8\n";
  for (int64_t rank = 0; rank < group.size(); ++rank)
    text += "#  Rank  " + std::to_string(rank) + " Group  0 Pid 17 on   host-" +
            std::to_string(rank * hosts / group.size()) +
            " device  0 [0000:07:00] A100\n";
  text += "#                             out-of-place\n"
          "#       size         count      type   redop    root     time   "
          "algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
          "#        (B)    (elements)                               (us)\n";
  for (double bytes : {8.0, 1024.0, 1048576.0, 268435456.0}) {
    char row[200];
    std::snprintf(
        row, sizeof row, "%.0f 1 float sum -1 %.4f 1.0 1.0 0 99999 1.0 1.0 0\n",
        bytes, 1e6 * estimateCollective(cluster, kind, bytes, group).seconds);
    text += row;
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 3\n";
}

LinkMeasurement parsed(const std::string &text, const std::string &file) {
  Expected<LinkMeasurement> result = parseLinkMeasurement(text, file);
  EXPECT_TRUE(result) << (result ? "" : result.message());
  return result ? *result : LinkMeasurement{};
}

std::string refusal(const std::string &text) {
  Expected<LinkMeasurement> result = parseLinkMeasurement(text, "nccl.txt");
  EXPECT_FALSE(result);
  return result ? "" : result.message();
}

} // namespace

TEST(LinkMeasurements, RecoversTheLevels) {
  Cluster truth = twoNodes(240e9, 4e-6, 21e9, 13e-6);
  Cluster found = twoNodes(300e9, 1e-6, 25e9, 5e-6);
  GroupPlacement node{{4, 1}}, both{{4, 2}};
  // The inner level is fitted first, although its measurement is the last one.
  ASSERT_TRUE(
      applyLinkMeasurements(found, {parsed(table(truth, both, 2), "b"),
                                    parsed(table(truth, node, 1), "a")}));
  EXPECT_NEAR(found.levels[0].bytesPerSecond, 240e9, 240e9 * 1e-3);
  EXPECT_NEAR(found.levels[0].latencySeconds, 4e-6, 4e-8);
  EXPECT_NEAR(found.levels[1].bytesPerSecond, 21e9, 21e9 * 1e-3);
  EXPECT_NEAR(found.levels[1].latencySeconds, 13e-6, 13e-8);
}

TEST(LinkMeasurements, AllGatherWithOneRankPerNode) {
  Cluster truth = twoNodes(240e9, 4e-6, 21e9, 13e-6);
  Cluster found = twoNodes(240e9, 4e-6, 25e9, 5e-6);
  GroupPlacement across{{1, 2}};
  LinkMeasurement measured =
      parsed(table(truth, across, 2, Collective::AllGather, "all_gather_perf"),
             "gather");
  EXPECT_EQ(measured.kind, Collective::AllGather);
  EXPECT_EQ(measured.ranks, 2);
  EXPECT_EQ(measured.hosts, 2);
  ASSERT_TRUE(applyLinkMeasurements(found, {measured}));
  EXPECT_NEAR(found.levels[1].bytesPerSecond, 21e9, 21e9 * 1e-3);
  EXPECT_DOUBLE_EQ(found.levels[0].bytesPerSecond, 240e9);
}

// Four pairs of devices in two nodes communicate at the same time. The fitted
// bandwidth is the bandwidth of one device.
TEST(LinkMeasurements, SimultaneousGroups) {
  Cluster truth = twoNodes(240e9, 4e-6, 21e9, 13e-6);
  Cluster found = twoNodes(240e9, 4e-6, 25e9, 5e-6);
  std::string text = table(truth, {{1, 2}}, 2);
  for (int pair = 1; pair < 4; ++pair)
    for (const char *host : {"node0", "node1"})
      text += "#  Rank  9 Group  " + std::to_string(pair) + " Pid 4 on " +
              host + " device  1 [0x1] H100\n";
  LinkMeasurement measured = parsed(text, "pairs");
  EXPECT_EQ(measured.ranks, 2);
  EXPECT_EQ(measured.hosts, 2);
  ASSERT_TRUE(applyLinkMeasurements(found, {measured}));
  EXPECT_NEAR(found.levels[1].bytesPerSecond, 21e9, 21e9 * 1e-3);
  EXPECT_DOUBLE_EQ(found.levels[0].bytesPerSecond, 240e9);
  text += "#  Rank  9 Group  9 Pid 4 on node0 device  1 [0x1] H100\n";
  EXPECT_THAT(refusal(text), HasSubstr("group 9 has 1 ranks on 1 hosts, but"));
}

TEST(LinkMeasurements, ErrorsAreOneLine) {
  Cluster cluster = twoNodes(1e9, 1e-6, 1e9, 1e-6);
  std::string good = table(cluster, {{4, 1}}, 1);
  auto without = [&](const std::string &part) {
    std::string text = good;
    for (size_t at; (at = text.find(part)) != std::string::npos;)
      text.erase(at, text.find('\n', at) + 1 - at);
    return text;
  };
  EXPECT_THAT(refusal(without("#  Rank")), HasSubstr("names 0 ranks"));
  EXPECT_THAT(refusal(without("# Collective")),
              HasSubstr("does not name the collective"));
  EXPECT_THAT(refusal(without("1048576 ").erase(0, 0) + "# x\n1 2\n"),
              HasSubstr("row of size 1 has no time"));
  EXPECT_THAT(refusal(table(cluster, {{4, 1}}, 1, Collective::AllReduce,
                            "alltoall_perf")),
              HasSubstr("'alltoall_perf'"));
  EXPECT_THAT(refusal(""), HasSubstr("names 0 ranks"));
  LinkMeasurement large = parsed(good, "large.txt");
  large.ranks = 64;
  Status status = applyLinkMeasurements(cluster, {large});
  ASSERT_FALSE(status);
  EXPECT_THAT(status.message(),
              HasSubstr("large.txt: the measurement has 64 ranks"));
}
