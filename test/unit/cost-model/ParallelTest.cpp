#include "runtime/base/Parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

using namespace dpc;

TEST(Parallel, EachIndexRunsOnce) {
  for (size_t count : {0, 1, 7, 1000})
    for (size_t grain : {1, 3, 2000}) {
      std::vector<std::atomic<int>> runs(count);
      parallelFor(count, grain, [&](size_t i) { ++runs[i]; });
      for (const std::atomic<int> &times : runs)
        EXPECT_EQ(times, 1) << count << " by " << grain;
    }
}

TEST(Parallel, CallsWithinCalls) {
  std::atomic<int64_t> sum = 0;
  parallelFor(5, 1, [&](size_t i) {
    parallelFor(7, 2, [&](size_t j) {
      std::vector<int64_t> parts(11);
      parallelFor(parts.size(), 1,
                  [&](size_t k) { parts[k] = int64_t(100 * i + 10 * j + k); });
      sum += std::accumulate(parts.begin(), parts.end(), int64_t(0));
    });
  });
  int64_t expected = 0;
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = 0; j < 7; ++j)
      for (int64_t k = 0; k < 11; ++k)
        expected += 100 * i + 10 * j + k;
  EXPECT_EQ(sum, expected);
}

TEST(Parallel, WaitingForTheWorkOfAnotherThread) {
  // The first thread that needs a value computes it with the help of other
  // threads, while more threads wait for the value (as in Fold.cpp). A helper
  // must not take work that waits for the helper itself.
  for (int round = 0; round < 50; ++round) {
    std::map<size_t, std::once_flag> flags;
    std::vector<int64_t> made(3, 0);
    for (size_t k = 0; k < made.size(); ++k)
      flags[k];
    std::atomic<int64_t> sum = 0;
    parallelFor(24, 1, [&](size_t i) {
      size_t key = i % made.size();
      std::call_once(flags[key], [&] {
        std::atomic<int64_t> parts = 0;
        parallelFor(4, 1, [&](size_t j) { parts += int64_t(j + key); });
        made[key] = parts;
      });
      sum += made[key];
    });
    EXPECT_EQ(sum, 8 * (6 + 10 + 14));
  }
}
