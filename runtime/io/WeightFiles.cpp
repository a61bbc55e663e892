#include "runtime/io/WeightFiles.h"

#include "runtime/base/Json.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/WriteFile.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace dpc::rt {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

static constexpr const char *kSingle = "model.safetensors";
static constexpr const char *kIndex = "model.safetensors.index.json";
/// A larger file is not an index.
static constexpr int64_t kMaxIndexBytes = 100 << 20;

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() > end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool namesWeightFiles(const std::string &text) {
  std::error_code code;
  return endsWith(text, ".safetensors") || endsWith(text, ".index.json") ||
         fs::is_directory(text, code);
}

Expected<WeightFiles> WeightFiles::open(const std::string &path) {
  WeightFiles self;
  self.name = path;
  std::error_code code;
  std::string entry = path;
  if (fs::is_directory(path, code)) {
    // Readers differ in which of the two they prefer.
    std::string single = path + "/" + kSingle, index = path + "/" + kIndex;
    bool hasSingle = fs::exists(single, code);
    if (!hasSingle && !fs::exists(index, code))
      return Status::invalid(path, ": has no weights, expected ", kSingle,
                             " or ", kIndex,
                             fs::exists(path + "/plan.json", code)
                                 ? "; it is the folder of a plan, which has "
                                   "the weights of its model file"
                                 : "");
    if (hasSingle && fs::exists(index, code))
      DPC_TRY(checkAgreement(single, index));
    entry = hasSingle ? single : index;
  }
  DPC_TRY(endsWith(entry, ".json") ? self.addIndex(entry)
                                   : self.addFile(entry));
  if (entry != path)
    self.findUnread(path);
  return self;
}

/// Whether a file of this name holds weights, as those of Hugging Face do. The
/// parts of a model are listed in its index.
static bool holdsOtherWeights(const std::string &name) {
  bool isPart = name.starts_with("model-") && name.find("-of-") != name.npos;
  return (endsWith(name, ".safetensors") && name != kSingle && !isPart) ||
         name == "pytorch_model.bin" || name == "adapter_model.bin";
}

void WeightFiles::findUnread(const std::string &folder) {
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    std::string file = it->path().filename().string();
    bool isRead = std::ranges::any_of(weights, [&](const auto &weight) {
      return fs::path(weight.second.file.path()).filename() == file;
    });
    if (holdsOtherWeights(file) && !isRead)
      unread.push_back(file);
  }
  std::ranges::sort(unread);
}

bool isEqual(const WeightFiles::Weight &a, const WeightFiles::Weight &b) {
  return a.entry.dtype == b.entry.dtype && a.entry.shape == b.entry.shape &&
         (a.data() == b.data() ||
          std::equal(a.data(), a.data() + a.entry.bytes, b.data()));
}

/// Refuses a folder in which one file and an index give different weights.
Status WeightFiles::checkAgreement(const std::string &single,
                                   const std::string &index) {
  WeightFiles one, several;
  DPC_TRY(one.addFile(single));
  auto refuse = [&](const std::string &why) {
    return Status::invalid(single, " and ", index, " disagree: ", oneLine(why),
                           "; name one of the two");
  };
  if (Status status = several.addIndex(index); !status.ok())
    return refuse(status.message());
  for (const auto &[from, other] :
       {std::pair(&one, &several), std::pair(&several, &one)})
    for (const auto &[tensor, weight] : from->weights) {
      const Weight *twin = other->find(tensor);
      if (!twin)
        return refuse("only one of them has '" + tensor + "'");
      if (!isEqual(weight, *twin))
        return refuse("they have different values for '" + tensor + "'");
    }
  return Status::success();
}

Status WeightFiles::addFile(const std::string &path) {
  DPC_ASSIGN(SafetensorsFile file, openSafetensors(path));
  for (const auto &[tensor, entry] : file.entries)
    weights[tensor] = {file.file, entry};
  if (auto found = file.metadata.find(kProfile); found != file.metadata.end())
    trained = found->second;
  return Status::success();
}

std::map<std::string, MappedFile> WeightFiles::files() const {
  std::map<std::string, MappedFile> found;
  for (const auto &[tensor, weight] : weights)
    found.emplace(weight.file.path(), weight.file);
  return found;
}

static bool isPlainName(const std::string &name) {
  return endsWith(name, ".safetensors") &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

Status WeightFiles::addIndex(const std::string &path) {
  DPC_ASSIGN(MappedFile mapped, MappedFile::open(path));
  auto refuse = [&](const std::string &why) {
    return Status::invalid(path, ": ", oneLine(why));
  };
  if (mapped.size() > kMaxIndexBytes)
    return refuse("is not an index of weights: it has " +
                  std::to_string(mapped.size()) + " bytes");
  if (nestsTooDeep({mapped.data(), static_cast<size_t>(mapped.size())}))
    return refuse("is not an index of weights: it nests too deep");
  Json index = Json::parse(mapped.data(), mapped.data() + mapped.size(),
                           nullptr, /*allow_exceptions=*/false);
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object())
    return refuse("is not an index of weights: it has no weight_map");
  std::map<std::string, SafetensorsFile> opened;
  for (const auto &[tensor, value] : index["weight_map"].items()) {
    std::string file = value.is_string() ? value.get<std::string>() : "";
    if (!isPlainName(file))
      return refuse("tensor '" + tensor + "': " + value.dump() +
                    " is not a .safetensors file in the folder of the index");
    if (!opened.count(file)) {
      DPC_ASSIGN(
          opened[file],
          openSafetensors((fs::path(path).parent_path() / file).string()));
    }
    const SafetensorsFile &shard = opened[file];
    auto entry = shard.entries.find(tensor);
    if (entry == shard.entries.end())
      return refuse("tensor '" + tensor + "' is not in " + file);
    weights[tensor] = {shard.file, entry->second};
  }
  return Status::success();
}

std::optional<int64_t> parseSize(const std::string &text) {
  struct Unit {
    const char *name;
    int64_t bytes;
  };
  constexpr Unit units[] = {
      {"", 1},          {"B", 1},           {"KB", 1000},
      {"MB", 1000000},  {"GB", 1000000000}, {"KiB", 1 << 10},
      {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  int64_t number = 0, bytes = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number <= 0)
    return std::nullopt;
  for (const Unit &unit : units)
    if (text.substr(end - text.data()) == unit.name &&
        !__builtin_mul_overflow(number, unit.bytes, &bytes))
      return bytes;
  return std::nullopt;
}

static int64_t bytesOf(const SafetensorsWriter::Entry &entry) {
  return numElements(entry.shape) * sizeOf(entry.dtype);
}

Status
WeightFolderWriter::start(const std::string &folder,
                          const std::vector<SafetensorsWriter::Entry> &entries,
                          int64_t fileBytes, const std::string &trainedOn) {
  dir = folder;
  profile = trainedOn;
  DPC_TRY(makeFolder(dir));
  int64_t used = 0;
  files.emplace_back();
  for (const SafetensorsWriter::Entry &entry : entries) {
    if (!files.back().empty() && bytesOf(entry) > fileBytes - used) {
      files.emplace_back();
      used = 0;
    }
    files.back().push_back(entry);
    used += bytesOf(entry);
  }
  return startFile();
}

std::string WeightFolderWriter::fileName(size_t index) const {
  if (files.size() == 1)
    return kSingle;
  char text[64];
  std::snprintf(text, sizeof text, "model-%05zu-of-%05zu.safetensors",
                index + 1, files.size());
  return text;
}

/// Other readers require the metadata "format".
Status WeightFolderWriter::startFile() {
  writer.emplace();
  std::map<std::string, std::string> metadata = {{"format", "pt"}};
  if (!profile.empty())
    metadata[WeightFiles::kProfile] = profile;
  return writer->start(dir + "/" + fileName(file), files[file], metadata);
}

Status WeightFolderWriter::append(const HostTensor &tensor) {
  if (done == files[file].size()) {
    DPC_TRY(writer->finish());
    ++file;
    done = 0;
    DPC_TRY(startFile());
  }
  ++done;
  return writer->append(tensor);
}

Status WeightFolderWriter::finish() {
  DPC_TRY(writer->finish());
  std::error_code code;
  if (files.size() == 1) {
    fs::remove(dir + "/" + kIndex, code);
    return Status::success();
  }
  int64_t total = 0;
  Json map = Json::object();
  for (size_t i = 0; i < files.size(); ++i)
    for (const SafetensorsWriter::Entry &entry : files[i]) {
      map[entry.name] = fileName(i);
      total += bytesOf(entry);
    }
  Json index = {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  constexpr auto replace = Json::error_handler_t::replace;
  DPC_TRY(writeDurably(dir + "/" + kIndex,
                       index.dump(2, ' ', false, replace) + "\n"));
  fs::remove(dir + "/" + kSingle, code);
  return Status::success();
}

} // namespace dpc::rt
