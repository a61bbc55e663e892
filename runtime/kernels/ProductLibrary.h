//===- ProductLibrary.h - what computes matrix products ---------*- C++ -*-===//
#ifndef DPC_RUNTIME_KERNELS_PRODUCTLIBRARY_H
#define DPC_RUNTIME_KERNELS_PRODUCTLIBRARY_H

#include <string>

namespace dpc::rt {

/// The version of oneDNN that is used, "2.6.2"; "" in a build without it.
std::string productLibrary();

} // namespace dpc::rt

#endif // DPC_RUNTIME_KERNELS_PRODUCTLIBRARY_H
