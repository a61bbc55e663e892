//===- Readers.h - Readers of untrusted files -------------------*- C++ -*-===//
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace dpc::fuzz {

struct Reader {
  std::string name;
  /// Returns "" if the reader accepts `bytes` or rejects them with a one-line
  /// message; otherwise returns what is wrong with the rejection.
  std::function<std::string(const std::string &bytes)> read;
  /// True if the mutator may also change words and numbers.
  bool isText = false;
  /// Returns the part of `file` to damage, which is the part that its checksum
  /// covers. If null, the whole file is damaged.
  std::function<std::string(const std::string &file)> extract;
  /// Returns a copy of `file` in which `part` replaces the extracted part.
  std::function<std::string(const std::string &file, const std::string &part)>
      embed;
};

/// Returns the readers onnx, pt2, pt2-program (the JSON of a .pt2), stablehlo,
/// cluster and plan, and those of runtimeReaders(). Readers of folders write to
/// the existing folder `scratch`.
std::vector<Reader> allReaders(const std::string &scratch);

} // namespace dpc::fuzz
