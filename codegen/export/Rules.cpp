//===- Rules.cpp - Rules that several targets share -----------------------===//
#include "codegen/export/Rules.h"

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/BatchShares.h"

#include <algorithm>
#include <numeric>

namespace dpc::exports {

using cost::Strategy;

int64_t largestDivisor(int64_t number, int64_t most) {
  for (int64_t divisor = std::min(number, most); divisor > 1; --divisor)
    if (number % divisor == 0)
      return divisor;
  return 1;
}

void giveToOthers(Job &job, int64_t StrategyNumbers::*axis, int64_t rest) {
  Strategy &strategy = job.strategy;
  int64_t freed = strategy.*axis / rest;
  strategy.*axis = rest;
  bool batchAllows = job.globalBatch % (strategy.dp * freed) == 0;
  if (axis != &Strategy::dp && batchAllows) {
    strategy.dp *= freed;
    strategy.microBatch = std::min(job.microBatch(), job.localBatch());
  } else {
    strategy.tp = strategy.tp.ranks * freed;
  }
}

/// Returns the axes with more than one rank, innermost first: the axes in
/// `named`, then the others in the default order. Omits the axis "dpi", which
/// is a part of dp.
static std::vector<std::string> orderOf(const Job &job,
                                        std::vector<std::string> named) {
  const Strategy &strategy = job.strategy;
  std::map<std::string, int64_t> sizes = {{"tp", strategy.tp.ranks},
                                          {"cp", strategy.cp},
                                          {"dp", strategy.dp},
                                          {"pp", strategy.pp}};
  for (const char *axis : {"tp", "cp", "dp", "pp"})
    if (std::find(named.begin(), named.end(), axis) == named.end())
      named.emplace_back(axis);
  std::erase_if(named, [&](const std::string &axis) {
    auto size = sizes.find(axis);
    return size == sizes.end() || size->second == 1;
  });
  return named;
}

bool isPlacedAs(const Job &job, const std::string &order) {
  auto wanted = cost::parseValue<cost::PlacementSpec>("placement", order);
  const cost::PlacementSpec &placement = job.strategy.placement;
  return placement.groups.empty() &&
         orderOf(job, placement.axes) == orderOf(job, wanted->axes);
}

Rule onlyIf(Rule rule, std::function<bool(const Job &)> when) {
  rule.holds = [holds = rule.holds, when](const Job &job) {
    return !when(job) || holds(job);
  };
  rule.isOfJob = false; // `when` may depend on the strategy
  rule.key = {};        // the rule does not check the key for all jobs
  return rule;
}

Rule strategyRule(std::string text, std::function<bool(const Strategy &)> holds,
                  std::function<void(Strategy &)> mend) {
  return {std::move(text), [=](const Job &job) { return holds(job.strategy); },
          [=](Job &job) {
            mend(job.strategy);
            return true;
          }};
}

Rule saying(Rule rule, const std::string &text) {
  rule.text = text;
  return rule;
}

template <typename Value>
static Rule only(std::string text, Value StrategyNumbers::*key, Value value) {
  return {std::move(text),
          [=](const Job &job) { return job.strategy.*key == value; },
          [=](Job &job) {
            job.strategy.*key = value;
            return true;
          }};
}

static Rule noRanksAlong(std::string text, int64_t StrategyNumbers::*degree) {
  return {std::move(text),
          [=](const Job &job) { return job.strategy.*degree == 1; },
          [=](Job &job) {
            giveToOthers(job, degree, 1);
            return true;
          }};
}

Rule trainingOnly(const std::string &whose) {
  return {whose + " trains; its configurations do not cover inference",
          [](const Job &job) { return job.trains; }, nullptr,
          /*isOfJob=*/true};
}

Rule noGrid(const std::string &whose) {
  return strategyRule(
      whose + " has tensor parallelism along one axis (no tp=AxB)",
      [](const Strategy &s) { return s.tp.grid.empty(); },
      [](Strategy &s) { s.tp.grid.clear(); });
}

Rule evenShares(const std::string &whose) {
  return strategyRule(
      whose + " gives all data-parallel ranks equal shares of the batch",
      [](const Strategy &s) { return !s.batchShares.isUneven(); },
      [](Strategy &s) { s.batchShares = cost::BatchShares::even(); });
}

Rule evenBatch(const std::string &whose) {
  return {whose + " needs a global batch that is a multiple of dp times "
                  "micro_batch",
          [](const Job &job) {
            return job.globalBatch % job.strategy.dp == 0 &&
                   job.localBatch() % job.microBatch() == 0;
          },
          [](Job &job) {
            Strategy &strategy = job.strategy;
            int64_t micro = job.microBatch();
            int64_t dp = std::gcd(job.globalBatch, strategy.dp);
            if (dp != strategy.dp)
              giveToOthers(job, &Strategy::dp, dp);
            strategy.microBatch = largestDivisor(job.localBatch(), micro);
            return true;
          }};
}

Rule usualPlacement(const std::string &whose, const Words &orders) {
  return {whose + " orders ranks as tp.cp.dp.pp, innermost first" +
              (orders.empty() ? "" : ", or as " + joined(orders)),
          [orders](const Job &job) {
            return isPlacedAs(job, "auto") ||
                   std::ranges::any_of(orders, [&](const std::string &order) {
                     return isPlacedAs(job, order);
                   });
          },
          [](Job &job) {
            job.strategy.placement = {{"tp", "cp", "dp", "pp"}, {}};
            return true;
          }};
}

Rule schedules(const std::string &whose, const Words &known) {
  return strategyRule(
      whose + " has these schedules: " + joined(known),
      [=](const Strategy &s) {
        return s.pp == 1 || known.count(cost::printValue(s.schedule));
      },
      [](Strategy &s) {
        s.schedule = cost::ScheduleKind::OneFOneB;
        s.vpp = 1;
      });
}

Rule recomputes(const std::string &whose, const Words &known) {
  return strategyRule(
      whose + " has these kinds of recomputation: " + joined(known),
      [=](const Strategy &s) {
        return known.count(cost::printValue(s.recompute)) > 0;
      },
      [=](Strategy &s) { // prefers full recomputation: least memory
        s.recompute =
            known.count("full") ? cost::Recompute::Full : cost::Recompute::None;
      });
}

Rule offloads(const std::string &whose, const Words &known) {
  return strategyRule(
      whose + " offloads: " + joined(known),
      [=](const Strategy &s) {
        return known.count(cost::printValue(s.offload)) > 0;
      },
      [=](Strategy &s) {
        using cost::Offload;
        for (Offload less : {Offload::None, Offload::Optimizer,
                             Offload::Parameters, Offload::All})
          if (known.count(cost::printValue(less)))
            s.offload = less;
      });
}

Rule hostOnly(const std::string &whose) {
  return strategyRule(
      whose + " offloads to host memory, not to disk",
      [](const Strategy &s) {
        return s.offload == cost::Offload::None ||
               s.offloadTo == cost::OffloadTarget::Host;
      },
      [](Strategy &s) { s.offloadTo = cost::OffloadTarget::Host; });
}

Rule zeros(const std::string &whose, const std::set<int64_t> &known) {
  return strategyRule(
      whose + " has these ZeRO stages: " + joined(known),
      [=](const Strategy &s) { return known.count(s.zero) > 0; },
      [=](Strategy &s) { // the next higher known stage, or the highest
        auto more = known.lower_bound(s.zero);
        s.zero = more == known.end() ? *known.rbegin() : *more;
      });
}

Rule noHybrid(const std::string &whose) {
  return only(
      whose + " shards states over all data-parallel ranks (hybrid_shard=1)",
      &Strategy::hybridShard, int64_t(1));
}

Rule noSequenceParallel(const std::string &whose) {
  return only(whose + " has no sequence parallelism (sp=false)", &Strategy::sp,
              false);
}

Rule noContext(const std::string &whose) {
  return noRanksAlong(whose + " has no context parallelism (cp=1)",
                      &Strategy::cp);
}

Rule contextKind(const std::string &whose, cost::CpKind kind) {
  return strategyRule(
      whose + " has context parallelism with cp_kind=" + cost::printValue(kind),
      [=](const Strategy &s) { return s.cp == 1 || s.cpKind == kind; },
      [=](Strategy &s) { s.cpKind = kind; });
}

Rule noExperts(const std::string &whose) {
  return only(whose + " has no expert parallelism (ep=1)", &Strategy::ep,
              int64_t(1));
}

Rule noPipeline(const std::string &whose) {
  return noRanksAlong(whose + " has no pipeline parallelism (pp=1)",
                      &Strategy::pp);
}

Rule noTensor(const std::string &whose) {
  return {whose + " has no tensor parallelism (tp=1)",
          [](const Job &job) { return job.strategy.tp.ranks == 1; },
          [](Job &job) {
            Strategy &strategy = job.strategy;
            int64_t dp = strategy.dp * strategy.tp.ranks;
            if (job.globalBatch % dp != 0)
              return false;
            strategy.microBatch =
                std::min(job.microBatch(), job.globalBatch / dp);
            strategy.dp = dp;
            strategy.tp = 1;
            return true;
          }};
}

Rule noChunks(const std::string &whose) {
  return only(whose + " has one virtual stage per rank (vpp=1)", &Strategy::vpp,
              int64_t(1));
}

Rule evenLayers(const std::string &whose) {
  return {whose + " gives all stages and virtual stages the same number of "
                  "layers",
          [](const Job &job) {
            return job.stages() == 1 || (job.model.layers > 0 &&
                                         job.model.layers % job.stages() == 0);
          },
          [](Job &job) {
            if (job.model.layers < 1)
              return false;
            Strategy &strategy = job.strategy;
            int64_t pp = std::gcd(strategy.pp, job.model.layers);
            if (pp != strategy.pp)
              giveToOthers(job, &Strategy::pp, pp);
            strategy.vpp = std::gcd(strategy.vpp, job.model.layers / pp);
            return true;
          }};
}

Rule wholeRounds(const std::string &whose) {
  return {whose + " needs a multiple of pp micro-batches where vpp > 1",
          [](const Job &job) {
            return job.strategy.vpp == 1 ||
                   job.microBatches() % job.strategy.pp == 0;
          },
          [](Job &job) {
            // Sets vpp=1 only if no smaller micro-batch satisfies the rule.
            Strategy &strategy = job.strategy;
            for (int64_t micro = job.microBatch() - 1; micro > 0; --micro)
              if (job.localBatch() % micro == 0 &&
                  (job.localBatch() / micro) % strategy.pp == 0) {
                strategy.microBatch = micro;
                return true;
              }
            strategy.vpp = 1;
            return true;
          }};
}

Rule precisions(const std::string &whose, const Words &known) {
  return {whose + " computes in " + joined(known) + " (--precision)",
          [known](const Job &job) { return known.count(job.precision) > 0; },
          nullptr, /*isOfJob=*/true};
}

} // namespace dpc::exports
