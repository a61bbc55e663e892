//===- StatedDims.cpp - Dims recorded in a model's metadata ---------------===//
#include "frontends/dims/StatedDims.h"

#include "frontends/dims/ModelBuilder.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace dpc::model {

namespace {

struct Size {
  const char *name;
  int64_t ModelDims::*value;
};

constexpr Size kSizes[] = {{"layers", &ModelDims::layers},
                           {"hidden", &ModelDims::hidden},
                           {"ffn", &ModelDims::ffn},
                           {"heads", &ModelDims::heads},
                           {"kv-heads", &ModelDims::kvHeads},
                           {"head-dim", &ModelDims::headDim},
                           {"q-rank", &ModelDims::qRank},
                           {"kv-rank", &ModelDims::kvRank},
                           {"rope-dim", &ModelDims::ropeDim},
                           {"value-dim", &ModelDims::valueDim},
                           {"vocab", &ModelDims::vocab},
                           {"seq", &ModelDims::seq},
                           {"experts", &ModelDims::experts},
                           {"topk", &ModelDims::topk},
                           {"expert-ffn", &ModelDims::expertFfn},
                           {"shared-experts", &ModelDims::sharedExperts},
                           {"dense-layers", &ModelDims::denseLayers},
                           {"mtp", &ModelDims::furtherTokens},
                           {"group", &ModelDims::group},
                           {"window", &ModelDims::window},
                           {"image", &ModelDims::image},
                           {"patch", &ModelDims::patch},
                           {"channels", &ModelDims::channels},
                           {"classes", &ModelDims::classes}};

/// Models without weights take a few MiB, so larger files are not read.
constexpr uintmax_t kMaxBytes = uintmax_t(64) << 20;

} // namespace

/// Returns the shortest text that parses to the same number.
static std::string numberText(double value) {
  char buffer[32];
  char *end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

template <typename Number>
static bool parse(const std::string &text, Number &value) {
  const char *end = text.data() + text.size();
  auto [last, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && last == end;
}

std::string stringifyDims(const ModelDims &dims) {
  std::string text(stringifyFamily(dims.family));
  for (const Size &size : kSizes)
    text +=
        "," + std::string(size.name) + "=" + std::to_string(dims.*size.value);
  return text + ",tied=" + (dims.tied ? "1" : "0") +
         ",qk-norm=" + (dims.qkNorm ? "1" : "0") +
         ",biases=" + (dims.biased ? "1" : "0") +
         ",sinks=" + (dims.hasSinks ? "1" : "0") +
         ",glu-limit=" + numberText(dims.gluLimit) +
         ",rope-theta=" + numberText(dims.ropeTheta) +
         ",capacity=" + numberText(dims.capacity);
}

static bool setSize(const std::string &name, const std::string &value,
                    ModelDims &dims) {
  if (name == "rope-theta")
    return parse(value, dims.ropeTheta);
  if (name == "capacity")
    return parse(value, dims.capacity);
  if (name == "glu-limit")
    return parse(value, dims.gluLimit);
  for (auto [flag, field] : {std::pair("tied", &ModelDims::tied),
                             {"qk-norm", &ModelDims::qkNorm},
                             {"biases", &ModelDims::biased},
                             {"sinks", &ModelDims::hasSinks}})
    if (name == flag) {
      dims.*field = value == "1";
      return true;
    }
  for (const Size &size : kSizes)
    if (name == size.name)
      return parse(value, dims.*size.value);
  return false;
}

std::optional<ModelDims> parseDims(const std::string &text) {
  std::istringstream words(text);
  std::string word;
  std::getline(words, word, ',');
  std::optional<Family> family = symbolizeFamily(word);
  if (!family)
    return std::nullopt;
  ModelDims dims;
  dims.family = *family;
  while (std::getline(words, word, ',')) {
    size_t split = word.find('=');
    if (split == std::string::npos ||
        !setSize(word.substr(0, split), word.substr(split + 1), dims))
      return std::nullopt;
  }
  return dims.refusal().empty() ? std::optional(dims) : std::nullopt;
}

std::optional<ModelDims> dimsOfFile(const std::string &path) {
  std::error_code code;
  if (std::filesystem::file_size(path, code) > kMaxBytes || code)
    return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  ::onnx::ModelProto model;
  if (!(bytes << file.rdbuf()) || !model.ParseFromString(bytes.str()))
    return std::nullopt;
  std::optional<ModelDims> dims;
  for (const auto &entry : model.metadata_props())
    if (entry.key() == kDimsKey)
      dims = parseDims(entry.value());
  bool isUnchanged =
      dims && buildModel(*dims).proto.SerializeAsString() == bytes.str();
  return isUnchanged ? dims : std::nullopt;
}

bool writeModelFile(const ModelDims &dims, const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  return file && buildModel(dims).proto.SerializeToOstream(&file) &&
         file.flush();
}

} // namespace dpc::model
