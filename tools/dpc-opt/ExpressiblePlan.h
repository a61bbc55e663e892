//===- ExpressiblePlan.h - What a target of exports takes -------*- C++ -*-===//
//
// Where a target of --emit cannot express the plan that was chosen: which plan
// it can express is best, and what that costs. One predicate, the target's
// rules, refuses and searches:
//
//   minimize  value(s)  over  s that fit  subject to  rules(s)
//
// (E1) The candidates of the search that was made are sorted: the first one
//      that is legal is the best of them, and where it comes within a few per
//      cent of the winner, nobody else is looked for.
// (E2) Else there is one more search, over the strategies that are legal:
//      first those that --strategy allows, then all.
// (E3) Where ranks lie, and what they take of the batch, is found when a
//      strategy is evaluated. Where that breaks a rule, it is evaluated once
//      more as the rule has it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DPC_OPT_EXPRESSIBLEPLAN_H
#define DPC_TOOLS_DPC_OPT_EXPRESSIBLEPLAN_H

#include "cost-model/Search.h"
#include "tools/dpc-opt/Options.h"
#include "tools/dpc-opt/export/Legality.h"

namespace dpc {

class ExpressiblePlan {
public:
  using Accepts = std::function<bool(const cost::Strategy &)>;
  /// Searches as other options say, in the strategies that are accepted; all
  /// where `accepts` is empty.
  using Search = std::function<cost::Result<cost::SearchResult>(
      const CompileOptions &, const Accepts &accepts)>;

  /// `job` has the strategy of the winner of `result`; all outlive this.
  ExpressiblePlan(const CompileOptions &options, const exports::Job &job,
                  const std::vector<exports::Rule> &rules,
                  const cost::SearchResult &result, int64_t devices,
                  Search search)
      : options(options), job(job), rules(rules), result(result),
        devices(devices), search(std::move(search)) {}

  /// In words that follow a refusal: "nearest: ..." where the strategy that was
  /// asked for can be mended and then fits, and the best of all; or that none
  /// fits. "" where the model is what is refused.
  std::string text(const exports::Legality &legality);

private:
  struct Plan {
    cost::Strategy strategy; ///< As it was placed.
    double stepSeconds = 0, memoryBytes = 0;
  };

  std::optional<Plan> evaluate(const cost::Strategy &strategy);
  std::optional<Plan> bestOf(const cost::SearchResult &found);
  std::optional<Plan> bestOfAll();
  bool isNear(const Plan &plan) const;
  double valueOf(double seconds, double bytes) const;
  std::string describe(const Plan &plan) const;

  const CompileOptions &options;
  const exports::Job &job;
  const std::vector<exports::Rule> &rules;
  const cost::SearchResult &result;
  int64_t devices;
  Search search;
  std::string smallest; ///< Of those that do not fit.
};

} // namespace dpc

#endif // DPC_TOOLS_DPC_OPT_EXPRESSIBLEPLAN_H
