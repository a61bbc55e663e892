//===- Readers.h - Readers of untrusted files -------------------*- C++ -*-===//
#ifndef DPC_TEST_FUZZ_READERS_H
#define DPC_TEST_FUZZ_READERS_H

#include <functional>
#include <string>
#include <vector>

namespace dpc::fuzz {

/// A reader of untrusted files.
struct Reader {
  std::string name;
  /// Reads `bytes`. Returns "" if the reader accepts them or rejects them with
  /// a one-line message; otherwise returns what is wrong with the rejection.
  std::function<std::string(const std::string &bytes)> read;
  /// Whether the files are text. The mutator then also changes words and
  /// numbers.
  bool isText = false;
  /// Returns the part of `file` to damage; other damage would only break a
  /// checksum. If null, the whole file is damaged.
  std::function<std::string(const std::string &file)> extract;
  /// Returns a copy of `file` with `part` in place of the extracted part.
  std::function<std::string(const std::string &file, const std::string &part)>
      embed;
};

/// The readers onnx, pt2, pt2-program (the JSON of a .pt2), stablehlo, cluster,
/// plan, and those of runtimeReaders(). Readers of folders use the existing
/// folder `scratch`.
std::vector<Reader> allReaders(const std::string &scratch);

} // namespace dpc::fuzz

#endif // DPC_TEST_FUZZ_READERS_H
