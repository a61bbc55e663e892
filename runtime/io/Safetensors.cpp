#include "runtime/io/Safetensors.h"

#include "runtime/base/Json.h"
#include "runtime/base/OneLine.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace dpc::rt {

namespace {

using Json = nlohmann::json;

/// The limit in the reference implementation.
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
    return Status::invalid("dtype ", json["dtype"].dump(), " is not supported");
  int64_t bytes = sizeOf(entry.dtype);
  for (const Json &extent : json["shape"]) {
    if (!extent.is_number_unsigned() ||
        extent.get<uint64_t>() > uint64_t(INT64_MAX) ||
        __builtin_mul_overflow(bytes, extent.get<int64_t>(), &bytes))
      return Status::invalid("shape ", json["shape"].dump(), " is not a size");
    entry.shape.push_back(extent.get<int64_t>());
  }
  const Json &range = json["data_offsets"];
  if (!range.is_array() || range.size() != 2 ||
      !range[0].is_number_unsigned() || !range[1].is_number_unsigned() ||
      range[0] > range[1] || range[1].get<uint64_t>() > uint64_t(dataBytes))
    return Status::invalid("data_offsets ", range.dump(),
                           " are outside the data");
  entry.offset = range[0].get<int64_t>();
  entry.bytes = range[1].get<int64_t>() - entry.offset;
  if (entry.bytes != bytes)
    return Status::invalid("data_offsets span ", entry.bytes, " bytes, ",
                           describe(entry.dtype, entry.shape), " has ", bytes);
  return Status::success();
}

/// Returns the end of the data of all tensors whose range is that of a shape;
/// 0 if there is none.
int64_t dataBytesOf(const Json &header) {
  constexpr int64_t kMost = int64_t(1) << 60;
  int64_t bytes = 0;
  for (auto it = header.begin(); it != header.end(); ++it)
    if (SafetensorsEntry entry;
        it.key() != "__metadata__" && readEntry(*it, kMost, entry).ok())
      bytes = std::max(bytes, entry.offset + entry.bytes);
  return bytes;
}

Status readHeader(SafetensorsFile &out) {
  const MappedFile &file = out.file;
  uint64_t length = 0;
  if (file.size() < 8)
    return Status::invalid("is not a safetensors file");
  std::memcpy(&length, file.data(), 8);
  bool isSafetensors =
      length <= kMaxHeaderBytes && (file.size() == 8 || file.data()[8] == '{');
  if (isSafetensors && length > uint64_t(file.size()) - 8)
    return Status::invalid("is truncated: it has ", file.size(),
                           " bytes, its header alone needs ", 8 + length);
  if (length > kMaxHeaderBytes || length > uint64_t(file.size()) - 8)
    return Status::invalid("is not a safetensors file");
  if (nestsTooDeep({file.data() + 8, static_cast<size_t>(length)}))
    return Status::invalid("header nests too deep");
  Json header = Json::parse(file.data() + 8, file.data() + 8 + length, nullptr,
                            /*allow_exceptions=*/false);
  if (!header.is_object())
    return Status::invalid("header is not JSON");
  int64_t dataStart = 8 + static_cast<int64_t>(length);
  out.headerBytes = dataStart;
  if (int64_t needed = dataStart + dataBytesOf(header); needed > file.size())
    return Status::invalid("is truncated: it has ", file.size(),
                           " bytes, its header needs ", needed);
  for (auto it = header.begin(); it != header.end(); ++it) {
    if (it.key() == "__metadata__") {
      for (auto text = it->begin(); it->is_object() && text != it->end();
           ++text)
        if (text->is_string())
          out.metadata[text.key()] = text->get<std::string>();
      continue;
    }
    SafetensorsEntry entry;
    Status status = readEntry(*it, file.size() - dataStart, entry);
    if (!status.ok())
      return Status::invalid("tensor '", it.key(), "': ", status.message());
    entry.offset += dataStart;
    out.entries[it.key()] = std::move(entry);
  }
  return Status::success();
}

} // namespace

Expected<SafetensorsFile> openSafetensors(const std::string &path) {
  DPC_ASSIGN(MappedFile file, MappedFile::open(path));
  SafetensorsFile out;
  out.file = file;
  if (Status status = readHeader(out); !status.ok())
    return Status(status.code(), path + ": " + oneLine(status.message()));
  return out;
}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd < 0)
    return;
  close(fd);
  unlink((path + ".new").c_str());
}

Status SafetensorsWriter::refuse(int error) const {
  return Status::io(path, ": cannot be written: ", std::strerror(error));
}

/// Pads the text, so that the data begins at a multiple of 8 bytes.
static std::string
headerText(const std::vector<SafetensorsWriter::Entry> &entries,
           const std::map<std::string, std::string> &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const SafetensorsWriter::Entry &entry : entries) {
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
  return text;
}

Status
SafetensorsWriter::start(const std::string &to,
                         const std::vector<Entry> &entries,
                         const std::map<std::string, std::string> &metadata) {
  path = to;
  std::string text = headerText(entries, metadata);
  if (text.size() > kMaxHeaderBytes)
    return Status::unsupported(path, ": a header of ", text.size(),
                               " bytes is more than the format allows");
  fd = open((path + ".new").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
            0644);
  if (fd < 0)
    return refuse(errno);
  uint64_t length = text.size();
  DPC_TRY(append(&length, sizeof length));
  return append(text.data(), static_cast<int64_t>(text.size()));
}

Status SafetensorsWriter::append(const void *bytes, int64_t count) {
  const auto *from = static_cast<const char *>(bytes);
  while (count > 0) {
    ssize_t now = write(fd, from, count);
    if (now < 0 && errno == EINTR)
      continue;
    if (now < 0)
      return refuse(errno);
    from += now;
    count -= now;
  }
  return Status::success();
}

Status SafetensorsWriter::finish() {
  bool isSafe = fsync(fd) == 0;
  int error = errno;
  close(fd);
  fd = -1;
  std::string written = path + ".new";
  if (isSafe && std::rename(written.c_str(), path.c_str()) == 0)
    return Status::success();
  error = isSafe ? errno : error;
  unlink(written.c_str());
  return refuse(error);
}

} // namespace dpc::rt
