//===- ModelParts.cpp - Known parts of a model in the report --------------===//
#include "cost-model/report/ModelParts.h"

namespace dpc::cost {

std::string modelPartsText(const ModelParts &parts) {
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string text;
  if (parts.latent > 0) {
    text += "attention: multi-head latent (MLA), " + number(parts.heads) +
            " heads with keys of " + number(parts.keySize) + " and values of " +
            number(parts.valueSize) + " elements, computed from a vector of " +
            number(parts.latent);
    if (parts.queryLatent > 0)
      text += "; queries from one of " + number(parts.queryLatent);
    text += "\n";
  }
  auto share = [&](int64_t count) {
    return "in " + number(count) + " of " + number(parts.attentions) +
           " layers";
  };
  if (parts.windowed > 0)
    text += "attention: a window of " + number(parts.window) + " keys " +
            share(parts.windowed) + "\n";
  if (parts.withSinks > 0)
    text += "attention: sinks (scores without values) " +
            share(parts.withSinks) + "\n";
  if (parts.furtherTokens > 0)
    text += "multi-token prediction (MTP): " + number(parts.furtherTokens) +
            (parts.furtherTokens == 1 ? " further token" : " further tokens") +
            " at each position\n";
  return text;
}

nlohmann::ordered_json modelPartsToJson(const ModelParts &parts) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (parts.heads > 0)
    json["attention"] = {{"heads", parts.heads},
                         {"key_heads", parts.keyHeads},
                         {"key_size", parts.keySize},
                         {"value_size", parts.valueSize},
                         {"latent", parts.latent},
                         {"query_latent", parts.queryLatent},
                         {"layers", parts.attentions},
                         {"window", parts.window},
                         {"windowed_layers", parts.windowed},
                         {"layers_with_sinks", parts.withSinks}};
  if (parts.furtherTokens > 0)
    json["further_tokens"] = parts.furtherTokens;
  return json;
}

} // namespace dpc::cost
