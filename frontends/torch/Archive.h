//===- Archive.h - The zip file of a .pt2 ----------------------*- C++ -*-===//
//
// libzip reads the directory and inflates; where a stored record lies in the
// file it does not tell, so that is read from the directory here. Nothing in
// the file is trusted.
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
  uint64_t index = 0;  ///< in libzip's count
  int64_t bytes = 0;   ///< when inflated
  int64_t offset = -1; ///< of its first byte in the file; -1: compressed
};

class Archive {
public:
  /// Opens the archive in `bytes`, called `path` in messages. Fails on what is
  /// no .pt2.
  static llvm::Expected<std::unique_ptr<Archive>>
  open(std::unique_ptr<llvm::MemoryBuffer> bytes, llvm::StringRef path);
  ~Archive();

  const std::string &path() const { return file; }
  /// The record `name` in the archive's folder; null when there is none.
  const Record *find(llvm::StringRef name) const;
  /// Its bytes, inflated. Fails on damage, and on records of more than
  /// `limit` bytes.
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
