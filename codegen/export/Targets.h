//===- Targets.h - Programs that exports are written for --------*- C++ -*-===//
//
// Each target has a file that defines it, for the version that the head of the
// file names.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_CODEGEN_EXPORT_TARGETS_H
#define DPC_CODEGEN_EXPORT_TARGETS_H

#include "codegen/export/Job.h"

#include <functional>
#include <optional>

namespace dpc::exports {

/// A condition on the jobs that a target accepts.
struct Rule {
  std::string text; ///< In the target's terms: "pipelines run with ZeRO 0 or 1"
  std::function<bool(const Job &)> holds;
  /// Makes the rule hold with the smallest change of the strategy. Returns
  /// false if no strategy with as many ranks satisfies the rule. May be null.
  std::function<bool(Job &)> mend;
  /// The rule depends on the model or the command line, not on the strategy.
  bool isOfJob = false;
  /// The key of the strategy that this rule checks, unless the rules of all
  /// targets check it.
  std::string_view key = {};
};

struct Legality {
  std::string rule;     ///< The text of the first broken rule; "" if all hold.
  bool isOfJob = false; ///< No strategy satisfies the broken rule.
  /// The mended strategy, with as many ranks, if mending succeeded.
  std::optional<cost::Strategy> nearest;

  bool ok() const { return rule.empty(); }
};

/// Checks `rules` in their order and mends the strategy until all hold. A key
/// that no rule mentions must be neutral.
Legality checkLegality(const Job &job, const std::vector<Rule> &rules);

/// Whether all rules hold for `job` with `strategy`, if the stages may be cut
/// anywhere.
bool isExpressible(const Job &job, const cost::Strategy &strategy,
                   const std::vector<Rule> &rules);

using Rules = std::vector<Rule>;

struct Target {
  std::string_view name; ///< The value of --emit.
  Rules (*rules)();
  /// Requires that all rules hold for `job`.
  Exported (*write)(const Job &job);
  /// The software profile (cost-model/machine/Software.h) fitted to published
  /// runs of the target, or "".
  std::string_view software = "";
};

const std::vector<Target> &targets();

/// The target called `name`, or null.
const Target *findTarget(std::string_view name);

extern const Target accelerate, calculon, colossalAi, deepSpeed, galvatron,
    megatron, torchtitan;

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_TARGETS_H
