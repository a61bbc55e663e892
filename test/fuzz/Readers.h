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
  /// Whether the files are text, for the mutator.
  bool isText = false;
  /// Extracts the part of a file to damage when damage elsewhere only breaks a
  /// checksum. Null: the whole file is damaged.
  std::function<std::string(const std::string &file)> extract;
  /// Builds a file like `file` with a damaged part.
  std::function<std::string(const std::string &file, const std::string &part)>
      embed;
};

/// onnx, pt2, pt2-program (the JSON of a .pt2), stablehlo, cluster, plan, and
/// those of RuntimeFiles.h.
/// Readers of folders use `scratch`, which exists.
std::vector<Reader> allReaders(const std::string &scratch);

} // namespace dpc::fuzz

#endif // DPC_TEST_FUZZ_READERS_H
