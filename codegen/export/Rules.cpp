//===- Rules.cpp - Rules that several targets share -----------------------===//
#include "codegen/export/Rules.h"

#include "cost-model/machine/Placement.h"
#include "cost-model/strategy/BatchShares.h"

#include <algorithm>
#include <numeric>

namespace dpc::exports {

using cost::Strategy;

static std::string listed(const Words &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

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

/// The axes of more than one rank, innermost first. "dp" stands for all of it.
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
  // Parts of dp lie inside of it.
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
  auto holds = rule.holds;
  rule.holds = [holds, when](const Job &job) {
    return !when(job) || holds(job);
  };
  rule.isOfJob = false; // `when` may be of the strategy.
  return rule;
}

Rule saying(Rule rule, const std::string &text) {
  rule.text = text;
  return rule;
}

/// A key of the strategy has this value.
template <typename Value>
static Rule only(std::string text, Value StrategyNumbers::*key, Value value) {
  return {std::move(text),
          [=](const Job &job) { return job.strategy.*key == value; },
          [=](Job &job) {
            job.strategy.*key = value;
            return true;
          }};
}

/// A degree of the strategy is 1; the ranks go to the others.
static Rule noRanksAlong(std::string text, int64_t StrategyNumbers::*degree) {
  return {std::move(text),
          [=](const Job &job) { return job.strategy.*degree == 1; },
          [=](Job &job) {
            giveToOthers(job, degree, 1);
            return true;
          }};
}

Rule trainingOnly(const std::string &whose) {
  return {whose + " trains: there is nothing to say of inference",
          [](const Job &job) { return job.trains; }, nullptr,
          /*isOfJob=*/true};
}

Rule noGrid(const std::string &whose) {
  return {whose + " has tensor parallelism along one axis (no tp=AxB)",
          [](const Job &job) { return job.strategy.tp.grid.empty(); },
          [](Job &job) {
            job.strategy.tp.grid.clear();
            return true;
          }};
}

Rule evenShares(const std::string &whose) {
  return {whose + " gives all data-parallel ranks the same of the batch",
          [](const Job &job) { return !job.strategy.batchShares.isUneven(); },
          [](Job &job) {
            job.strategy.batchShares = cost::BatchShares::even();
            return true;
          }};
}

Rule evenBatch(const std::string &whose) {
  return {whose + " needs a global batch of dp times micro_batch times a whole "
                  "number",
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
  return {whose + " lays ranks out as tp.cp.dp.pp, innermost first" +
              (orders.empty() ? "" : ", or as " + listed(orders)),
          [orders](const Job &job) {
            return isPlacedAs(job, "auto") ||
                   std::any_of(orders.begin(), orders.end(),
                               [&](const std::string &order) {
                                 return isPlacedAs(job, order);
                               });
          },
          [](Job &job) {
            job.strategy.placement = {{"tp", "cp", "dp", "pp"}, {}};
            return true;
          }};
}

Rule schedules(const std::string &whose, const Words &known) {
  return {whose + " has these schedules of stages: " + listed(known),
          [known](const Job &job) {
            return job.strategy.pp == 1 ||
                   known.count(cost::printValue(job.strategy.schedule));
          },
          [](Job &job) {
            job.strategy.schedule = cost::ScheduleKind::OneFOneB;
            job.strategy.vpp = 1;
            return true;
          }};
}

Rule recomputes(const std::string &whose, const Words &known) {
  return {whose + " has these kinds of recomputation: " + listed(known),
          [known](const Job &job) {
            return known.count(cost::printValue(job.strategy.recompute)) > 0;
          },
          [known](Job &job) {
            // More of it takes no more memory.
            job.strategy.recompute = known.count("full")
                                         ? cost::Recompute::Full
                                         : cost::Recompute::None;
            return true;
          }};
}

Rule offloads(const std::string &whose, const Words &known) {
  return {whose + " offloads: " + listed(known),
          [known](const Job &job) {
            return known.count(cost::printValue(job.strategy.offload)) > 0;
          },
          [known](Job &job) {
            using cost::Offload;
            for (Offload more : {Offload::All, Offload::Parameters,
                                 Offload::Optimizer, Offload::None})
              if (known.count(cost::printValue(more))) {
                job.strategy.offload = more;
                break;
              }
            return true;
          }};
}

Rule hostOnly(const std::string &whose) {
  return {whose + " offloads to the host's memory, not to disk",
          [](const Job &job) {
            return job.strategy.offload == cost::Offload::None ||
                   job.strategy.offloadTo == cost::OffloadTarget::Host;
          },
          [](Job &job) {
            job.strategy.offloadTo = cost::OffloadTarget::Host;
            return true;
          }};
}

Rule zeros(const std::string &whose, const std::set<int64_t> &known) {
  std::string text;
  for (int64_t stage : known)
    text += (text.empty() ? "" : ", ") + std::to_string(stage);
  return {whose + " has these ZeRO stages: " + text,
          [known](const Job &job) { return known.count(job.strategy.zero); },
          [known](Job &job) {
            // The next that keeps less on a rank, or the most there is.
            auto more = known.lower_bound(job.strategy.zero);
            job.strategy.zero = more == known.end() ? *known.rbegin() : *more;
            return true;
          }};
}

Rule noHybrid(const std::string &whose) {
  return only(
      whose + " splits states over all data-parallel ranks (hybrid_shard=1)",
      &Strategy::hybridShard, int64_t(1));
}

Rule noSequenceParallel(const std::string &whose) {
  return only(whose + " splits no norms along the sequence (sp=false)",
              &Strategy::sp, false);
}

Rule noContext(const std::string &whose) {
  return noRanksAlong(whose + " does not split the sequence (cp=1)",
                      &Strategy::cp);
}

Rule contextKind(const std::string &whose, cost::CpKind kind) {
  return {whose + " splits a sequence as cp_kind=" + cost::printValue(kind),
          [kind](const Job &job) {
            return job.strategy.cp == 1 || job.strategy.cpKind == kind;
          },
          [kind](Job &job) {
            job.strategy.cpKind = kind;
            return true;
          }};
}

Rule noExperts(const std::string &whose) {
  return only(whose + " spreads no experts (ep=1)", &Strategy::ep, int64_t(1));
}

Rule noPipeline(const std::string &whose) {
  return noRanksAlong(whose + " has no pipelines (pp=1)", &Strategy::pp);
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
  return only(whose + " has one chunk of layers on a stage (vpp=1)",
              &Strategy::vpp, int64_t(1));
}

Rule evenLayers(const std::string &whose) {
  return {whose + " cuts the layers into stages, and chunks of these, of the "
                  "same number",
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
  return {whose + " needs as many micro-batches as a whole number times pp "
                  "where stages are interleaved",
          [](const Job &job) {
            return job.strategy.vpp == 1 ||
                   job.microBatches() % job.strategy.pp == 0;
          },
          [](Job &job) {
            // Smaller micro-batches, or else no chunks.
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
  return {whose + " computes in " + listed(known) + " (--precision)",
          [known](const Job &job) { return known.count(job.precision) > 0; },
          nullptr, /*isOfJob=*/true};
}

} // namespace dpc::exports
