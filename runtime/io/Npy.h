//===- Npy.h - NumPy's .npy files -------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_NPY_H
#define DPC_RUNTIME_IO_NPY_H

#include "runtime/base/HostTensor.h"
#include "runtime/base/ReadFile.h"
#include "runtime/io/MappedFile.h"
#include "runtime/plan/Plan.h"

#include <fstream>

namespace dpc::rt {

/// An array in a .npy file.
struct NpyArray {
  MappedFile file;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const char *data = nullptr; ///< points into the mapping; not aligned
};

/// Opens a .npy file (format 1 to 3) and checks that its data is complete.
/// Refuses Fortran order, big-endian and unsupported element types.
Expected<NpyArray> openNpy(const std::string &path);

/// DIR/NAME.npy, the file of an input or output; a "/" in its name becomes "_".
std::string npyFile(const std::string &dir, const Port &port);

/// An array that is read in parts during a run of perhaps weeks. If the file
/// changes, reads fail with a message, while a mapping would end the process.
struct StoredArray {
  InputFile file;
  int64_t begin = 0; ///< offset of the first element in bytes
  DType dtype = DType::F32;

  /// Reads `count` elements from element `first` on, converted to `as`.
  Status read(int64_t first, int64_t count, DType as, void *to) const;
};

/// Writes a file in parts, so that only one part is in memory at a time. bf16
/// and narrower floats are converted to f32. Integers with fewer than 8 bits
/// occupy a byte.
class NpyWriter {
public:
  /// Starts `path`. Until finish(), the data goes to a temporary file in the
  /// same folder.
  Status start(const std::string &path, DType dtype,
               const std::vector<int64_t> &shape);
  /// Appends the first `count` elements of a tensor.
  Status append(const HostTensor &tensor, int64_t count);
  /// Renames the file to `path`. All elements must have been appended.
  Status finish();

private:
  std::string path;
  DType dtype = DType::F32; ///< type in the file
  int64_t missing = 0;      ///< elements
  std::ofstream out;
};

/// Writes `tensor` with NpyWriter, so that the file is replaced atomically.
Status writeNpy(const std::string &path, const HostTensor &tensor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_NPY_H
