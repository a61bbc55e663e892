//===- ExpressiblePlan.h - The best plan of an export target ----*- C++ -*-===//
//
// Finds the best plan that a target of --emit can express:
//
//   minimize  value(s)  over  s that fit  subject to  rules(s)
//
// (E1) The candidates of the finished search are sorted, so the first legal one
//      is the best. If its value is within a few per cent of the winner's, no
//      other search is needed.
// (E2) Otherwise the legal strategies are searched: first those that --strategy
//      allows, then all.
// (E3) Placement and batch shares are known only after a strategy is evaluated.
//      If they break a rule, the strategy is changed to obey the rule, and
//      evaluated again.
// (E4) Rules may demand that the number of stages divides the layers. This
//      leaves few stages if the number of nodes shares no factor with the
//      layers: 128 nodes and 126 layers allow two stages. If the best plan
//      takes more than 1.5 times as long as the winner, or if there is no plan,
//      fewer nodes are tried: the two largest numbers of the form d 2^k, where
//      d is an odd divisor of the number of layers.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Targets.h"
#include "cost-model/search/Search.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

class ExpressiblePlan {
public:
  using Accepts = std::function<bool(const cost::Strategy &)>;
  /// Searches with other options, among the strategies that `accepts` allows
  /// (all if empty).
  using Search = std::function<Expected<cost::SearchResult>(
      const CompileOptions &, const Accepts &accepts)>;

  /// `job` has the winning strategy of `result`. Keeps references to all
  /// arguments.
  ExpressiblePlan(const CompileOptions &options, const exports::Job &job,
                  const std::vector<exports::Rule> &rules,
                  const cost::SearchResult &result, int64_t devices,
                  Search search)
      : options(options), job(job), rules(rules), result(result),
        devices(devices), search(std::move(search)) {}

  /// Returns the end of a refusal, which names the best plan or says that no
  /// plan fits. If the user fixed the strategy, it also names the nearest plan
  /// that fits. Returns "" if the target refuses the model.
  std::string text(const exports::Legality &legality);

private:
  struct Plan {
    cost::Strategy strategy;
    double stepSeconds = 0, memoryBytes = 0;
  };

  static Plan planOf(const cost::Candidate &candidate);
  std::optional<Plan> evaluate(const cost::Strategy &strategy);
  std::optional<Plan> bestOf(const cost::SearchResult &found);
  Expected<cost::SearchResult> searchLegal(const CompileOptions &asked) const;
  std::optional<Plan> bestLegal();
  std::optional<Plan> bestOfAll();
  std::vector<int64_t> ranksToTry() const;
  bool isWithin(double factor, const Plan &plan) const;
  bool isBetter(const Plan &plan, const std::optional<Plan> &than) const;
  void improve(std::optional<Plan> &best, const cost::SearchResult &found);
  void noteTooLarge(const Plan &plan, const cost::SearchResult &found);
  double valueOf(double seconds, double bytes) const;
  std::string describe(const Plan &plan) const;

  const CompileOptions &options;
  const exports::Job &job;
  const std::vector<exports::Rule> &rules;
  const cost::SearchResult &result;
  int64_t devices;
  Search search;
  std::string smallest; ///< smallest plan that does not fit, as text
};

} // namespace dpc
