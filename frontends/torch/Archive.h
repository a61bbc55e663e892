//===- Archive.h - The zip archive of a .pt2 file ---------------*- C++ -*-===//
//
// libzip reads the directory and decompresses records, but does not report the
// file offset of an uncompressed record. This class reads the offset from the
// directory, and checks every field, because the file can be damaged.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <memory>
#include <optional>
#include <string>

struct zip;

namespace dpc::frontend::pt2 {

struct Record {
  uint64_t index = 0;  ///< libzip's index
  int64_t bytes = 0;   ///< uncompressed size
  int64_t offset = -1; ///< where the data is in the file; -1: compressed
};

class Archive {
public:
  /// Opens the archive in `bytes`. Fails if it is not a .pt2 file; messages
  /// call it `path`.
  static llvm::Expected<std::unique_ptr<Archive>>
  open(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef path);
  ~Archive();

  const std::string &path() const { return file; }
  /// Returns the record `name` in the archive's folder, or null.
  const Record *find(llvm::StringRef name) const;
  /// Returns the uncompressed bytes of a record. Fails if they are damaged or
  /// more than `limit`.
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
