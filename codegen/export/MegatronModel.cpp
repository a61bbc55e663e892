//===- MegatronModel.cpp - Flags of Megatron-LM that define the model -----===//
//
// The terms are those of megatron/core/models/gpt/gpt_model.py and
// bert/bert_model.py (August 2026). megatronModelRules refuses all models that
// these classes do not compute.
//
//===----------------------------------------------------------------------===//
#include "codegen/export/Megatron.h"
#include "codegen/export/ModelRules.h"

#include <algorithm>
#include <cmath>

namespace dpc::exports {

static bool knowsActivation(const ModelShape &model) {
  if (model.hasSwiglu)
    return model.activation == "silu";
  // The fused kernel, which is the only one with tanh, adds a bias.
  return model.activation == "gelu" ||
         (model.activation == "gelu_tanh" && model.hasBias);
}

static Rules megatronOddities() {
  static const std::pair<Oddity, const char *> kTexts[] = {
      {Oddity::furtherTokens,
       "dpc's export for Megatron-LM has no multi-token prediction"},
      {Oddity::postNorm,
       "Megatron-LM normalizes the input of attention and of feed-forward "
       "parts, not their sums"},
      {Oddity::parallelParts,
       "Megatron-LM's feed-forward parts read the sum after attention, not the "
       "same sum as attention"},
      {Oddity::addedMask, "Megatron-LM adds no mask to causal scores (ALiBi)"},
      {Oddity::window, "dpc's export for Megatron-LM has no windows of keys"},
      {Oddity::sinks, "dpc's export for Megatron-LM has no attention sinks"},
      {Oddity::otherScale,
       "Megatron-LM divides scores by the root of the head size"},
      {Oddity::unequalNorms,
       "Megatron-LM's norms have one epsilon (--norm-epsilon)"},
      {Oddity::severalActivations,
       "Megatron-LM's feed-forward parts have one activation"},
      {Oddity::partialRope,
       "dpc's export for Megatron-LM rotates all elements of a head"},
      {Oddity::otherRouter,
       "dpc's export for Megatron-LM chooses experts by a softmax without "
       "bias"},
      {Oddity::otherEnds,
       "Megatron-LM's decoders begin with an embedding and end with a norm and "
       "a head, and scale neither"},
      {Oddity::dropout, "dpc's export for Megatron-LM has no dropout"},
  };
  return oddityRules(kTexts);
}

Rules megatronModelRules() {
  Rules rules = megatronOddities();
  rules.push_back(
      modelRule("the flags of Megatron-LM state all sizes of a layer and the "
                "vocabulary; the graph of the model does not show them",
                [](const ModelShape &model) {
                  return model.isTransformer() && model.vocabulary > 0;
                }));
  rules.push_back(modelRule(
      "Megatron-LM's feed-forward parts have SwiGLU, gelu, or, with biases, "
      "gelu with tanh",
      [](const ModelShape &model) {
        return model.activation.empty() || knowsActivation(model);
      }));
  rules.push_back(
      modelRule("Megatron-LM gives a single expert its share of the softmax "
                "(--moe-router-pre-softmax), not 1",
                [](const ModelShape &model) {
                  return model.expertsPerToken != 1 || !model.sharesSumToOne;
                }));
  rules.push_back(modelRule(
      "Megatron-LM computes rotary frequencies from a base that is a whole "
      "number (--rotary-base); those of the graph are others or not readable",
      [](const ModelShape &model) {
        return !model.hasRope || (model.ropeBase > 0 &&
                                  model.ropeBase == std::round(model.ropeBase));
      }));
  rules.push_back(modelRule(
      "Megatron-LM's flags describe layers of attention with a feed-forward "
      "part or experts, and biases of all GEMMs, of none or of q, k and v; "
      "this model has another number of parameters than they give",
      [](const ModelShape &model) {
        return model.parameters == 0 || model.parameters == parametersOf(model);
      }));
  return rules;
}

/// Returns "([0]*1+[1]*3)": one layer without experts, then three with them.
static std::string layerPattern(const std::vector<bool> &hasExperts) {
  std::ostringstream text;
  text << "\"(";
  for (size_t from = 0, to = 0; from < hasExperts.size(); from = to) {
    while (to < hasExperts.size() && hasExperts[to] == hasExperts[from])
      ++to;
    text << (from > 0 ? "+" : "") << "[" << hasExperts[from] << "]*"
         << to - from;
  }
  text << ")\"";
  return text.str();
}

static void addExperts(Command &command, const ModelShape &model) {
  command.add("num-experts", model.experts);
  command.addSize("moe-ffn-hidden-size", model.expertWidth);
  command.addSize("moe-router-topk", model.expertsPerToken);
  command.addSize("moe-shared-expert-intermediate-size", model.sharedWidth);
  if (hasDenseLayer(model))
    command.add("moe-layer-freq", layerPattern(model.hasExperts));
  if (!model.sharesSumToOne)
    command.add("moe-router-pre-softmax");
  command.add("moe-router-load-balancing-type", "none");
  command.add("moe-token-dispatcher-type", "alltoall");
  if (model.slotsPerChoice > 0) {
    command.add("moe-expert-capacity-factor", model.slotsPerChoice);
    command.add("moe-token-drop-policy", "position");
  }
}

static void addPositions(Command &command, const ModelShape &model) {
  command.addSize("seq-length", model.sequence);
  command.add("max-position-embeddings",
              std::max(model.positions, model.sequence));
  if (model.positions > 0) {
    command.add("position-embedding-type", "learned_absolute");
  } else if (model.hasRope) {
    command.add("position-embedding-type", "rope");
    command.addSize("rotary-base", std::llround(model.ropeBase));
  } else {
    command.add("position-embedding-type", "none");
  }
}

static void addSizes(Command &command, const ModelShape &model) {
  command.addSize("num-layers", model.layers);
  command.addSize("hidden-size", model.hidden);
  command.addSize("ffn-hidden-size", model.feedForward);
  command.addSize("num-attention-heads", model.heads);
  if (model.heads > 0 && model.headSize * model.heads != model.hidden)
    command.addSize("kv-channels", model.headSize);
  if (model.kvHeads != model.heads) {
    command.add("group-query-attention");
    command.addSize("num-query-groups", model.kvHeads);
  }
  command.addSize("vocab-size", model.vocabulary);
  command.add("make-vocab-size-divisible-by", 1);
}

static void addParts(Command &command, const ModelShape &model) {
  if (!model.isTied)
    command.add("untie-embeddings-and-output-weights");
  if (!model.hasBias)
    command.add("disable-bias-linear");
  if (!model.hasBias && model.hasQkvBias)
    command.add("add-qkv-bias");
  if (model.hasSwiglu)
    command.add("swiglu");
  else if (model.activation == "gelu")
    command.add("no-bias-gelu-fusion"); // its kernel computes gelu with tanh
  command.add("normalization", model.hasRmsNorm ? "RMSNorm" : "LayerNorm");
  if (model.normEps > 0)
    command.add("norm-epsilon", model.normEps);
  if (model.hasHeadNorms)
    command.add("qk-layernorm");
  command.add("attention-dropout", "0.0");
  command.add("hidden-dropout", "0.0");
}

void addMegatronModel(Command &command, const Job &job) {
  const ModelShape &model = job.model;
  addSizes(command, model);
  addPositions(command, model);
  addParts(command, model);
  if (hasMixture(model))
    addExperts(command, model);
  if (isEncoder(model))
    command.add("bert-no-binary-head");
}

std::vector<std::string> megatronModelRemarks(const Job &job) {
  std::vector<std::string> remarks;
  const ModelShape &model = job.model;
  int64_t ranks = job.strategy.tp.ranks;
  if (model.vocabulary % ranks != 0)
    remarks.push_back(
        "megatron.sh: Megatron-LM pads the vocabulary of " +
        std::to_string(model.vocabulary) + " to a multiple of tp, " +
        std::to_string((model.vocabulary + ranks - 1) / ranks * ranks));
  if (job.optimizer.weightDecay > 0)
    remarks.emplace_back("megatron.sh: Megatron-LM decays no biases and no "
                         "weights of norms, dpc all weights");
  if (model.slotsPerChoice > 0)
    remarks.emplace_back(
        "megatron.sh: Megatron-LM counts the slots of an expert over all "
        "tokens of a micro-batch on a rank, the model over its own groups: "
        "they drop different tokens");
  return remarks;
}

} // namespace dpc::exports
