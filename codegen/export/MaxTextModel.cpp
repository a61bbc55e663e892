//===- MaxTextModel.cpp - MaxText's keys of a model -----------------------===//
//
// The terms are those of maxtext/layers/nnx_decoders.py and models/qwen2.py,
// qwen3.py and gpt3.py (MaxText 0.2.5). maxTextModelRules refuses all models
// that these classes do not compute.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/MaxText.h"
#include "codegen/export/ModelRules.h"
#include "codegen/export/Rules.h"

#include <cmath>

namespace dpc::exports {

/// By activation of the graph: the name in jax.nn, whose gelu uses tanh.
static const std::map<std::string, const char *> kActivations = {
    {"silu", "silu"},
    {"gelu_tanh", "gelu"},
    {"relu", "relu"},
    {"tanh", "tanh"},
    {"sigmoid", "sigmoid"}};

/// The epsilon of the norm before feed-forward parts of gpt3, which no key
/// sets.
static constexpr double kGpt3Epsilon = 1e-6;

/// llama2 and mixtral keep the scale of attention scores in the weights of the
/// queries. qwen2 and qwen3_moe compute the same layers with the scale apart,
/// as the graph does.
static const char *blockOf(const ModelShape &model) {
  if (!model.hasRmsNorm)
    return "gpt3";
  return hasMixture(model) ? "qwen3_moe" : "qwen2";
}

static Rules maxTextOddities() {
  static const std::pair<Oddity, const char *> kTexts[] = {
      {Oddity::furtherTokens,
       "dpc's export for MaxText has no multi-token prediction"},
      {Oddity::postNorm, "dpc's export for MaxText normalizes the input of "
                         "attention and of feed-forward parts, not their sums"},
      {Oddity::parallelParts,
       "dpc's export for MaxText has feed-forward parts that read the sum "
       "after attention, not the same sum as attention"},
      {Oddity::addedMask, "MaxText adds no mask to causal scores (ALiBi)"},
      {Oddity::window, "dpc's export for MaxText has no windows of keys"},
      {Oddity::sinks, "dpc's export for MaxText has no attention sinks"},
      {Oddity::otherScale,
       "MaxText divides scores by the root of the head size"},
      {Oddity::unequalNorms,
       "MaxText's norms have one epsilon (normalization_layer_epsilon)"},
      {Oddity::severalActivations,
       "MaxText's feed-forward parts have one activation"},
      {Oddity::partialRope,
       "dpc's export for MaxText rotates all elements of a head"},
      {Oddity::otherRouter,
       "dpc's export for MaxText chooses experts by a softmax without bias"},
      {Oddity::otherEnds,
       "dpc's export for MaxText begins with an embedding, ends with a norm "
       "and a head, and scales neither"},
      {Oddity::dropout, "dpc's export for MaxText has no dropout"},
  };
  return oddityRules(kTexts);
}

static bool isGpt3(const ModelShape &model) {
  return model.hasBias && model.hasQkvBias && model.positions > 0 &&
         !model.hasRope && !model.hasHeadNorms && !model.hasSwiglu &&
         !hasMixture(model) && model.kvHeads == model.heads;
}

static bool knowsActivation(const ModelShape &model) {
  return model.hasSwiglu ? model.activation == "silu"
                         : kActivations.contains(model.activation);
}

static bool knowsExperts(const ModelShape &model) {
  return !hasMixture(model) ||
         (!hasDenseLayer(model) && model.sharedWidth == 0 && model.hasSwiglu &&
          !model.hasQkvBias);
}

static Rules termRules() {
  Rules rules;
  auto add = [&](const char *text,
                 const std::function<bool(const ModelShape &)> &holds) {
    rules.push_back(modelRule(text, holds));
  };
  add("MaxText trains decoders that predict the next token: the model must "
      "embed tokens, have attention that is causal in all layers, and end in a "
      "cross entropy over the vocabulary for each token",
      [](const auto &model) { return model.kind == ModelKind::decoder; });
  add("MaxText's keys state all sizes of a layer, the vocabulary and the "
      "epsilon of norms; the graph of the model does not show them",
      [](const auto &model) {
        return model.isTransformer() && model.vocabulary > 0 &&
               model.normEps > 0;
      });
  add("MaxText's decoders with RMS norms have rotary positions, and no biases "
      "but those of q, k and v",
      [](const auto &model) {
        return !model.hasRmsNorm ||
               (model.hasRope && model.positions == 0 && !model.hasBias);
      });
  add("MaxText computes rotary frequencies from a base that is a whole number "
      "(rope_max_timescale); those of the graph are others or not readable",
      [](const auto &model) {
        return !model.hasRope || (model.ropeBase > 0 &&
                                  model.ropeBase == std::round(model.ropeBase));
      });
  add("MaxText's decoders with layer norms (gpt3) have learned positions, "
      "biases of all GEMMs, as many heads of keys and values as of queries, "
      "and neither gates nor experts",
      [](const auto &model) { return model.hasRmsNorm || isGpt3(model); });
  add("MaxText's decoders with layer norms (gpt3) fix the epsilon of the norm "
      "before feed-forward parts to 1e-06",
      [](const auto &model) {
        return model.hasRmsNorm ||
               std::abs(model.normEps - kGpt3Epsilon) < 1e-3 * kGpt3Epsilon;
      });
  add("MaxText's feed-forward parts have SwiGLU, or silu, gelu with tanh, "
      "relu, tanh or sigmoid (mlp_activations)",
      knowsActivation);
  return rules;
}

Rules maxTextModelRules() {
  Rules rules = maxTextOddities();
  for (Rule &rule : termRules())
    rules.push_back(std::move(rule));
  rules.push_back(modelRule(
      "MaxText has experts in all layers or in none (qwen3_moe), with SwiGLU, "
      "and neither shared experts nor biases of q, k and v beside them",
      knowsExperts));
  rules.push_back(modelRule(
      "MaxText gives the chosen experts of a token shares that sum to 1",
      [](const auto &model) {
        return !hasMixture(model) || model.sharesSumToOne;
      }));
  rules.push_back(modelRule(
      "MaxText's keys describe layers of attention with a feed-forward part or "
      "experts; this model has another number of parameters than they give",
      [](const auto &model) {
        return model.parameters == 0 || model.parameters == parametersOf(model);
      }));
  return rules;
}

/// Sets tp to 1: a smaller degree may not satisfy the rule either.
static Rule tensorDivides(const char *text, int64_t ModelShape::*size) {
  return {text,
          [=](const Job &job) {
            return job.model.*size % job.strategy.tp.ranks == 0;
          },
          noTensor("").mend};
}

Rules maxTextSizeRules() {
  return {
      tensorDivides("MaxText divides heads over the tensor-parallel ranks: tp "
                    "divides the number of heads",
                    &ModelShape::heads),
      tensorDivides("MaxText divides the heads of keys and values over the "
                    "tensor-parallel ranks: tp divides their number",
                    &ModelShape::kvHeads),
      tensorDivides("MaxText replicates feed-forward parts whose size tp does "
                    "not divide",
                    &ModelShape::feedForward),
      tensorDivides("MaxText replicates a vocabulary that tp does not divide",
                    &ModelShape::vocabulary),
      {"MaxText replicates weights whose hidden size is no multiple of the "
       "ranks that share them: dp or hybrid_shard, times cp",
       [](const Job &job) {
         const cost::Strategy &strategy = job.strategy;
         return strategy.zero == 0 ||
                job.model.hidden % (shardRanks(strategy) * strategy.cp) == 0;
       },
       [](Job &job) {
         cost::Strategy &strategy = job.strategy;
         strategy.zero = 0;
         strategy.hybridShard = 1;
         return strategy.cp == 1 && strategy.ep == 1;
       }},
      {"MaxText divides experts evenly: ep divides their number",
       [](const Job &job) {
         return job.strategy.ep == 1 ||
                job.model.experts % job.strategy.ep == 0;
       },
       noExperts("").mend},
      {"MaxText balances a context-parallel sequence in 2 * cp equal parts",
       [](const Job &job) {
         return job.strategy.cp == 1 ||
                job.model.sequence % (2 * job.strategy.cp) == 0;
       },
       noContext("").mend},
  };
}

static void addExperts(YAML::Node &keys, const ModelShape &model) {
  keys["num_experts"] = model.experts;
  keys["num_experts_per_tok"] = model.expertsPerToken;
  keys["base_moe_mlp_dim"] = model.expertWidth;
  keys["load_balance_loss_weight"] = yamlFloat(0.0);
  bool drops = model.slotsPerChoice > 0;
  keys["sparse_matmul"] = !drops;
  keys["megablox"] = false; // a kernel of TPUs
  keys["capacity_factor"] = yamlFloat(drops ? model.slotsPerChoice : -1.0);
}

MaxTextPart maxTextModel(const ModelShape &model) {
  YAML::Node keys;
  keys["decoder_block"] = blockOf(model);
  keys["base_num_decoder_layers"] = model.layers;
  keys["base_emb_dim"] = model.hidden;
  keys["base_num_query_heads"] = model.heads;
  keys["base_num_kv_heads"] = model.kvHeads;
  keys["head_dim"] = model.headSize;
  keys["base_mlp_dim"] = model.feedForward;
  YAML::Node activations;
  activations.push_back(kActivations.at(model.activation));
  if (model.hasSwiglu)
    activations.push_back("linear");
  activations.SetStyle(YAML::EmitterStyle::Flow);
  keys["mlp_activations"] = activations;
  keys["vocab_size"] = model.vocabulary;
  keys["max_target_length"] = model.sequence;
  keys["logits_via_embedding"] = model.isTied;
  keys["normalize_embedding_logits"] = false;
  keys["normalization_layer_epsilon"] =
      yamlFloat(static_cast<float>(model.normEps));
  if (model.hasRmsNorm) {
    keys["rope_type"] = "default";
    keys["rope_max_timescale"] = std::llround(model.ropeBase);
    keys["attention_bias"] = model.hasQkvBias;
    keys["use_qk_norm"] = model.hasHeadNorms;
  } else {
    keys["trainable_position_size"] = model.positions;
  }
  if (hasMixture(model))
    addExperts(keys, model);
  keys["enable_dropout"] = false;
  bool isLlama = model.hasRmsNorm && !model.hasQkvBias && !model.hasHeadNorms;
  std::string block = hasMixture(model) ? "mixtral" : "llama2";
  std::string comment = "The model";
  if (isLlama)
    comment += ". decoder_block " + block +
               " keeps the scale of scores in the weights of the queries; " +
               blockOf(model) + " has the same layers with the scale apart";
  return {comment, keys};
}

std::vector<std::string> maxTextModelRemarks(const Job &job) {
  std::vector<std::string> remarks;
  if (hasMixture(job.model) && job.model.slotsPerChoice > 0)
    remarks.emplace_back(
        "maxtext.yml: MaxText counts the slots of an expert over the tokens of "
        "a sequence, the model over its own groups: they drop different "
        "tokens");
  return remarks;
}

} // namespace dpc::exports
