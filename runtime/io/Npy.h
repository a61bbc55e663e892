//===- Npy.h - NumPy's .npy files -------------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/HostTensor.h"
#include "runtime/base/ReadFile.h"
#include "runtime/io/MappedFile.h"
#include "runtime/plan/Plan.h"

#include <fstream>

namespace dpc::rt {

struct NpyArray {
  MappedFile file;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const char *data = nullptr; ///< in the mapping; not aligned
};

/// Opens a .npy file of format 1 to 3 and checks that it holds its array
/// and nothing else.
/// Refuses Fortran order, big-endian data and unsupported element types.
Expected<NpyArray> openNpy(const std::string &path);

/// Returns DIR/NAME.npy for an input or output; "_" replaces "/" in NAME.
std::string npyFile(const std::string &dir, const Port &port);

/// Returns the names of the files of arrays in `dir` that none of `ports`
/// reads.
std::vector<std::string> otherArrayFiles(const std::string &dir,
                                         const std::vector<Port> &ports);

/// An array that a run reads in parts. If the file is truncated, a read fails
/// with a message; an access to a mapping would end the process.
struct StoredArray {
  InputFile file;
  int64_t begin = 0;
  DType dtype = DType::F32;

  /// Reads `count` elements from index `first` on and converts them to `as`.
  Status read(int64_t first, int64_t count, DType as, void *to) const;
};

/// Writes a file in parts, so that only one part is in memory. bf16 and
/// narrower floats become f32; integers of fewer than 8 bits become bytes.
class NpyWriter {
public:
  NpyWriter() = default;
  NpyWriter(NpyWriter &&) = default;
  /// Removes the temporary file if finish() has not renamed it.
  ~NpyWriter();

  /// Until finish(), the data is in a temporary file in the folder of `path`.
  Status start(const std::string &path, DType dtype,
               const std::vector<int64_t> &shape);
  Status append(const HostTensor &tensor, int64_t count);
  /// Renames the file to `path`. Fails if elements are missing.
  Status finish();

private:
  std::string path;
  DType dtype = DType::F32; ///< type in the file
  int64_t missing = 0;      ///< elements
  std::ofstream out;
};

Status writeNpy(const std::string &path, const HostTensor &tensor);

} // namespace dpc::rt
