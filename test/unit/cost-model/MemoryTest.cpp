#include "cost-model/solve/PeakMemory.h"

#include <gtest/gtest.h>

#include <random>

using namespace dpc;
using namespace dpc::cost;

TEST(PeakMemory, ByHand) {
  std::vector<Buffer> buffers = {
      {100, MemoryCategory::Parameters, 0, 9},
      {64, MemoryCategory::Activations, 1, 3},
      {64, MemoryCategory::Gradients, 3, 4},
      {1, MemoryCategory::Workspace, 4, 4},
      {640, MemoryCategory::Activations, 5, 4 + 2},
  };
  MemoryPeak peak = peakMemory(buffers);
  EXPECT_EQ(peak.bytes, 128 + 640);
  EXPECT_EQ(peak.step, 5);
  EXPECT_EQ(peak.categories[MemoryCategory::Parameters], 128);
  EXPECT_EQ(peak.categories[MemoryCategory::Activations], 640);
  EXPECT_EQ(peak.categories.total(), 768);
  EXPECT_EQ(peakMemory({}).bytes, 0);
}

TEST(PeakMemory, ABufferFreedBeforeAStepDoesNotCountInIt) {
  std::vector<Buffer> buffers = {{64, MemoryCategory::Workspace, 0, 1},
                                 {64, MemoryCategory::Workspace, 2, 3}};
  EXPECT_EQ(peakMemory(buffers).bytes, 64);
  buffers[1].first = 1;
  EXPECT_EQ(peakMemory(buffers).bytes, 128);
}

static bool isValid(const std::vector<Buffer> &buffers,
                    const Packing &packing) {
  for (size_t a = 0; a < buffers.size(); ++a) {
    int64_t begin = packing.offsets[a], end = begin + buffers[a].bytes;
    if (begin < 0 || begin % arenaAlignment != 0 || end > packing.bytes)
      return false;
    for (size_t b = 0; b < a; ++b)
      if (buffers[b].first <= buffers[a].last &&
          buffers[a].first <= buffers[b].last && packing.offsets[b] < end &&
          begin < packing.offsets[b] + buffers[b].bytes)
        return false;
  }
  return true;
}

TEST(PackBuffers, ReusesDeadMemory) {
  std::vector<Buffer> buffers = {{64, MemoryCategory::Workspace, 0, 1},
                                 {60, MemoryCategory::Gradients, 1, 2},
                                 {64, MemoryCategory::Gradients, 2, 3},
                                 {64, MemoryCategory::Workspace, 4, 5},
                                 {0, MemoryCategory::Workspace, 0, 9}};
  Packing packing = packBuffers(buffers);
  EXPECT_TRUE(isValid(buffers, packing));
  EXPECT_EQ(packing.bytes, 128);
  EXPECT_EQ(packBuffers({}).bytes, 0);
}

/// Returns the buffers of a training step of `layers` blocks: activations are
/// freed in reverse order, workspaces live for a few ops, gradients live until
/// the end, and optimizer states are always live.
static std::vector<Buffer> trainingStep(int layers, int perLayer,
                                        std::mt19937 &random) {
  std::vector<Buffer> buffers;
  auto size = [&](int64_t most) { return int64_t(random() % most) + 1; };
  int64_t forward = int64_t(layers) * perLayer, end = 2 * forward + 1;
  for (int layer = 0; layer < layers; ++layer) {
    buffers.push_back({size(1 << 20), MemoryCategory::Parameters, 0, end});
    buffers.push_back({size(1 << 20), MemoryCategory::Optimizer, 0, end});
    buffers.push_back({size(1 << 20), MemoryCategory::Gradients,
                       end - layer * perLayer - 1, end});
  }
  for (int64_t op = 0; op < forward; ++op) {
    bool isKept = random() % 3 != 0;
    int64_t last = isKept ? end - op - 1 : op + 1 + random() % 3;
    buffers.push_back({size(1 << 22), MemoryCategory::Activations, op, last});
    int64_t backward = end - op - 1;
    buffers.push_back({size(1 << 22), MemoryCategory::Workspace, backward,
                       std::min(end, backward + 1 + int64_t(random() % 2))});
  }
  return buffers;
}

TEST(PackBuffers, TrainingStepsPackWithinTwoPercent) {
  std::mt19937 random(7);
  for (int layers : {2, 4, 12, 48})
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<Buffer> buffers = trainingStep(layers, 20, random);
      Packing packing = packBuffers(buffers);
      ASSERT_TRUE(isValid(buffers, packing));
      int64_t peak = peakMemory(buffers).bytes;
      EXPECT_GE(packing.bytes, peak);
      EXPECT_LE(double(packing.bytes), 1.02 * double(peak))
          << layers << " layers, trial " << trial;
    }
}

TEST(PackBuffers, RandomLivesAreDisjointAndDeterministic) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 60; ++i) {
      int64_t first = random() % 50;
      buffers.push_back({int64_t(random() % 5000), MemoryCategory::Workspace,
                         first, first + int64_t(random() % 20)});
    }
    Packing packing = packBuffers(buffers);
    EXPECT_TRUE(isValid(buffers, packing));
    EXPECT_EQ(packing.offsets, packBuffers(buffers).offsets);
  }
}

TEST(PackBuffers, TwentyThousandBuffersAreTight) {
  std::mt19937 random(11);
  std::vector<Buffer> buffers = trainingStep(100, 99, random);
  ASSERT_GT(buffers.size(), 20000u);
  Packing packing = packBuffers(buffers);
  EXPECT_TRUE(isValid(buffers, packing));
  EXPECT_LE(double(packing.bytes), 1.02 * double(peakMemory(buffers).bytes));
}
