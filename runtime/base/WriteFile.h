//===- WriteFile.h - writing whole files ------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_WRITEFILE_H
#define DPC_RUNTIME_BASE_WRITEFILE_H

#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// Writes a file. This and the functions below fail with "PATH: cannot be
/// written: REASON".
Status writeFile(const std::string &path, const std::string &text);
/// Writes PATH.new and renames it to PATH, so that readers of PATH see either
/// the old or the new contents.
Status replaceFile(const std::string &path, const std::string &text);
/// Writes a file and waits until it is on the disk.
Status writeDurably(const std::string &path, const std::string &text);
/// Fails unless a file can be written at `path`, which may be "". Existing
/// contents stay unchanged.
Status checkWritable(const std::string &path);
/// Creates a folder and its parents. Fails with "PATH: cannot be created:
/// REASON".
Status makeFolder(const std::string &path);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_WRITEFILE_H
