//===- SharedLowering.cpp - Strategies lowered together -------------------===//
#include "passes/lower/SharedLowering.h"

#include <atomic>

using namespace mlir;
using namespace dpc;

struct SharedLowering::Entry {
  ModuleOp program;
  LoweringSpec spec;
  std::mutex mutex; ///< Protects `sharded`; locked while it is built.
  OwningOpRef<ModuleOp> sharded;
  std::atomic<int64_t> ops = 0;
};

/// Returns `spec` with neutral values for the fields that only lowerRest reads.
static LoweringSpec sharedPart(LoweringSpec spec) {
  const LoweringSpec none;
  spec.recompute = none.recompute;
  spec.depth = none.depth;
  spec.omittedLayers = none.omittedLayers;
  spec.alive = none.alive;
  spec.blockLayers = none.blockLayers;
  return spec;
}

static int64_t countOps(ModuleOp module) {
  int64_t count = 0;
  module.walk([&](Operation *) { ++count; });
  return count;
}

SharedLowering::SharedLowering(const cost::Cluster &cluster)
    : cluster(cluster) {}

SharedLowering::~SharedLowering() = default;

std::shared_ptr<SharedLowering::Entry>
SharedLowering::find(ModuleOp program, const LoweringSpec &spec) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = llvm::find_if(recent, [&](const std::shared_ptr<Entry> &entry) {
    return entry->program == program && entry->spec == spec;
  });
  if (it == recent.end()) {
    auto entry = std::make_shared<Entry>();
    entry->program = program;
    entry->spec = spec;
    it = recent.insert(it, std::move(entry));
  }
  recent.splice(recent.begin(), recent, it);
  return recent.front();
}

/// Keeps only recent programs, because strategies that share a program are
/// lowered soon after each other. A kept op takes about 1 KiB.
void SharedLowering::forgetOld() {
  constexpr int64_t kMostOps = 100000;
  constexpr size_t kMostEntries = 32;
  std::lock_guard<std::mutex> lock(mutex);
  int64_t ops = 0;
  size_t entries = 0;
  for (auto it = recent.begin(); it != recent.end(); ++it) {
    ops += (*it)->ops;
    if (++entries > kMostEntries || ops > kMostOps) {
      recent.erase(it, recent.end());
      return;
    }
  }
}

FailureOr<OwningOpRef<ModuleOp>>
SharedLowering::lower(ModuleOp program, const LoweringSpec &spec) {
  std::shared_ptr<Entry> entry = find(program, sharedPart(spec));
  OwningOpRef<ModuleOp> module;
  {
    std::lock_guard<std::mutex> lock(entry->mutex);
    if (!entry->sharded) {
      auto made = lowerToShared(program, cluster, entry->spec);
      if (failed(made))
        return failure();
      entry->sharded = std::move(*made);
      entry->ops = countOps(*entry->sharded);
    }
    module = entry->sharded->clone();
  }
  forgetOld();
  if (failed(lowerRest(*module, cluster, spec, /*verifies=*/false)))
    return failure();
  return module;
}
