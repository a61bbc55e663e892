#include "test/fuzz/RuntimeFiles.h"

#include "runtime/base/Json.h"
#include "runtime/base/Reshard.h"
#include "runtime/checkpoint/CheckpointReader.h"
#include "runtime/io/Npy.h"
#include "runtime/io/WeightFiles.h"
#include "runtime/plan/PlanCommand.h"
#include "runtime/plan/PlanJson.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace dpc::fuzz {

using namespace rt;

std::string checkLine(const std::string &message) {
  if (message.empty())
    return "refused without a message";
  return message.find('\n') == std::string::npos
             ? ""
             : "the message has several lines: " + message;
}

static std::string write(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

static std::string checkRange(int64_t all, int64_t offset, int64_t size) {
  return offset < 0 || size < 0 || offset > all || size > all - offset
             ? "accepted an array outside of its file"
             : "";
}

/// Returns "" if the `size` bytes at `offset` are inside a file of `all` bytes
/// and `size` matches an array of this type and shape.
static std::string checkArray(int64_t all, int64_t offset, int64_t size,
                              DType dtype, const std::vector<int64_t> &shape) {
  if (std::string wrong = checkRange(all, offset, size); !wrong.empty())
    return wrong;
  return numElements(shape) * sizeOf(dtype) == size
             ? ""
             : "accepted an array whose bytes are not those of its shape";
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

static std::string readNpy(const std::string &path) {
  Expected<NpyArray> array = openNpy(path);
  if (!array)
    return checkLine(array.status().message());
  return checkRange(array->file.size(), array->data - array->file.data(),
                    numElements(array->shape) * sizeOf(array->dtype));
}

static std::string readSafetensors(const std::string &path) {
  Expected<SafetensorsFile> file = openSafetensors(path);
  if (!file)
    return checkLine(file.status().message());
  for (const auto &[name, entry] : file->entries)
    if (std::string wrong = checkArray(file->file.size(), entry.offset,
                                       entry.bytes, entry.dtype, entry.shape);
        !wrong.empty())
      return name + ": " + wrong;
  return "";
}

static std::string readWeightIndex(const std::string &path) {
  Expected<WeightFiles> files = WeightFiles::open(path);
  return files ? "" : checkLine(files.status().message());
}

/// Writes the weight files of runtime/model.safetensors.index.json.
static void writeWeights(const std::string &folder) {
  std::string prefix = folder + "/model-0000";
  SafetensorsWriter first, second;
  std::vector<float> zeros(4);
  (void)first.start(prefix + "1-of-00002.safetensors",
                    {{"layers.0.weight", DType::F32, {2, 2}}});
  (void)first.append(zeros.data(), 16);
  (void)first.finish();
  (void)second.start(prefix + "2-of-00002.safetensors",
                     {{"layers.0.bias", DType::F32, {2}}});
  (void)second.append(zeros.data(), 8);
  (void)second.finish();
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

/// Reads a shard as if a manifest had verified its header.
static std::string readShard(const std::string &path) {
  Expected<SavedFile> described = describeShardFile(path);
  if (!described)
    return checkLine(described.status().message());
  Expected<std::shared_ptr<ShardFile>> file = ShardFile::open(path, *described);
  if (!file)
    return "a file is not the one that it was: " + file.status().message();
  Expected<SafetensorsFile> plain = openSafetensors(path);
  if (!plain)
    return "a file is no longer one: " + plain.status().message();
  for (const auto &[name, entry] : plain->entries) {
    auto bytes = (*file)->read(name, entry.bytes, 0, entry.bytes);
    if (!bytes)
      if (std::string wrong = checkLine(bytes.status().message());
          !wrong.empty())
        return wrong;
  }
  return "";
}

/// Checks that a single rank that reads the tensor gets each element exactly
/// once from the shards of the owners.
static std::string checkShards(const Manifest &saved, const SavedTensor &from) {
  Layout whole;
  for (int64_t extent : from.shape)
    whole.dims.push_back({{extent, {}}});
  Mesh alone;
  int64_t all = numElements(from.shape), taken = 0;
  int64_t local = numElements(localShape(from.layout, saved.mesh));
  for (int64_t owner = 0; owner < saved.mesh.ranks(); ++owner) {
    if (!saved.owns(owner, from))
      continue;
    std::string wrong;
    SharedElements shared({from.layout, saved.mesh, owner}, {whole, alone, 0});
    if (shared.empty())
      continue;
    shared.forEachRun([&](int64_t source, int64_t target, int64_t count) {
      if (source < 0 || target < 0 || count < 1 || count > local - source ||
          count > all - target)
        wrong = "shards of '" + from.name + "' reach out of it";
      taken += count;
    });
    if (!wrong.empty())
      return wrong;
  }
  return taken == all ? "" : "shards of '" + from.name + "' are not all of it";
}

static std::string readCheckpoint(const std::string &folder) {
  auto reader = CheckpointReader::open(folder);
  if (!reader)
    return checkLine(reader.status().message());
  Status status = (*reader)->verify();
  if (!status.ok())
    if (std::string wrong = checkLine(status.message()); !wrong.empty())
      return wrong;
  const Manifest &saved = (*reader)->manifest();
  constexpr int64_t kElements = 1 << 16,
                    kRanks = 64; // keeps the test fast
  for (const SavedTensor &tensor : saved.tensors) {
    int64_t elements = 1;
    bool isSmall = saved.mesh.ranks() <= kRanks;
    for (int64_t extent : tensor.shape)
      isSmall = isSmall &&
                !__builtin_mul_overflow(elements, extent, &elements) &&
                elements <= kElements;
    if (!isSmall)
      continue;
    if (std::string wrong = checkShards(saved, tensor); !wrong.empty())
      return wrong;
  }
  return "";
}

using Json = nlohmann::ordered_json;

static Json parse(const std::string &text) {
  return nestsTooDeep(text)
             ? Json()
             : Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Returns the text that the checksum of a manifest covers.
static std::string manifestIn(const std::string &file) {
  Json json = parse(file);
  return json.is_object() && json.contains("manifest") ? json["manifest"].dump()
                                                       : file;
}

static std::string withManifest(const std::string &, const std::string &body) {
  Json json = parse(body);
  std::string text = json.is_discarded() ? body : json.dump();
  return "{\"checksum\": \"" + hashText(text) + "\",\n\"manifest\": " + text +
         "}\n";
}

/// Returns the JSON of a .safetensors file, which precedes the data.
static std::string headerIn(const std::string &file) {
  uint64_t size = 0;
  if (file.size() >= sizeof size)
    std::memcpy(&size, file.data(), sizeof size);
  return file.size() >= sizeof size && size <= file.size() - sizeof size
             ? file.substr(sizeof size, size)
             : "";
}

static std::string withHeader(const std::string &file,
                              const std::string &header) {
  uint64_t size = header.size();
  size_t data = std::min(sizeof size + headerIn(file).size(), file.size());
  return std::string(reinterpret_cast<const char *>(&size), sizeof size) +
         header + file.substr(data);
}

std::vector<Reader> runtimeReaders(const std::string &scratch) {
  writeWeights(scratch);
  auto inFile = [&](std::string name, auto read) {
    return [path = scratch + "/" + name, read](const std::string &bytes) {
      return read(write(path, bytes));
    };
  };
  return {
      {"npy", inFile("x.npy", readNpy), false, {}, {}},
      {"safetensors", inFile("x.safetensors", readSafetensors), false, {}, {}},
      {"weight-index",
       inFile("model.safetensors.index.json", readWeightIndex),
       true,
       {},
       {}},
      {"shard", inFile("rank-0.safetensors", readShard), true, headerIn,
       withHeader},
      {"plan-command",
       [scratch](const std::string &bytes) {
         write(scratch + "/command.json", bytes);
         auto command = readPlanCommand(scratch);
         return command ? "" : checkLine(command.status().message());
       },
       true,
       {},
       {}},
      {"manifest",
       [scratch](const std::string &bytes) {
         write(scratch + "/manifest.json", bytes);
         return readCheckpoint(scratch);
       },
       true, manifestIn, withManifest}};
}

} // namespace dpc::fuzz
