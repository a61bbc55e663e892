//===- Safetensors.h - .safetensors files -----------------------*- C++ -*-===//
//
// u64 length N | N bytes of JSON {"name": {"dtype", "shape", "data_offsets":
// [begin, end]}} | data. Offsets are relative to the data; the tensors cover it
// without gaps or overlaps.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_IO_SAFETENSORS_H
#define DPC_RUNTIME_IO_SAFETENSORS_H

#include "runtime/base/HostTensor.h"
#include "runtime/io/MappedFile.h"

#include <map>

namespace dpc::rt {

/// A tensor inside an open file.
struct SafetensorsEntry {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  int64_t offset = 0; ///< bytes from the file's start
  int64_t bytes = 0;
};

struct SafetensorsFile {
  MappedFile file;
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata; ///< text entries of
                                               ///< "__metadata__"
  int64_t headerBytes = 0; ///< bytes before the data, with the length field
};

/// Opens a file, which may be untrusted, and checks that all tensors are inside
/// it.
Expected<SafetensorsFile> openSafetensors(const std::string &path);

/// Writes a file tensor by tensor, so that only one tensor is in memory at a
/// time.
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
  /// Starts `path`. Until finish(), the data goes to a temporary file in the
  /// same folder.
  Status start(const std::string &path, const std::vector<Entry> &entries,
               const std::map<std::string, std::string> &metadata = {});
  /// Appends the elements of the next tensor, in the order of start().
  Status append(const HostTensor &tensor) {
    return append(tensor.data.data(), static_cast<int64_t>(tensor.data.size()));
  }
  Status append(const void *bytes, int64_t count);
  /// Waits until the file is on the disk, and renames it to `path`.
  Status finish();

private:
  Status refuse(int error) const;

  std::string path;
  int fd = -1;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_SAFETENSORS_H
