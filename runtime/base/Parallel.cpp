//===- Parallel.cpp - a parallel loop -------------------------------------===//
#include "runtime/base/Parallel.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace dpc {

namespace {

/// A call of parallelFor.
struct Region {
  const std::function<void(size_t)> &work;
  size_t count, grain;
  const Region *outer; ///< the enclosing call of parallelFor, or null
  std::atomic<size_t> next = 0;
  size_t helpers = 0; ///< number of busy threads other than the calling thread

  bool isOpen() const { return next.load() < count; }
  bool isInside(const Region &other) const {
    for (const Region *region = outer; region; region = region->outer)
      if (region == &other)
        return true;
    return false;
  }
  void run() noexcept;
};

/// Threads persist until the process ends, so that the caches of the heap and
/// of the compiler survive between calls. A thread that waits for its region
/// runs only work of nested regions. Other work might wait for this thread and
/// cause a deadlock.
class Team {
public:
  Team();
  ~Team();
  void run(Region &region);
  size_t size() const { return threads.size() + 1; }

private:
  std::mutex mutex; ///< guards the members below and Region::helpers
  std::condition_variable changed;
  std::vector<Region *> open;
  bool isOver = false;
  std::vector<std::thread> threads;

  Region *find(const Region *within) const;
  void help(Region &region, std::unique_lock<std::mutex> &lock);
  void loop();
};

thread_local const Region *current = nullptr;

} // namespace

void Region::run() noexcept {
  const Region *before = current;
  current = this;
  for (size_t i = next.fetch_add(grain); i < count; i = next.fetch_add(grain))
    for (size_t k = i; k < std::min(count, i + grain); ++k)
      work(k);
  current = before;
}

Team::Team() {
  size_t most = std::max(1U, std::thread::hardware_concurrency());
  for (size_t i = 1; i < most; ++i)
    threads.emplace_back([this] { loop(); });
}

Team::~Team() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  changed.notify_all();
  for (std::thread &thread : threads)
    thread.join();
}

Region *Team::find(const Region *within) const {
  auto found = std::find_if(open.rbegin(), open.rend(), [&](Region *region) {
    return region->isOpen() && (!within || region->isInside(*within));
  });
  return found == open.rend() ? nullptr : *found;
}

void Team::help(Region &region, std::unique_lock<std::mutex> &lock) {
  ++region.helpers;
  lock.unlock();
  region.run();
  lock.lock();
  --region.helpers;
  changed.notify_all();
}

void Team::loop() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!isOver)
    if (Region *region = find(nullptr))
      help(*region, lock);
    else
      changed.wait(lock);
}

void Team::run(Region &region) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    open.push_back(&region);
  }
  changed.notify_all();
  region.run();
  std::unique_lock<std::mutex> lock(mutex);
  std::erase(open, &region);
  while (region.helpers > 0)
    if (Region *inner = find(&region))
      help(*inner, lock);
    else
      changed.wait(lock);
}

void parallelFor(size_t count, size_t grain,
                 const std::function<void(size_t)> &work) {
  static Team team;
  Region region{work, count, grain, current};
  if (count > grain && team.size() > 1)
    team.run(region);
  else
    region.run();
}

} // namespace dpc
