//===- Legality.h - What a target cannot express ----------------*- C++ -*-===//
#ifndef DPC_CODEGEN_EXPORT_LEGALITY_H
#define DPC_CODEGEN_EXPORT_LEGALITY_H

#include "codegen/export/Job.h"

#include <functional>
#include <optional>

namespace dpc::exports {

/// One thing that a target demands of a strategy.
struct Rule {
  /// In the target's words: "pipelines run with ZeRO 0 or 1".
  std::string text;
  std::function<bool(const Job &)> holds;
  /// Changes the strategy, as little as it takes, so that the rule holds.
  /// Returns false where no strategy of so many ranks does.
  std::function<bool(Job &)> mend;
  /// Of the model or the command line: all strategies break it, or none.
  bool isOfJob = false;
  /// The key of the strategy that this target expresses by this rule, where it
  /// is none that all targets have rules for.
  std::string_view key = {};
};

struct Legality {
  std::string rule; ///< The first that is broken; empty where there is none.
  bool isOfJob = false; ///< No strategy mends it.
  /// What the target takes, of as many ranks; none where nothing near is.
  std::optional<cost::Strategy> nearest;

  bool ok() const { return rule.empty(); }
};

/// Tries `rules` in their order, then mends what is broken until all hold. A
/// key that no rule is about must be neutral.
Legality checkLegality(const Job &job, const std::vector<Rule> &rules);

/// Whether all hold for `job` with `strategy`, wherever its stages are cut and
/// its ranks lie.
bool isExpressible(const Job &job, const cost::Strategy &strategy,
                   const std::vector<Rule> &rules);

} // namespace dpc::exports

#endif // DPC_CODEGEN_EXPORT_LEGALITY_H
