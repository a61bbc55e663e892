//===- WriteFile.h - writing whole files ------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/Status.h"

#include <string>

namespace dpc::rt {

/// Writes a file. All functions except makeFolder() fail with "PATH: cannot be
/// written: REASON".
Status writeFile(const std::string &path, const std::string &text);
/// Writes PATH.new, then renames it, so that PATH is never incomplete.
Status replaceFile(const std::string &path, const std::string &text);
/// Writes a file and waits until its contents are on the disk.
Status writeDurably(const std::string &path, const std::string &text);
/// Fails unless a file can be written at `path`. Existing contents stay
/// unchanged. An empty `path` is accepted.
Status checkWritable(const std::string &path);
/// Creates a folder and its parents. Errors: "PATH: cannot be created: REASON".
Status makeFolder(const std::string &path);

} // namespace dpc::rt
