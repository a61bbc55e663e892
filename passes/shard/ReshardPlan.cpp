//===- ReshardPlan.cpp - Cheapest steps between shardings ---------------===//
#include "passes/shard/ReshardPlan.h"

#include <map>
#include <memory>
#include <mutex>

namespace dpc {

using PlanKey = std::vector<int64_t>;

static void addToKey(PlanKey &key, const ShardingSpec &spec) {
  for (const DimFactors &dim : spec.dims) {
    key.push_back(-1);
    for (const Factor &factor : dim) {
      key.push_back(factor.size);
      key.push_back(-2 - static_cast<int64_t>(factor.axes.size()));
      key.insert(key.end(), factor.axes.begin(), factor.axes.end());
    }
  }
  for (const PartialAxis &partial : spec.partial) {
    key.push_back(-100 - partial.axis);
    key.push_back(static_cast<int64_t>(partial.kind));
  }
}

namespace {

/// A plan for all meshes of the same sizes. The specs in it have no mesh.
struct KeptPlan {
  std::optional<std::vector<ReshardStep>> steps;
  std::optional<double> bytes;
};

} // namespace

static std::shared_ptr<const KeptPlan> makePlan(const ShardingSpec &from,
                                                const ShardingSpec &to,
                                                int64_t elementBytes) {
  auto plan = std::make_shared<KeptPlan>();
  std::string why;
  plan->steps = searchReshard(from, to, elementBytes, why);
  if (plan->steps) {
    plan->bytes = 0;
    for (ReshardStep &step : *plan->steps) {
      step.before.mesh = step.after.mesh = MeshAttr();
      *plan->bytes += step.sentBytes;
    }
  }
  return plan;
}

/// Plans are cached, because many strategies and programs need the same ones.
static std::shared_ptr<const KeptPlan> keptPlan(const ShardingSpec &from,
                                                const ShardingSpec &to,
                                                int64_t elementBytes) {
  static std::mutex mutex;
  static std::map<PlanKey, std::shared_ptr<const KeptPlan>> plans;
  PlanKey key;
  key.reserve(48);
  addToKey(key, from);
  key.push_back(-1000);
  addToKey(key, to);
  key.push_back(elementBytes);
  llvm::ArrayRef<int64_t> sizes = from.mesh.getSizes();
  key.insert(key.end(), sizes.begin(), sizes.end());
  key.push_back(from.mesh.findAxis(kMicroBatchAxis).value_or(-1));
  {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = plans.find(key);
    if (it != plans.end())
      return it->second;
  }
  std::shared_ptr<const KeptPlan> made = makePlan(from, to, elementBytes);
  std::lock_guard<std::mutex> lock(mutex);
  return plans.try_emplace(std::move(key), made).first->second;
}

std::optional<std::vector<ReshardStep>> planReshard(const ShardingSpec &from,
                                                    const ShardingSpec &to,
                                                    int64_t elementBytes,
                                                    std::string &why) {
  auto steps = keptPlan(from, to, elementBytes)->steps;
  if (!steps) // `why` names axes, which differ between meshes
    return searchReshard(from, to, elementBytes, why);
  for (ReshardStep &step : *steps)
    step.before.mesh = step.after.mesh = from.mesh;
  return steps;
}

std::optional<double> reshardBytes(const ShardingSpec &from,
                                   const ShardingSpec &to,
                                   int64_t elementBytes) {
  return keptPlan(from, to, elementBytes)->bytes;
}

} // namespace dpc
