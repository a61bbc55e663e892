//===- WriteFile.h - durable writes of small files --------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_WRITEFILE_H
#define DPC_RUNTIME_BASE_WRITEFILE_H

#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// Writes a whole file and waits until it is on the disk.
Status writeDurably(const std::string &path, const std::string &text);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_WRITEFILE_H
