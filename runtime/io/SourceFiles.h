//===- SourceFiles.h - which files a plan's weights are in ------*- C++ -*-===//
//
// A plan refers to weights by their place in a file, so another version of the
// file would give other weights. A plan therefore records the size and a hash
// of each file (Plan::sourceFiles), and a rank compares both before it reads.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/io/MappedFile.h"
#include "runtime/plan/Plan.h"

namespace dpc::rt {

/// Returns the path of a file that a plan in folder `planDir` names. Relative
/// names start at the folder.
std::string sourcePath(const std::string &planDir, const std::string &file);

/// Returns a hash of a file's contents as 16 hexadecimal digits. Up to 64 MiB,
/// it is XXH3-64 of all bytes. For a larger file, it is XXH3-64 of the size (8
/// bytes, little-endian) and of 1,024 evenly spaced blocks of 64 KiB, of which
/// the first begins and the last ends the file. It thus takes milliseconds, but
/// misses changes that are only between the blocks.
std::string sampleHash(const char *data, int64_t bytes);

/// Returns the entry of an open file that a plan calls `name`.
SourceFile describeSourceFile(const std::string &name, const MappedFile &file);

/// Returns an entry for each file that an initial value of `plan` names, in the
/// order of the names. Takes entries from `known` before it reads files.
Expected<std::vector<SourceFile>>
findSourceFiles(const Plan &plan, const std::string &planDir,
                const std::vector<SourceFile> &known = {});

/// Refuses a file that is not the one which a plan in `planDir` has recorded.
Status checkSourceFile(const SourceFile &recorded, const MappedFile &file,
                       const std::string &planDir);

/// Says of each file that exists and is not the one which the plan has recorded
/// how it differs. A .safetensors file has only values, so that a run which
/// reads none from it does not depend on it.
std::vector<std::string> changedSources(const Plan &plan,
                                        const std::string &planDir);

} // namespace dpc::rt
