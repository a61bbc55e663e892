//===- ModelRules.cpp - Rules for targets that build the model ------------===//
#include "codegen/export/ModelRules.h"

#include <algorithm>

namespace dpc::exports {

Rule modelRule(std::string text,
               std::function<bool(const ModelShape &)> holds) {
  return {std::move(text), [=](const Job &job) { return holds(job.model); },
          nullptr, /*isOfJob=*/true};
}

bool isEncoder(const ModelShape &model) {
  return model.kind == ModelKind::encoder;
}

bool hasMixture(const ModelShape &model) {
  return std::ranges::count(model.hasExperts, true) > 0;
}

bool hasDenseLayer(const ModelShape &model) {
  return std::ranges::count(model.hasExperts, true) < model.layers;
}

Rules oddityRules(std::span<const std::pair<Oddity, const char *>> texts) {
  Rules rules;
  for (const auto &[oddity, text] : texts)
    rules.push_back(modelRule(text, [oddity](const ModelShape &model) {
      return !model.oddities.contains(oddity);
    }));
  return rules;
}

static int64_t normParameters(const ModelShape &model, int64_t size) {
  return model.hasRmsNorm ? size : 2 * size;
}

static int64_t attentionParameters(const ModelShape &model) {
  int64_t queries = model.heads * model.headSize;
  int64_t projected = queries + 2 * model.kvHeads * model.headSize;
  int64_t count = model.hidden * (projected + queries);
  if (model.hasBias || model.hasQkvBias)
    count += projected;
  if (model.hasBias)
    count += model.hidden;
  if (model.hasHeadNorms)
    count += 2 * normParameters(model, model.headSize);
  return count;
}

/// Returns the parameters of a feed-forward part or of an expert.
static int64_t partParameters(const ModelShape &model, int64_t width) {
  int64_t first = model.hasSwiglu ? 2 * width : width;
  int64_t count = model.hidden * (first + width);
  return model.hasBias && width > 0 ? count + first + model.hidden : count;
}

static int64_t mixtureParameters(const ModelShape &model) {
  return model.experts *
             (model.hidden + partParameters(model, model.expertWidth)) +
         partParameters(model, model.sharedWidth);
}

/// Returns the parameters of the head: those of an encoder transform their
/// input first.
static int64_t headParameters(const ModelShape &model) {
  int64_t count = model.isTied ? 0 : model.vocabulary * model.hidden;
  if (isEncoder(model))
    count += model.hidden * model.hidden + model.hidden +
             normParameters(model, model.hidden) + model.vocabulary;
  return count;
}

int64_t parametersOf(const ModelShape &model) {
  int64_t count = (model.vocabulary + model.positions) * model.hidden +
                  normParameters(model, model.hidden) + headParameters(model);
  int64_t mixtures = std::ranges::count(model.hasExperts, true);
  count += model.layers * (2 * normParameters(model, model.hidden) +
                           attentionParameters(model));
  count += (model.layers - mixtures) * partParameters(model, model.feedForward);
  return count + mixtures * mixtureParameters(model);
}

} // namespace dpc::exports
