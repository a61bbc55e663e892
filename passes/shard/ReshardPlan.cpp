//===- ReshardPlan.cpp - Cheapest steps between shardings ---------------===//
#include "passes/shard/ReshardPlan.h"

#include <memory>
#include <mutex>

namespace dpc {

using PlanKey = std::vector<int64_t>;

/// Appends a key that is equal for equal shardings.
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

static PlanKey keyOf(const ShardingSpec &from, const ShardingSpec &to,
                     int64_t elementBytes) {
  PlanKey key;
  key.reserve(48);
  addToKey(key, from);
  key.push_back(-1000);
  addToKey(key, to);
  key.push_back(elementBytes);
  return key;
}

namespace {

/// A plan for all meshes with the same sizes: its specs have no mesh.
struct KeptPlan {
  std::optional<std::vector<ReshardStep>> steps;
  ReshardCost cost;
};

} // namespace

static std::shared_ptr<const KeptPlan> makePlan(const ShardingSpec &from,
                                                const ShardingSpec &to,
                                                int64_t elementBytes) {
  auto plan = std::make_shared<KeptPlan>();
  std::string why;
  plan->steps = planReshard(from, to, elementBytes, why);
  plan->cost.feasible = plan->steps.has_value();
  if (plan->steps)
    for (ReshardStep &step : *plan->steps) {
      step.before.mesh = step.after.mesh = MeshAttr();
      if (step.fullBytes > 0)
        plan->cost.traffic.push_back(
            {step.kind, step.axes, step.fullBytes, step.sentBytes});
    }
  return plan;
}

/// The plan for a key of `keyOf`, to which this adds the mesh. Plans are kept
/// because the strategies of a search, the depths of a program, and the pricing
/// and the emission of one reshard repeat them.
static std::shared_ptr<const KeptPlan> keptPlan(PlanKey key,
                                                const ShardingSpec &from,
                                                const ShardingSpec &to,
                                                int64_t elementBytes) {
  static std::mutex mutex;
  static std::map<PlanKey, std::shared_ptr<const KeptPlan>> plans;
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

const std::vector<ReshardStep> *ReshardPlans::find(const ShardingSpec &from,
                                                   const ShardingSpec &to,
                                                   int64_t elementBytes,
                                                   std::string &why) {
  PlanKey key = keyOf(from, to, elementBytes);
  auto [it, isNew] = plans.try_emplace(key);
  if (isNew) {
    it->second = keptPlan(std::move(key), from, to, elementBytes)->steps;
    if (!it->second) // the reason names axes
      planReshard(from, to, elementBytes, why);
    else
      for (ReshardStep &step : *it->second)
        step.before.mesh = step.after.mesh = from.mesh;
  }
  return it->second ? &*it->second : nullptr;
}

double ReshardCost::sentBytes() const {
  double bytes = 0;
  for (const ReshardTraffic &item : traffic)
    bytes += item.sentBytes;
  return bytes;
}

ReshardCost reshardTraffic(const ShardingSpec &from, const ShardingSpec &to,
                           int64_t elementBytes) {
  return keptPlan(keyOf(from, to, elementBytes), from, to, elementBytes)->cost;
}

} // namespace dpc
