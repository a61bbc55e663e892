//===- RunSettings.h - comparing what two plans compute ---------*- C++ -*-===//
#pragma once

#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// Hashes of the model's graph, see GraphHash.
inline constexpr const char *kGraph = "graph";
inline constexpr const char *kGraphConstants = "graph_constants";
/// In a training plan: the hashes of the graph that `dpc-opt --infer` makes.
inline constexpr const char *kEvalGraph = "eval_graph";
inline constexpr const char *kEvalConstants = "eval_constants";
/// The seed of dropout, which is a constant of the graph of training.
inline constexpr const char *kDropoutSeed = "dropout_seed";
inline constexpr const char *kPrecision = "precision";

/// Returns the value of setting `name`, or "".
std::string settingOf(const std::vector<Setting> &settings,
                      const std::string &name);

/// Returns how `now` differs from `before`, such as "optimizer sgd instead of
/// adamw, another graph", or "". Constants of the graph count only if both have
/// the same batch size. Without `before`, nothing is known to differ.
std::string differencesFrom(const std::vector<Setting> &before,
                            const std::vector<Setting> &now, bool hasSameBatch);

/// Whether the inference plan `evaluation` computes the loss that `training`
/// trains, in evaluation mode. True if either plan does not know its graph. See
/// differencesFrom() for `hasSameBatch`.
bool hasSameLoss(const Plan &training, const Plan &evaluation,
                 bool hasSameBatch);

/// Returns the settings for people: "adamw, lr 0.001, ..".
std::string describeSettings(const std::vector<Setting> &settings);

} // namespace dpc::rt
