//===- StoredArray.h - an array's elements in a file ------------*- C++ -*-===//
#ifndef DPC_RUNTIME_IO_STOREDARRAY_H
#define DPC_RUNTIME_IO_STOREDARRAY_H

#include "runtime/base/DType.h"
#include "runtime/base/ReadFile.h"

namespace dpc::rt {

/// An array that is read in parts while a run goes on, perhaps for weeks: with
/// reads, which say what is wrong when the file changes, not with a mapping.
struct StoredArray {
  InputFile file;
  int64_t begin = 0; ///< byte of its first element
  DType dtype = DType::F32;

  /// `count` elements from number `first` on, converted to `as`.
  Status read(int64_t first, int64_t count, DType as, void *to) const;
};

} // namespace dpc::rt

#endif // DPC_RUNTIME_IO_STOREDARRAY_H
