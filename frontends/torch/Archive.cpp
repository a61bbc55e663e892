//===- Archive.cpp - The zip archive of a .pt2 file -----------------------===//
#include "frontends/torch/Archive.h"
#include "frontends/emit/Options.h"

#include "llvm/Support/Endian.h"

#include <zip.h>

using llvm::support::endian::read16le;
using llvm::support::endian::read32le;
using llvm::support::endian::read64le;

namespace dpc::frontend::pt2 {

// The signatures of zip structures, and the sizes of their fixed parts
// (PKWARE's APPNOTE.TXT, sections 4.3.7 to 4.3.16).
static constexpr uint32_t kLocalHeader = 0x04034b50;
static constexpr uint32_t kDirectoryEntry = 0x02014b50;
static constexpr uint32_t kEndOfDirectory = 0x06054b50;
static constexpr uint32_t kEndOfDirectory64 = 0x06064b50;
static constexpr uint32_t kLocator64 = 0x07064b50;
static constexpr uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22,
                          kLocatorBytes = 20, kEnd64Bytes = 56;
static constexpr uint16_t kZip64Field = 1;

llvm::Expected<std::unique_ptr<Archive>>
Archive::open(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef path) {
  std::unique_ptr<Archive> archive(new Archive);
  archive->file = path.str();
  archive->buffer = std::move(bytes);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source =
      zip_source_buffer_create(archive->buffer->getBufferStart(),
                               archive->buffer->getBufferSize(), 0, &error);
  if (source)
    archive->handle = zip_open_from_source(source, ZIP_RDONLY, &error);
  std::string why = archive->handle ? "" : zip_error_strerror(&error);
  zip_error_fini(&error);
  if (!archive->handle) {
    if (source)
      zip_source_free(source);
    return makeError("{0}: not a .pt2 file of torch.export.save: {1}", path,
                     why);
  }
  if (llvm::Error failure = archive->list())
    return std::move(failure);
  if (!archive->find("models/model.json"))
    return makeError("{0}: not a .pt2 file of torch.export.save: it has no "
                     "record 'models/model.json'",
                     path);
  if (llvm::Error failure = archive->locate())
    return std::move(failure);
  return archive;
}

Archive::~Archive() {
  if (handle)
    zip_discard(handle);
}

/// Lists the records by name, without the name of the archive's folder.
llvm::Error Archive::list() {
  zip_int64_t count = zip_get_num_entries(handle, 0);
  for (zip_int64_t n = 0; n < count; ++n) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    auto index = static_cast<uint64_t>(n);
    if (zip_stat_index(handle, index, 0, &stat) != 0 || !stat.name ||
        !(stat.valid & ZIP_STAT_SIZE) || stat.size > INT64_MAX)
      return makeError(
          "{0}: damaged: record {1} of the archive cannot be described", file,
          n);
    if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) &&
        stat.encryption_method != ZIP_EM_NONE)
      return makeError("{0}: record '{1}' is encrypted", file, stat.name);
    llvm::StringRef name = llvm::StringRef(stat.name).split('/').second;
    Record record{index, static_cast<int64_t>(stat.size), -1};
    if (!name.empty() && !records.try_emplace(name, record).second)
      return makeError("{0}: damaged: record '{1}' occurs twice", file, name);
  }
  return llvm::Error::success();
}

/// Returns where the data after the local header at `header` begins, or -1.
int64_t Archive::dataOffset(uint64_t header) const {
  llvm::StringRef bytes = buffer->getBuffer();
  if (header > bytes.size() || bytes.size() - header < kLocalBytes)
    return -1;
  const char *at = bytes.data() + header;
  if (read32le(at) != kLocalHeader)
    return -1;
  uint64_t offset =
      header + kLocalBytes + read16le(at + 26) + read16le(at + 28);
  return offset <= bytes.size() ? static_cast<int64_t>(offset) : -1;
}

/// Returns the local-header offset of a directory entry whose 32-bit offset is
/// 0xFFFFFFFF. The ZIP64 extra field holds the offset after the uncompressed
/// and the compressed size; each of these sizes is present only if its own
/// 32-bit field is 0xFFFFFFFF.
static std::optional<uint64_t> wideOffset(llvm::StringRef entry,
                                          llvm::StringRef extra) {
  while (extra.size() >= 4) {
    uint16_t kind = read16le(extra.data()), size = read16le(extra.data() + 2);
    llvm::StringRef field = extra.substr(4, size);
    extra = extra.drop_front(std::min<size_t>(4 + size, extra.size()));
    if (kind != kZip64Field)
      continue;
    size_t at = (read32le(entry.data() + 24) == UINT32_MAX ? 8 : 0) +
                (read32le(entry.data() + 20) == UINT32_MAX ? 8 : 0);
    if (field.size() < at + 8)
      return std::nullopt;
    return read64le(field.data() + at);
  }
  return std::nullopt;
}

/// Returns where the directory begins, or nullopt if there is none.
static std::optional<uint64_t> directoryOffset(llvm::StringRef bytes) {
  // At most 64 KiB of comment can follow the end record.
  if (bytes.size() < kEndBytes)
    return std::nullopt;
  size_t last = bytes.size() - kEndBytes;
  size_t first = last > UINT16_MAX ? last - UINT16_MAX : 0;
  for (size_t at = last + 1; at-- > first;) {
    if (read32le(bytes.data() + at) != kEndOfDirectory)
      continue;
    uint64_t offset = read32le(bytes.data() + at + 16);
    if (offset != UINT32_MAX)
      return offset;
    if (at < kLocatorBytes ||
        read32le(bytes.data() + at - kLocatorBytes) != kLocator64)
      return std::nullopt;
    uint64_t end64 = read64le(bytes.data() + at - kLocatorBytes + 8);
    if (end64 > bytes.size() || bytes.size() - end64 < kEnd64Bytes ||
        read32le(bytes.data() + end64) != kEndOfDirectory64)
      return std::nullopt;
    return read64le(bytes.data() + end64 + 48);
  }
  return std::nullopt;
}

/// Sets the offset of each record that is not compressed.
llvm::Error Archive::locate() {
  llvm::StringRef bytes = buffer->getBuffer();
  auto damaged = [&] {
    return makeError(
        "{0}: damaged: the archive's directory is not at its declared position",
        file);
  };
  std::optional<uint64_t> begin = directoryOffset(bytes);
  if (!begin || *begin > bytes.size())
    return damaged();
  llvm::StringRef rest = bytes.drop_front(*begin);
  while (rest.size() >= kEntryBytes &&
         read32le(rest.data()) == kDirectoryEntry) {
    llvm::StringRef entry = rest.take_front(kEntryBytes);
    size_t nameBytes = read16le(entry.data() + 28);
    size_t extraBytes = read16le(entry.data() + 30);
    size_t total =
        kEntryBytes + nameBytes + extraBytes + read16le(entry.data() + 32);
    if (rest.size() < total)
      return damaged();
    llvm::StringRef name = rest.substr(kEntryBytes, nameBytes);
    llvm::StringRef extra = rest.substr(kEntryBytes + nameBytes, extraBytes);
    rest = rest.drop_front(total);
    std::optional<uint64_t> header = read32le(entry.data() + 42);
    if (*header == UINT32_MAX)
      header = wideOffset(entry, extra);
    auto record = records.find(name.split('/').second);
    bool isStored = read16le(entry.data() + 10) == ZIP_CM_STORE;
    if (!header || record == records.end() || !isStored)
      continue;
    int64_t offset = dataOffset(*header);
    auto size = static_cast<int64_t>(bytes.size());
    if (offset < 0 || record->second.bytes > size - offset)
      return makeError("{0}: damaged: record '{1}' extends beyond the file",
                       file, name);
    record->second.offset = offset;
  }
  return llvm::Error::success();
}

const Record *Archive::find(llvm::StringRef name) const {
  auto found = records.find(name);
  return found == records.end() ? nullptr : &found->second;
}

llvm::Expected<std::string>
Archive::read(llvm::StringRef name, const Record &record, int64_t limit) const {
  std::string what = file + ": record '" + name.str() + "' ";
  if (record.bytes > limit)
    return makeError("{0}of {1} bytes is larger than {2}", what, record.bytes,
                     limit);
  if (record.offset >= 0)
    return buffer->getBuffer().substr(record.offset, record.bytes).str();
  zip_file_t *stream = zip_fopen_index(handle, record.index, 0);
  if (!stream)
    return makeError("{0}cannot be read: {1}", what, zip_strerror(handle));
  std::string text(static_cast<size_t>(record.bytes), '\0');
  zip_int64_t got = zip_fread(stream, text.data(), text.size());
  int closed = zip_fclose(stream);
  if (got != record.bytes || closed != 0)
    return makeError("{0}is damaged", what);
  return text;
}

} // namespace dpc::frontend::pt2
