//===- NearestPlan.h - A plan that a target of --emit accepts ---*- C++ -*-===//
//
// If a target of --emit cannot express the winner of a free search, its files
// have the nearest plan that it can express and that fits:
//
// (N1) The candidates of the search are sorted, so that the first legal one is
//      the best of them.
// (N2) If no candidate is legal, the rules mend the winner (Rule::mend).
// (N3) If the mended strategy contradicts --strategy or does not fit, the legal
//      strategies are searched.
//
// The best plan for a target, with the times and the memory of its software, is
// that of --for=TARGET.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "cost-model/search/IdleDevices.h"
#include "tools/driver/PlanTarget.h"

namespace dpc {

class NearestPlan {
public:
  struct Plan {
    cost::Candidate candidate;
    cost::Cluster used; ///< the part of the cluster that it uses
  };
  /// Searches with this --strategy among the strategies of the target.
  using Search =
      std::function<Expected<cost::PartResult>(const std::string &strategy)>;

  /// `job` has the winner of `result`, which uses the part `used` of a cluster
  /// of `devices` devices. Keeps references to all arguments.
  NearestPlan(const CompileOptions &options, const exports::Target &target,
              const exports::Job &job, const cost::SearchResult &result,
              const cost::Cluster &used, int64_t devices, Search search)
      : options(options), job(job), rules(target.rules()), result(result),
        used(used), devices(devices), search(std::move(search)) {}

  /// Returns whether the user fixed the strategy, apart from the micro-batch.
  bool isFixed() const;

  /// Returns the nearest plan. The argument is the legality of the winner.
  std::optional<Plan> find(const exports::Legality &legality) const;

  /// Returns the mended strategy if it fits, even if it contradicts --strategy.
  std::optional<Plan> mended(const exports::Legality &legality) const;

  /// "--strategy=dp=8,tp=1 (1.04 s a step, 4.0 % slower, 1.00 GiB)"
  std::string describe(const Plan &plan) const;

private:
  std::optional<Plan> best(const std::string &strategy) const;
  std::optional<Plan> firstCandidate() const;
  bool isLegal(const cost::Candidate &candidate) const;
  cost::StrategyRequest request() const;

  const CompileOptions &options;
  const exports::Job &job;
  exports::Rules rules;
  const cost::SearchResult &result;
  const cost::Cluster &used;
  int64_t devices;
  Search search;
};

} // namespace dpc
