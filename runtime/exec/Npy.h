//===- Npy.h - NumPy's .npy files -------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_NPY_H
#define DPC_RUNTIME_EXEC_NPY_H

#include "runtime/base/HostTensor.h"
#include "runtime/exec/MappedFile.h"

namespace dpc::rt {

/// An array in a .npy file: little-endian, row-major.
struct NpyArray {
  MappedFile file;
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  const char *data = nullptr; ///< inside the mapping, not aligned
};

/// Opens a .npy file (format 1 to 3) and checks that its data is complete.
/// Fortran order, big-endian and other element types are refused by name.
Expected<NpyArray> openNpy(const std::string &path);

/// Writes `tensor`; bf16 and narrower floats become
/// f32, integers of less than 8 bits take a byte. Replaces the file at once.
Status writeNpy(const std::string &path, const HostTensor &tensor);

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_NPY_H
