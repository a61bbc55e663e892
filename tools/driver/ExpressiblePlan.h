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
// (E4) Rules ask for pipelines whose stages divide the layers, of which numbers
//      of nodes that share no factor with these have few: 128 nodes and 126
//      layers two stages. Where what was found is half as slow again as the
//      winner, or nothing was, fewer nodes are tried: of d 2^k, with odd
//      divisors d of the layers, the two most.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_TOOLS_DRIVER_EXPRESSIBLEPLAN_H
#define DPC_TOOLS_DRIVER_EXPRESSIBLEPLAN_H

#include "codegen/export/Legality.h"
#include "cost-model/search/Search.h"
#include "tools/driver/CompileOptions.h"

namespace dpc {

class ExpressiblePlan {
public:
  using Accepts = std::function<bool(const cost::Strategy &)>;
  /// Searches as other options say, in the strategies that are accepted; all
  /// where `accepts` is empty.
  using Search = std::function<Expected<cost::SearchResult>(
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
  Expected<cost::SearchResult> searchLegal(const CompileOptions &asked) const;
  std::optional<Plan> bestLegal();
  std::optional<Plan> bestOfAll();
  std::vector<int64_t> ranksToTry() const;
  bool isWithin(double factor, const Plan &plan) const;
  bool isBetter(const Plan &plan, const std::optional<Plan> &than) const;
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

#endif // DPC_TOOLS_DRIVER_EXPRESSIBLEPLAN_H
