#include "runtime/exec/Safetensors.h"

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace dpc::rt {

namespace {

using Json = nlohmann::json;

/// What the format's own reader accepts.
constexpr uint64_t kMaxHeaderBytes = 100 << 20;

struct TypeName {
  const char *name;
  DType type;
};
constexpr TypeName kTypeNames[] = {
    {"F32", DType::F32},  {"F64", DType::F64}, {"BF16", DType::BF16},
    {"F16", DType::F16},  {"I64", DType::I64}, {"I32", DType::I32},
    {"I16", DType::I16},  {"I8", DType::I8},   {"U8", DType::U8},
    {"BOOL", DType::Bool}};

Status readEntry(const Json &json, int64_t dataBytes, SafetensorsEntry &entry) {
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    return Status::invalid("dtype, shape or data_offsets is missing");
  bool known = false;
  for (const TypeName &type : kTypeNames)
    if (json["dtype"] == type.name) {
      entry.dtype = type.type;
      known = true;
    }
  if (!known)
    return Status::invalid("dtype " + json["dtype"].dump() +
                           " is not supported");
  int64_t bytes = sizeOf(entry.dtype);
  for (const Json &extent : json["shape"]) {
    if (!extent.is_number_unsigned() ||
        extent.get<uint64_t>() > uint64_t(INT64_MAX) ||
        __builtin_mul_overflow(bytes, extent.get<int64_t>(), &bytes))
      return Status::invalid("shape " + json["shape"].dump() +
                             " is not a size");
    entry.shape.push_back(extent.get<int64_t>());
  }
  const Json &range = json["data_offsets"];
  if (!range.is_array() || range.size() != 2 ||
      !range[0].is_number_unsigned() || !range[1].is_number_unsigned() ||
      range[0] > range[1] || range[1].get<uint64_t>() > uint64_t(dataBytes))
    return Status::invalid("data_offsets " + range.dump() +
                           " lie outside the data");
  entry.offset = range[0].get<int64_t>();
  entry.bytes = range[1].get<int64_t>() - entry.offset;
  if (entry.bytes != bytes)
    return Status::invalid("data_offsets span " + std::to_string(entry.bytes) +
                           " bytes, " + describe(entry.dtype, entry.shape) +
                           " has " + std::to_string(bytes));
  return Status::success();
}

Status readHeader(SafetensorsFile &out) {
  const MappedFile &file = out.file;
  uint64_t length = 0;
  if (file.size() < 8)
    return Status::invalid("is not a safetensors file");
  std::memcpy(&length, file.data(), 8);
  if (length > kMaxHeaderBytes || length > uint64_t(file.size()) - 8)
    return Status::invalid("is not a safetensors file, or is cut off");
  Json header = Json::parse(file.data() + 8, file.data() + 8 + length, nullptr,
                            /*allow_exceptions=*/false);
  if (!header.is_object())
    return Status::invalid("header is not JSON");
  int64_t dataStart = 8 + static_cast<int64_t>(length);
  for (auto it = header.begin(); it != header.end(); ++it) {
    if (it.key() == "__metadata__")
      continue;
    SafetensorsEntry entry;
    Status status = readEntry(*it, file.size() - dataStart, entry);
    if (!status.ok())
      return Status::invalid("tensor '" + it.key() + "': " + status.message());
    entry.offset += dataStart;
    out.entries[it.key()] = std::move(entry);
  }
  return Status::success();
}

} // namespace

Expected<SafetensorsFile> openSafetensors(const std::string &path) {
  Expected<MappedFile> file = MappedFile::open(path);
  if (!file)
    return file.status();
  SafetensorsFile out;
  out.file = *file;
  if (Status status = readHeader(out); !status.ok())
    return Status(status.code(), path + ": " + status.message());
  return out;
}

Status SafetensorsWriter::start(const std::string &to,
                                const std::vector<Entry> &entries) {
  path = to;
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  int64_t offset = 0;
  for (const Entry &entry : entries) {
    int64_t bytes = numElements(entry.shape) * sizeOf(entry.dtype);
    const char *type = "F32";
    for (const TypeName &known : kTypeNames)
      if (known.type == entry.dtype)
        type = known.name;
    header[entry.name] = {{"dtype", type},
                          {"shape", entry.shape},
                          {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  out.open(path + ".new", std::ios::binary);
  out.write(reinterpret_cast<const char *>(&length), 8);
  out << text;
  return out ? Status::success() : Status::io(path + ": cannot be written");
}

void SafetensorsWriter::append(const HostTensor &tensor) {
  out.write(reinterpret_cast<const char *>(tensor.data.data()),
            static_cast<std::streamsize>(tensor.data.size()));
}

Status SafetensorsWriter::finish() {
  out.close();
  if (!out || std::rename((path + ".new").c_str(), path.c_str()) != 0)
    return Status::io(path + ": cannot be written");
  return Status::success();
}

} // namespace dpc::rt
