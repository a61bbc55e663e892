//===- PlanSearch.h - The search as the command line asks for it -*- C++
//-*-===//
#ifndef DPC_TOOLS_DRIVER_PLANSEARCH_H
#define DPC_TOOLS_DRIVER_PLANSEARCH_H

#include "cost-model/search/IdleDevices.h"
#include "tools/driver/ModelProgram.h"
#include "tools/driver/Session.h"

namespace dpc {

/// The search over a program for a cluster. All must outlive it.
struct PlanSearch {
  const CompileOptions &options;
  const cost::Cluster &cluster;
  const ModelProgram &program;
  /// The order of the cluster's groups of nodes is decided, and that all are
  /// used.
  bool isArranged = false;
  ProgressView *progress = nullptr;
  /// Of all strategies these only; empty: all. See StrategyRequest.
  std::function<bool(const cost::Strategy &)> accepts = nullptr;
  bool baselines = true; ///< Evaluates these as well.

  /// The best plan, and what it uses of the cluster. Appends what is worth
  /// knowing to `remarks`. Fails in one line on what --strategy asks for.
  Expected<cost::PartResult> run(std::vector<std::string> &remarks) const;

private:
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

#endif // DPC_TOOLS_DRIVER_PLANSEARCH_H
