//===- StoredArray.h - an array's elements in a file ------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_STOREDARRAY_H
#define DPC_RUNTIME_IO_STOREDARRAY_H

#include "runtime/base/DType.h"
#include "runtime/base/ReadFile.h"

namespace dpc::rt {

/// An array that is read in parts during a run of perhaps weeks. It uses reads
/// instead of a mapping, so a file that changes gives an error message.
struct StoredArray {
  InputFile file;
  int64_t begin = 0; ///< offset of the first element in bytes
  DType dtype = DType::F32;

  /// Reads `count` elements from element `first` on, converted to `as`.
  Status read(int64_t first, int64_t count, DType as, void *to) const;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_STOREDARRAY_H
