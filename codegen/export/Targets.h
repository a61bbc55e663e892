//===- Targets.h - Programs that exports are written for --------*- C++ -*-===//
//
// Each target is defined in a separate file. The comment at the top of that
// file names the supported version of the target.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Job.h"

#include <functional>
#include <optional>

namespace dpc::exports {

/// A condition on the jobs that a target accepts.
struct Rule {
  std::string text; ///< In the target's terms: "pipelines run with ZeRO 0 or 1"
  std::function<bool(const Job &)> holds;
  /// Changes the strategy as little as possible so that the rule holds. Returns
  /// false if no strategy with the same number of ranks satisfies the rule. May
  /// be null.
  std::function<bool(Job &)> mend;
  /// The rule depends on the model or the command line, not on the strategy.
  bool isOfJob = false;
  /// The strategy key that this rule checks; empty if all targets check it.
  std::string_view key = {};
};

struct Legality {
  std::string rule;     ///< The text of the first broken rule; "" if all hold.
  bool isOfJob = false; ///< no strategy satisfies the broken rule
  /// The mended strategy, if a rule was broken and mending succeeded. It has
  /// the same number of ranks.
  std::optional<cost::Strategy> nearest;

  bool ok() const { return rule.empty(); }
};

/// Checks `rules` in order and mends the strategy until all rules hold. Keys
/// outside of kKeysOfAllTargets that no rule checks must have neutral values.
Legality checkLegality(const Job &job, const std::vector<Rule> &rules);

/// Whether all rules hold for `job` with `strategy`. Assumes that stages may
/// have any number of layers.
bool isExpressible(const Job &job, const cost::Strategy &strategy,
                   const std::vector<Rule> &rules);

using Rules = std::vector<Rule>;

struct Target {
  std::string_view name;    ///< the value of --emit and --for
  std::string_view product; ///< as its authors spell it: "Megatron-LM"
  Rules (*rules)();
  /// Requires that all rules hold for `job`.
  Exported (*write)(const Job &job);
  /// The software profile (cost-model/machine/Software.h) that gives time and
  /// memory of the target's plans; "" if the target trains no models.
  std::string_view software = "";
  /// Whether the profile was fitted to published runs of the target. Otherwise,
  /// it is the profile of the most similar software.
  bool isFitted = false;
};

const std::vector<Target> &targets();

/// The target called `name`, or null.
const Target *findTarget(std::string_view name);

/// The targets that train models and so have a software profile: the values of
/// --for besides "dpc".
std::vector<const Target *> trainingTargets();

extern const Target accelerate, calculon, colossalAi, deepSpeed, galvatron,
    maxText, megatron, torchtitan;

} // namespace dpc::exports
