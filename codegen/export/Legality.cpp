//===- Legality.cpp - What a target cannot express ------------------------===//
#include "codegen/export/Legality.h"

#include <algorithm>

namespace dpc::exports {

bool Job::hasUnevenStages() const {
  return std::adjacent_find(stageLayers.begin(), stageLayers.end(),
                            std::not_equal_to<>()) != stageLayers.end();
}

/// Keys without effect are neutral, keys that others contradict give way.
static void normalize(cost::Strategy &strategy) {
  if (strategy.pp == 1) {
    strategy.vpp = 1;
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  }
  if (strategy.vpp == 1 && strategy.schedule == cost::ScheduleKind::Interleaved)
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  if (strategy.cp == 1)
    strategy.cpKind = cost::CpKind::Ring;
  if (strategy.tp.ranks == 1)
    strategy.sp = false;
  if (strategy.zero == 0 || strategy.dp % strategy.hybridShard != 0)
    strategy.hybridShard = 1;
  if (strategy.offload == cost::Offload::None)
    strategy.offloadTo = cost::OffloadTarget::Host;
  bool fits = strategy.dp % strategy.ep == 0 ||
              (strategy.ep % strategy.tp.ranks == 0 &&
               strategy.dp % (strategy.ep / strategy.tp.ranks) == 0);
  if (!fits)
    strategy.ep = 1;
}

static const Rule *firstBroken(const Job &job, const std::vector<Rule> &rules) {
  for (const Rule &rule : rules)
    if (!rule.holds(job))
      return &rule;
  return nullptr;
}

/// Whether dpc itself takes it.
static bool isStrategy(const cost::Strategy &strategy) {
  return static_cast<bool>(
      cost::parseStrategy(cost::stringifyStrategy(strategy), strategy.ranks()));
}

Legality checkLegality(const Job &job, const std::vector<Rule> &rules) {
  Legality result;
  Job mended = job;
  // What mends one rule may break one before it, but not for ever.
  for (size_t attempt = 0; attempt <= 2 * rules.size(); ++attempt) {
    const Rule *broken = firstBroken(mended, rules);
    if (!broken) {
      if (!result.ok() && isStrategy(mended.strategy))
        result.nearest = mended.strategy;
      return result;
    }
    if (result.ok()) {
      result.rule = broken->text;
      result.isOfJob = broken->isOfJob;
    }
    if (!broken->mend || !broken->mend(mended))
      return result;
    normalize(mended.strategy);
    // As another strategy is cut nobody knows.
    mended.stageLayers.clear();
  }
  return result;
}

bool isExpressible(const Job &job, const cost::Strategy &strategy,
                   const std::vector<Rule> &rules) {
  Job other = job;
  other.strategy = strategy;
  other.stageLayers.clear();
  other.cutsStagesFreely = true;
  return !firstBroken(other, rules);
}

} // namespace dpc::exports
