#include "runtime/checkpoint/Manifest.h"

#include "runtime/base/Json.h"
#include "runtime/base/OneLine.h"
#include "runtime/plan/PlanJson.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace dpc::rt {

using Json = nlohmann::ordered_json;

/// No manifest exceeds these limits.
static constexpr int64_t kMaxRanks = 1 << 24;
static constexpr size_t kMaxFactors = 64;

std::string shardFileName(int64_t rank) {
  return "rank-" + std::to_string(rank) + ".safetensors";
}

int64_t globalBatchOf(const Plan &plan) {
  for (const Port &port : plan.inputs)
    if (!port.globalShape.empty())
      return port.globalShape.front();
  return 0;
}

Manifest manifestOf(const Plan &plan) {
  Manifest manifest;
  manifest.model = plan.model;
  manifest.globalBatch = globalBatchOf(plan);
  manifest.settings = plan.settings;
  manifest.mesh = plan.mesh;
  for (const Tensor &tensor : plan.tensors)
    manifest.tensors.push_back(
        {tensor.name, tensor.role, tensor.of, tensor.slot, tensor.dtype,
         tensor.globalShape, tensor.layout, plan.buffers[tensor.buffer].stage});
  manifest.files.resize(plan.ranks());
  return manifest;
}

static Json toJson(const Layout &layout) {
  Json dims = Json::array();
  for (const std::vector<Factor> &dim : layout.dims) {
    Json factors = Json::array();
    for (const Factor &factor : dim)
      factors.push_back({factor.size, factor.axes});
    dims.push_back(std::move(factors));
  }
  return dims;
}

std::string manifestText(const Manifest &manifest) {
  Json axes = Json::array(), tensors = Json::array(), files = Json::array();
  Json settings = Json::array();
  for (const Setting &setting : manifest.settings)
    settings.push_back({setting.name, setting.value});
  for (const MeshAxis &axis : manifest.mesh.axes)
    axes.push_back({axis.name, axis.size});
  for (const SavedTensor &tensor : manifest.tensors)
    tensors.push_back({{"name", tensor.name},
                       {"role", nameOf(tensor.role)},
                       {"of", tensor.of},
                       {"slot", tensor.slot},
                       {"dtype", nameOf(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"layout", toJson(tensor.layout)},
                       {"stage", tensor.stage}});
  for (const SavedFile &file : manifest.files)
    files.push_back({file.bytes, file.headerHash});
  Json body = {{"version", kCheckpointVersion},
               {"model", manifest.model},
               {"step", manifest.step},
               {"global_batch", manifest.globalBatch},
               {"data",
                {{"epoch", manifest.data.epoch},
                 {"position", manifest.data.position},
                 {"samples", manifest.data.samples},
                 {"order", manifest.data.order},
                 {"hash", manifest.data.hash},
                 {"last_batch", manifest.data.lastBatch}}},
               {"profile", manifest.profile},
               {"settings", settings},
               {"mesh", axes},
               {"tensors", tensors},
               {"files", files}};
  constexpr auto replace = Json::error_handler_t::replace;
  std::string text = body.dump(-1, ' ', false, replace);
  return "{\"checksum\": \"" + hashText(text) + "\",\n\"manifest\": " + text +
         "}\n";
}

namespace {

/// Limits steps, epochs and samples, so that their sums do not overflow.
constexpr int64_t kMost = int64_t(1) << 48;

class ManifestReader {
public:
  Manifest read(const Json &body);
  std::string error;

private:
  bool expect(bool isRight, const std::string &what) {
    if (!isRight && error.empty())
      error = what;
    return error.empty();
  }
  int64_t number(const Json &json, const char *key, int64_t least,
                 int64_t most);
  std::string text(const Json &json, const char *key);
  const Json &list(const Json &json, const char *key);
  void readMesh(const Json &json);
  SavedTensor readTensor(const Json &json);
  Layout readLayout(const Json &json);
  Factor readFactor(const Json &json);
  SavedFile readFile(const Json &json);
  void readData(const Json &json);
  void readSettings(const Json &json);

  Manifest manifest;
};

bool isNumber(const Json &json, int64_t least, int64_t most) {
  return json.is_number_integer() && json.get<int64_t>() >= least &&
         json.get<int64_t>() <= most &&
         !(json.is_number_unsigned() &&
           json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
}

int64_t ManifestReader::number(const Json &json, const char *key, int64_t least,
                               int64_t most) {
  bool isRight = json.is_object() && json.contains(key) &&
                 isNumber(json[key], least, most);
  return expect(isRight, std::string("'") + key + "' is missing or not a size")
             ? json[key].get<int64_t>()
             : 0;
}

std::string ManifestReader::text(const Json &json, const char *key) {
  bool isRight =
      json.is_object() && json.contains(key) && json[key].is_string();
  return expect(isRight, std::string("'") + key + "' is missing or not a text")
             ? json[key].get<std::string>()
             : "";
}

const Json &ManifestReader::list(const Json &json, const char *key) {
  static const Json empty = Json::array();
  bool isRight = json.is_object() && json.contains(key) && json[key].is_array();
  return expect(isRight, std::string("'") + key + "' is missing or not a list")
             ? json[key]
             : empty;
}

void ManifestReader::readMesh(const Json &json) {
  int64_t ranks = 1;
  for (const Json &axis : json) {
    bool isRight = axis.is_array() && axis.size() == 2 && axis[0].is_string() &&
                   isNumber(axis[1], 1, kMaxRanks) &&
                   ranks * axis[1].get<int64_t>() <= kMaxRanks &&
                   !manifest.mesh.has(axis[0].get<std::string>());
    if (!expect(isRight, "mesh axis " + axis.dump() + " is not valid"))
      return;
    manifest.mesh.axes.push_back({axis[0], axis[1]});
    ranks *= axis[1].get<int64_t>();
  }
}

Factor ManifestReader::readFactor(const Json &json) {
  Factor factor;
  bool isRight = json.is_array() && json.size() == 2 &&
                 isNumber(json[0], 0, INT64_MAX) && json[1].is_array();
  if (!expect(isRight, "factor " + json.dump() + " is not valid"))
    return factor;
  factor.size = json[0];
  for (const Json &axis : json[1])
    if (expect(axis.is_string(), "axis " + axis.dump() + " is not valid"))
      factor.axes.push_back(axis);
  return factor;
}

Layout ManifestReader::readLayout(const Json &json) {
  Layout layout;
  for (const Json &dim : json) {
    std::vector<Factor> &factors = layout.dims.emplace_back();
    if (!expect(dim.is_array() && dim.size() <= kMaxFactors,
                "layout " + json.dump() + " is not valid"))
      return layout;
    int64_t product = 1;
    for (const Json &factor : dim) {
      factors.push_back(readFactor(factor));
      expect(!__builtin_mul_overflow(product, factors.back().size, &product),
             "layout " + json.dump() + " is not valid");
    }
  }
  return layout;
}

SavedTensor ManifestReader::readTensor(const Json &json) {
  SavedTensor tensor;
  tensor.name = text(json, "name");
  tensor.of = text(json, "of");
  tensor.slot = text(json, "slot");
  std::string place = "tensor '" + tensor.name + "': ";
  std::string role = text(json, "role"), dtype = text(json, "dtype");
  std::optional<TensorRole> known = symbolize<TensorRole>(role);
  std::optional<DType> type = parseDType(dtype);
  if (!expect(known && type, place + "role '" + role + "' or dtype '" + dtype +
                                 "' is not known"))
    return tensor;
  tensor.role = *known;
  tensor.dtype = *type;
  int64_t bytes = sizeOf(tensor.dtype);
  for (const Json &extent : list(json, "shape")) {
    bool isRight =
        isNumber(extent, 0, INT64_MAX) &&
        !__builtin_mul_overflow(bytes, extent.get<int64_t>(), &bytes);
    if (!expect(isRight, place + "its shape is not a size"))
      return tensor;
    tensor.shape.push_back(extent);
  }
  tensor.layout = readLayout(list(json, "layout"));
  tensor.stage = number(json, "stage", 0, manifest.mesh.stages() - 1);
  if (!error.empty())
    return tensor;
  Status status = checkLayout(tensor.layout, tensor.shape, manifest.mesh);
  expect(status.ok() && !tensor.layout.mentions(kMicroBatchAxis) &&
             !tensor.layout.mentions(kPipelineAxis),
         place + (status.ok() ? "its layout names no rank axis"
                              : status.message()));
  return tensor;
}

SavedFile ManifestReader::readFile(const Json &json) {
  bool isRight = json.is_array() && json.size() == 2 &&
                 isNumber(json[0], 0, INT64_MAX) && json[1].is_string();
  return expect(isRight, "file " + json.dump() + " is not valid")
             ? SavedFile{json[0], json[1]}
             : SavedFile();
}

void ManifestReader::readData(const Json &json) {
  if (!expect(json.is_object(), "data is not an object"))
    return;
  DataPosition &data = manifest.data;
  data.epoch = number(json, "epoch", 0, kMost);
  data.samples = number(json, "samples", 0, kMost);
  data.position =
      number(json, "position", 0, std::max<int64_t>(data.samples - 1, 0));
  data.order = text(json, "order");
  if (json.contains("hash")) // older manifests have no hash
    data.hash = text(json, "hash");
  if (json.contains("last_batch"))
    data.lastBatch = text(json, "last_batch");
}

void ManifestReader::readSettings(const Json &json) {
  for (const Json &setting : json) {
    bool isRight = setting.is_array() && setting.size() == 2 &&
                   setting[0].is_string() && setting[1].is_string();
    if (expect(isRight, "setting " + setting.dump() + " is not valid"))
      manifest.settings.push_back({setting[0], setting[1]});
  }
}

Manifest ManifestReader::read(const Json &body) {
  int64_t version = number(body, "version", 0, INT64_MAX);
  if (!expect(version == kCheckpointVersion,
              "version " + std::to_string(version) + "; this build reads " +
                  std::to_string(kCheckpointVersion)))
    return manifest;
  manifest.model = text(body, "model");
  manifest.step = number(body, "step", 0, kMost);
  manifest.globalBatch = number(body, "global_batch", 0, INT64_MAX);
  if (body.contains("data")) // older manifests have no position
    readData(body["data"]);
  if (body.contains("profile")) // older manifests have no profile
    manifest.profile = text(body, "profile");
  if (body.contains("settings")) // older manifests have no settings
    readSettings(list(body, "settings"));
  readMesh(list(body, "mesh"));
  for (const Json &tensor : list(body, "tensors"))
    if (error.empty())
      manifest.tensors.push_back(readTensor(tensor));
  const Json &files = list(body, "files");
  if (!expect(files.size() == static_cast<size_t>(manifest.mesh.ranks()),
              "there are " + std::to_string(files.size()) + " files of " +
                  std::to_string(manifest.mesh.ranks()) + " ranks"))
    return manifest;
  for (const Json &file : files)
    manifest.files.push_back(readFile(file));
  return manifest;
}

} // namespace

Expected<Manifest> parseManifest(const std::string &text,
                                 const std::string &path) {
  auto refuse = [&](const std::string &why) {
    return Status::invalid(path, ": ", oneLine(why));
  };
  if (nestsTooDeep(text))
    return refuse("its lists nest too deep: not a manifest of a checkpoint");
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("manifest") ||
      !json.contains("checksum"))
    return refuse("is not a manifest of a checkpoint, or is truncated");
  constexpr auto replace = Json::error_handler_t::replace;
  if (json["checksum"] !=
      hashText(json["manifest"].dump(-1, ' ', false, replace)))
    return refuse("has a wrong checksum: the file was changed");
  ManifestReader reader;
  Manifest manifest = reader.read(json["manifest"]);
  if (!reader.error.empty())
    return refuse(reader.error);
  return manifest;
}

} // namespace dpc::rt
