//===- PlanSearch.h - The search of a compilation ------------*- C++ -*-===//
#pragma once

#include "cost-model/search/IdleDevices.h"
#include "tools/driver/ModelProgram.h"
#include "tools/driver/PlanTarget.h"
#include "tools/driver/Session.h"

namespace dpc {

/// Searches for the best strategy of a program on a cluster. All references
/// must outlive it.
struct PlanSearch {
  const CompileOptions &options;
  const cost::Cluster &cluster;
  const ModelProgram &program;
  /// Whether the order of the groups of nodes is fixed and all devices are
  /// used.
  bool isArranged = false;
  ProgressView *progress = nullptr;
  /// The strategies that are allowed (empty: all). See StrategyRequest.
  Accepts accepts = nullptr;
  bool baselines = true;

  /// Returns the candidates, and the part of the cluster that the best one
  /// uses. Plans leave the headroom free. If no plan fits then, all memory
  /// counts, with a remark, unless --headroom is given and the search chooses
  /// the strategy. Appends to `remarks`. An error is one line about --strategy.
  Expected<cost::PartResult> run(std::vector<std::string> &remarks) const;

private:
  Expected<cost::PartResult> runRobust(std::vector<std::string> &remarks) const;
  Expected<cost::PartResult>
  runWithHeadroom(double share, std::vector<std::string> &remarks) const;
  Expected<cost::PartResult> runAll(std::vector<std::string> &remarks) const;
  cost::Objective objective() const;
  Expected<cost::StrategyRequest> request() const;
  Expected<cost::PartResult>
  searchGroups(const cost::StrategyRequest &request,
               const cost::PartProblem &problem) const;
  std::unique_ptr<cost::Evaluator>
  evaluatorFor(const cost::Cluster &part) const;
  cost::SearchOptions optionsFor(cost::Evaluator &evaluator,
                                 const cost::Cluster &part,
                                 const cost::StrategyRequest &request) const;
};

} // namespace dpc
