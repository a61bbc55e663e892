//===- Targets.cpp - Programs that exports are written for ----------------===//
#include "codegen/export/Targets.h"

#include <algorithm>

namespace dpc::exports {

bool Job::hasUnevenStages() const {
  return std::ranges::adjacent_find(stageLayers, std::not_equal_to<>()) !=
         stageLayers.end();
}

/// Resets keys of the strategy that have no effect or contradict other keys.
static void normalize(cost::Strategy &strategy) {
  if (strategy.pp == 1) {
    strategy.vpp = 1;
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  }
  if (strategy.vpp == 1 && strategy.schedule == cost::ScheduleKind::Interleaved)
    strategy.schedule = cost::ScheduleKind::OneFOneB;
  if (strategy.cp == 1)
    strategy.cpKind = cost::CpKind::Ring;
  if (strategy.tp.ranks == 1) {
    strategy.sp = false;
    strategy.tpOverlap = cost::TpOverlap::None;
  }
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

static constexpr std::string_view kKeysOfAllTargets[] = {
    "dp",        "tp",          "pp",      "vpp",        "cp",
    "cp_kind",   "ep",          "sp",      "zero",       "hybrid_shard",
    "schedule",  "recompute",   "offload", "offload_to", "micro_batch",
    "placement", "batch_shares"};

/// Returns a broken rule for the first key that is not neutral and that no rule
/// checks. This prevents an exporter from dropping a key that it does not know.
static std::optional<Rule> brokenKey(const Job &job,
                                     const std::vector<Rule> &rules) {
  static const cost::Strategy neutral;
  std::optional<Rule> broken;
  cost::visitKeys([&](const cost::KeyInfo &key, auto field) {
    bool isKnown = std::ranges::count(kKeysOfAllTargets, key.name) > 0 ||
                   std::ranges::count(rules, key.name, &Rule::key) > 0;
    if (broken || isKnown || field(job.strategy) == field(neutral))
      return;
    std::string name(key.name);
    broken = Rule{"it has no setting for " + name + "=" +
                      cost::printValue(field(job.strategy)) + "; " + name +
                      "=" + cost::printValue(field(neutral)) + " is accepted",
                  nullptr, [=](Job &mended) {
                    field(mended.strategy) = field(neutral);
                    return true;
                  }};
  });
  return broken;
}

static std::optional<Rule> firstBroken(const Job &job,
                                       const std::vector<Rule> &rules) {
  for (const Rule &rule : rules)
    if (!rule.holds(job))
      return rule;
  return brokenKey(job, rules);
}

static bool isAccepted(const cost::Strategy &strategy) {
  return static_cast<bool>(
      cost::parseStrategy(cost::stringifyStrategy(strategy), strategy.ranks()));
}

Legality checkLegality(const Job &job, const std::vector<Rule> &rules) {
  Legality result;
  Job mended = job;
  // Mending may break an earlier rule, so the number of attempts is bounded.
  for (size_t attempt = 0; attempt <= 2 * rules.size(); ++attempt) {
    std::optional<Rule> broken = firstBroken(mended, rules);
    if (!broken) {
      if (!result.ok() && isAccepted(mended.strategy))
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
    // The division of layers into stages is unknown for the new strategy.
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

const std::vector<Target> &targets() {
  static const std::vector<Target> all = {accelerate, calculon,  colossalAi,
                                          deepSpeed,  galvatron, maxText,
                                          megatron,   torchtitan};
  return all;
}

const Target *findTarget(std::string_view name) {
  auto found = std::ranges::find(targets(), name, &Target::name);
  return found == targets().end() ? nullptr : &*found;
}

std::vector<const Target *> trainingTargets() {
  std::vector<const Target *> training;
  for (const Target &target : targets())
    if (!target.software.empty())
      training.push_back(&target);
  return training;
}

} // namespace dpc::exports
