//===- Safetensors.h - .safetensors files -----------------------*- C++ -*-===//
//
// A file has three parts:
//
//    the length N of the header as u64
//    N bytes of JSON, {"name": {"dtype", "shape", "data_offsets": [begin,
//    end]}} the data
//
// Offsets count from the start of the data. The tensors cover the data without
// gaps or overlaps.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/io/MappedFile.h"

#include <map>

namespace dpc::rt {

struct SafetensorsEntry {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< from the start of the file
  int64_t bytes = 0;
};

struct SafetensorsFile {
  MappedFile file;
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata; ///< text entries of
                                               ///< "__metadata__"
  int64_t headerBytes = 0;                     ///< bytes
};

/// Checks that all tensors are inside the file, which may be untrusted.
Expected<SafetensorsFile> openSafetensors(const std::string &path);

/// Writes one tensor after another, so that only one tensor is in memory.
class SafetensorsWriter {
public:
  SafetensorsWriter() = default;
  SafetensorsWriter(const SafetensorsWriter &) = delete;
  SafetensorsWriter &operator=(const SafetensorsWriter &) = delete;
  /// Removes an unfinished file.
  ~SafetensorsWriter();

  struct Entry {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
  };
  /// Until finish(), the data is in a temporary file in the folder of `path`.
  Status start(const std::string &path, const std::vector<Entry> &entries,
               const std::map<std::string, std::string> &metadata = {});
  /// Appends the next tensor; start() sets the order.
  Status append(const HostTensor &tensor) {
    return append(tensor.data.data(), static_cast<int64_t>(tensor.data.size()));
  }
  Status append(const void *bytes, int64_t count);
  /// Renames the file to `path` after its data is on the disk.
  Status finish();

private:
  Status refuse(int error) const;

  std::string path;
  int fd = -1;
};

} // namespace dpc::rt
