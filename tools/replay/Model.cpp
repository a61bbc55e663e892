//===- Model.cpp - The model of a published run ---------------------------===//
#include "tools/replay/Model.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace dpc::validate {

using model::Family;
using model::ModelDims;

int64_t RowReader::size(const char *column, std::optional<int64_t> otherwise) {
  if (row.isEmpty(column) && otherwise)
    return *otherwise;
  constexpr int64_t kLargest = int64_t(1) << 31; // products stay exact
  std::optional<int64_t> value = row.integer(column);
  if (value && *value >= 1 && *value <= kLargest)
    return *value;
  fail(std::string(column) + (row.isEmpty(column) ? " is not stated"
                              : !value || *value < 1
                                  ? " is not a positive number"
                                  : " is above " + std::to_string(kLargest)));
  return 1;
}

/// The letters and digits of a name, so that "GPT OSS 20B" is "gpt-oss-20b".
static std::string plainName(const std::string &name) {
  std::string plain;
  for (unsigned char c : name)
    if (std::isalnum(c))
      plain += static_cast<char>(std::tolower(c));
  return plain;
}

/// Returns the second part of the notes: "spec=full; DeepSeekV3; ...".
static std::string secondNote(const std::string &notes) {
  size_t begin = notes.find(';');
  if (begin == std::string::npos)
    return "";
  return notes.substr(begin + 1, notes.find(';', begin + 1) - begin - 1);
}

/// Returns the published model that `row` names, or null.
static const model::Preset *presetOf(const Row &row) {
  std::string name = plainName(
      row.isEmpty("model") ? secondNote(row.at("notes")) : row.at("model"));
  for (const model::Preset &preset : model::presets())
    if (name.starts_with(plainName(std::string(preset.name))))
      return &preset;
  return nullptr;
}

/// Returns the number that group 1 of `form` matches in `text`.
static std::optional<int64_t> numberIn(const std::string &text,
                                       const char *form) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(form)))
    return std::nullopt;
  return std::stoll(match[1].str());
}

namespace {

class ModelReader : RowReader {
public:
  ModelReader(const Row &row, int64_t tp) : RowReader(row), tp(tp) {}
  Expected<ModelDims> read();

private:
  int64_t tp;
  const model::Preset *preset = nullptr; ///< null: the row names none
  ModelDims dims;

  bool mentions(const char *word) const {
    return row.at("notes").find(word) != std::string::npos;
  }
  void take(int64_t &value, const char *column, const char *note);
  void chooseFamily();
  void readMixture();
  void readLatent();
  bool isTied() const;
};

} // namespace

/// Sets `value` to what `column` states, or what the notes state in the form
/// `note`.
void ModelReader::take(int64_t &value, const char *column, const char *note) {
  if (std::optional<int64_t> stated = row.integer(column))
    value = *stated;
  else if (std::optional<int64_t> noted = numberIn(row.at("notes"), note))
    value = *noted;
}

void ModelReader::chooseFamily() {
  const std::string &family = row.at("model_family");
  if (family == "moe") {
    preset = presetOf(row);
    dims = preset ? preset->dims : ModelDims::defaults(Family::moe);
    if (!preset)
      dims.experts = dims.topk = dims.expertFfn = 0; // to be stated
    dims.capacity = 0;
  } else if (family == "llama" || family == "qwen") {
    dims = ModelDims::defaults(Family::llama);
    dims.qkNorm = plainName(row.at("model")).starts_with("qwen3");
  } else if (family != "gpt") {
    fail("model family '" + family + "' is not gpt, llama, qwen or moe");
  } else if (row.at("source_title").find("MPT") != std::string::npos) {
    dims = ModelDims::defaults(Family::mpt);
  } else {
    dims = ModelDims::defaults(mentions("ALiBi") ? Family::bloom : Family::gpt);
  }
}

/// Two forms: "tied embeddings", and "tied embeddings below 4B" of a table of
/// models.
bool ModelReader::isTied() const {
  std::smatch match;
  const std::string &notes = row.at("notes");
  if (!std::regex_search(
          notes, match,
          std::regex(R"(\btied embeddings(?: below (\d+(?:\.\d+)?)B)?)")))
    return dims.tied;
  std::optional<double> billions = row.number("params_b");
  return !match[1].matched ||
         (billions && *billions < std::stod(match[1].str()));
}

void ModelReader::readMixture() {
  take(dims.experts, "experts", R"(\bmoe E=(\d+))");
  take(dims.topk, "top_k", R"(\btop(\d+)\b)");
  take(dims.expertFfn, "moe_ffn", R"(\bmoe_ffn=(\d+))");
  take(dims.sharedExperts, "shared_experts", R"(\+(\d+) shared\b)");
  take(dims.denseLayers, "dense_layers", R"(\bfirst (\d+) layers dense\b)");
  dims.furtherTokens = mentions("w/ MTP") ? 1 : 0;
  take(dims.furtherTokens, "mtp", R"(\bMTP (\d+)\b)");
  if (!preset && (dims.experts < 1 || dims.topk < 1 || dims.expertFfn < 1))
    fail("the sizes of the mixture are not stated");
}

/// The column head_dim counts all elements of a key, also the rotated ones.
void ModelReader::readLatent() {
  take(dims.qRank, "q_rank", R"(\bq_lora (\d+))");
  take(dims.kvRank, "kv_rank", R"(\bkv_lora (\d+))");
  bool isLatent = dims.kvRank > 0 || row.at("attention") == "mla";
  if (isLatent && (dims.kvRank < 1 || dims.ropeDim < 1))
    return fail("the sizes of latent attention are not stated");
  if (!isLatent)
    take(dims.headDim, "head_dim", R"(\bhead_dim=(\d+))");
}

Expected<ModelDims> ModelReader::read() {
  chooseFamily();
  if (!error.empty())
    return Error{error};
  dims.layers = size("layers");
  dims.hidden = size("hidden");
  dims.heads = size("heads");
  dims.ffn = size("ffn_hidden", preset ? dims.ffn : 0);
  dims.kvHeads = size("kv_heads", preset ? dims.kvHeads : dims.heads);
  dims.vocab = size("vocab");
  dims.seq = size("seq_len");
  dims.tied = isTied();
  if (dims.isGated())
    readLatent();
  if (dims.family == Family::moe)
    readMixture();
  if (dims.family == Family::gpt || dims.family == Family::bloom) {
    int64_t unit = 128 * tp;
    dims.vocab = (dims.vocab + unit - 1) / unit * unit;
  }
  if (!error.empty())
    return Error{error};
  dims.complete();
  if (std::string why = dims.refusal(); !why.empty())
    return Error{"dims are refused: " + why};
  return dims;
}

Expected<ModelDims> dimsOf(const Row &row, int64_t tp) {
  return ModelReader(row, tp).read();
}

double tableFlops(const ModelDims &d, double globalBatch, int passes) {
  auto l = static_cast<double>(d.layers), h = static_cast<double>(d.hidden),
       s = static_cast<double>(d.seq), v = static_cast<double>(d.vocab);
  double layers =
      passes * 24.0 * globalBatch * s * l * h * h * (1.0 + s / (6.0 * h));
  return layers + 6.0 * globalBatch * s * h * v;
}

/// Returns the elements of the matrices that attention multiplies a token by.
static double attentionWeights(const ModelDims &d) {
  auto hidden = static_cast<double>(d.hidden),
       heads = static_cast<double>(d.heads),
       values = static_cast<double>(d.valueDim),
       keys = static_cast<double>(d.headDim);
  double out = heads * values * hidden;
  if (!d.isLatent())
    return hidden * (heads * keys + static_cast<double>(d.kvHeads) * 2 * keys) +
           out;
  auto kvRank = static_cast<double>(d.kvRank),
       qRank = static_cast<double>(d.qRank),
       rope = static_cast<double>(d.ropeDim);
  double queries = heads * (keys + rope);
  return (qRank > 0 ? hidden * qRank + qRank * queries : hidden * queries) +
         hidden * (kvRank + rope) + kvRank * heads * (keys + values) + out;
}

double gemmFlops(const ModelDims &d, double globalBatch) {
  auto layers = static_cast<double>(d.layers),
       hidden = static_cast<double>(d.hidden), seq = static_cast<double>(d.seq),
       heads = static_cast<double>(d.heads);
  double dense = 3 * hidden * static_cast<double>(d.ffn), mixed = 0,
         first = layers;
  if (d.family == Family::moe) {
    first = static_cast<double>(std::min(d.denseLayers, d.layers));
    mixed = 3 * hidden * static_cast<double>(d.expertFfn) *
                static_cast<double>(d.topk + d.sharedExperts) +
            hidden * static_cast<double>(d.experts);
  }
  double scores =
      seq * heads * static_cast<double>(d.headDim + d.ropeDim + d.valueDim);
  double weights = layers * (attentionWeights(d) + scores) + first * dense +
                   (layers - first) * mixed +
                   hidden * static_cast<double>(d.vocab);
  return 3 * 2 * globalBatch * seq * weights;
}

} // namespace dpc::validate
