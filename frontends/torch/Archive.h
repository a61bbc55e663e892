//===- Archive.h - The zip archive of a .pt2 file ---------------*- C++ -*-===//
//
// libzip reads the directory and decompresses records, but does not expose
// where a stored record lies in the file. This class reads the position from
// the directory. It does not trust anything in the file.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_TORCH_ARCHIVE_H
#define DPC_FRONTENDS_TORCH_ARCHIVE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <optional>
#include <string>

struct zip;

namespace dpc::frontend::pt2 {

/// A record of the archive.
struct Record {
  uint64_t index = 0;  ///< libzip's index
  int64_t bytes = 0;   ///< uncompressed size
  int64_t offset = -1; ///< file offset of the data; -1: compressed
};

class Archive {
public:
  /// Opens the archive in `bytes`; messages call it `path`. Fails if it is not
  /// a .pt2 file.
  static llvm::Expected<std::unique_ptr<Archive>>
  open(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef path);
  ~Archive();

  const std::string &path() const { return file; }
  /// The record `name` in the archive's folder, or null.
  const Record *find(llvm::StringRef name) const;
  /// The uncompressed bytes of a record. Fails if they are damaged or exceed
  /// `limit`.
  llvm::Expected<std::string> read(llvm::StringRef name, const Record &record,
                                   int64_t limit) const;

private:
  Archive() = default;
  llvm::Error list();
  llvm::Error locate();
  int64_t dataOffset(uint64_t header) const;

  std::string file;
  std::unique_ptr<llvm::MemoryBuffer> buffer;
  struct zip *handle = nullptr;
  llvm::StringMap<Record> records;
};

} // namespace dpc::frontend::pt2

#endif // DPC_FRONTENDS_TORCH_ARCHIVE_H
