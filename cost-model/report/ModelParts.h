//===- ModelParts.h - Known parts of a model in the report ------*- C++ -*-===//
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace dpc::cost {

/// The parts of a transformer that the report names. Sizes are in elements.
struct ModelParts {
  int64_t heads = 0; ///< Of the queries; 0: no attention is recognized.
  int64_t keyHeads = 0;
  int64_t keySize = 0, valueSize = 0; ///< Of one head.
  /// The size of the vector of a token from which all heads compute keys and
  /// values, and of the one for queries (multi-head latent attention, MLA;
  /// DeepSeek-V2, arXiv 2405.04434, section 2.1); 0: none.
  int64_t latent = 0, queryLatent = 0;
  int64_t attentions = 0, windowed = 0, withSinks = 0; ///< Numbers of ops.
  int64_t window = 0; ///< Keys of a query in the narrowest windowed op.
  /// How many tokens the model predicts at a position besides the next one
  /// (multi-token prediction, MTP; DeepSeek-V3, arXiv 2412.19437, section 2.2).
  int64_t furtherTokens = 0;
};

/// Returns lines that name MLA, windows, sinks and MTP, each with a newline, or
/// "".
std::string modelPartsText(const ModelParts &parts);

/// Returns the entries "attention" and "further_tokens" of report.json, if the
/// model has them.
nlohmann::ordered_json modelPartsToJson(const ModelParts &parts);

} // namespace dpc::cost
