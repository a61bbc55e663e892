//===- ArenaPackingTest.cpp - Offsets of buffers in an arena --------------===//
#include "codegen/plan/ArenaPacking.h"

#include <gtest/gtest.h>
#include <random>

using namespace dpc::codegen;

namespace {

void expectDisjoint(const std::vector<Lifetime> &buffers,
                    const ArenaLayout &layout) {
  for (size_t i = 0; i < buffers.size(); ++i) {
    ASSERT_EQ(layout.offsets[i] % 64, 0);
    ASSERT_LE(layout.offsets[i] + buffers[i].bytes, layout.bytes);
    for (size_t j = 0; j < i; ++j) {
      bool together = buffers[i].first <= buffers[j].last &&
                      buffers[j].first <= buffers[i].last;
      bool overlap = layout.offsets[i] < layout.offsets[j] + buffers[j].bytes &&
                     layout.offsets[j] < layout.offsets[i] + buffers[i].bytes;
      ASSERT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(ArenaPacking, RandomLifetimesAreDisjoint) {
  std::mt19937 random(3);
  for (int round = 0; round < 30; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 80; ++i) {
      int64_t first = random() % 100;
      buffers.push_back(
          {int64_t(random() % 5000), first, first + int64_t(random() % 30)});
    }
    ArenaLayout layout = packArena(buffers);
    expectDisjoint(buffers, layout);
    EXPECT_GE(layout.bytes, arenaLowerBound(buffers));
  }
}

/// Returns the buffers of a training step with `layers` blocks. Weights and
/// optimizer states live during the whole step, activations until the backward
/// pass of their block, and gradients until the update. Temporaries live for a
/// short time.
std::vector<Lifetime> trainingStep(int layers, int64_t tokens, int64_t hidden) {
  std::vector<Lifetime> buffers;
  int64_t steps = layers * 24 + 24, act = tokens * hidden * 4;
  auto add = [&](int64_t bytes, int64_t first, int64_t last) {
    buffers.push_back({bytes, first, last});
  };
  for (int l = 0; l < layers; ++l) {
    int64_t forward = l * 8, backward = (2 * layers - l) * 8 + 8;
    for (int64_t w : {hidden * hidden * 3, hidden * hidden, hidden * hidden * 4,
                      hidden * hidden * 4, hidden, hidden * 3}) {
      for (int copies = 0; copies < 3; ++copies)
        add(w * 4, 0, steps);
      add(w * 4, backward + 3, steps - 1 - l % 4);
    }
    int64_t sizes[] = {act, 3 * act, tokens * 256, act, 4 * act, 4 * act};
    for (int i = 0; i < 6; ++i)
      add(sizes[i], forward + i, backward + 6 - i);
    add(act, forward + 3, forward + 4);
    add(2 * act, forward + 5, forward + 6);
    add(4 * act, backward, backward + 2);
    add(4 * act, backward + 1, backward + 3);
    add(3 * act, backward + 4, backward + 6);
    add(act, backward + 5, backward + 8);
  }
  int64_t top = layers * 8;
  add(tokens * 8192 * 4, top, top + 3);
  add(tokens * 8192 * 4, top + 2, top + 6);
  return buffers;
}

TEST(ArenaPacking, TrainingStepsAreWithinTwoPercent) {
  for (int layers : {1, 2, 4, 12})
    for (int64_t tokens : {64, 1000, 4096})
      for (int64_t hidden : {64, 250, 768}) {
        std::vector<Lifetime> buffers = trainingStep(layers, tokens, hidden);
        ArenaLayout layout = packArena(buffers);
        expectDisjoint(buffers, layout);
        EXPECT_LE(double(layout.bytes), 1.02 * arenaLowerBound(buffers))
            << layers << " layers, " << tokens << " tokens, " << hidden;
      }
}

TEST(ArenaPacking, EmptyAndZeroSized) {
  EXPECT_EQ(packArena({}).bytes, 0);
  EXPECT_EQ(packArena({{0, 0, 5}, {0, 1, 2}}).bytes, 0);
}

} // namespace
