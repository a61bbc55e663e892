//===- Parallel.cpp - The same work on many things ------------------------===//
#include "cost-model/Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace dpc::cost {

void inParallel(size_t count, size_t grain,
                const std::function<void(size_t)> &work) {
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i = next.fetch_add(grain); i < count; i = next.fetch_add(grain))
      for (size_t k = i; k < std::min(count, i + grain); ++k)
        work(k);
  };
  size_t most = std::max(1U, std::thread::hardware_concurrency());
  size_t workers = std::min(most, (count + grain - 1) / grain);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i)
    threads.emplace_back(loop);
  loop();
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace dpc::cost
