//===- ModelRules.h - Rules for targets that build the model ----*- C++ -*-===//
//
// Some targets build the model from the settings that dpc writes. Their rules
// refuse every model that those settings do not describe.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "codegen/export/Targets.h"

#include <span>
#include <utility>

namespace dpc::exports {

/// A rule that depends only on the model.
Rule modelRule(std::string text, std::function<bool(const ModelShape &)> holds);

/// Returns a rule for each oddity: models that have it break the rule.
Rules oddityRules(std::span<const std::pair<Oddity, const char *>> texts);

bool isEncoder(const ModelShape &model);
/// Whether the model has a layer with experts.
bool hasMixture(const ModelShape &model);
/// Whether the model has a layer without experts.
bool hasDenseLayer(const ModelShape &model);

/// Returns the number of parameters of the model that `model` describes: layers
/// of attention with a feed-forward part or experts. Targets that build the
/// model refuse a graph with another number, because it has other parts.
int64_t parametersOf(const ModelShape &model);

} // namespace dpc::exports
