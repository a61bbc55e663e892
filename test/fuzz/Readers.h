//===- Readers.h - What reads files of others -------------------*- C++ -*-===//
#ifndef DPC_TEST_FUZZ_READERS_H
#define DPC_TEST_FUZZ_READERS_H

#include <functional>
#include <string>
#include <vector>

namespace dpc::fuzz {

/// A reader of files that are not trusted.
struct Reader {
  std::string name;
  /// Reads `bytes`. Returns "" when they are accepted, or refused in one line,
  /// and otherwise what was wrong with the refusal.
  std::function<std::string(const std::string &bytes)> read;
  /// Whether files are text, for the mutator.
  bool isText = false;
  /// What of a file is damaged, where damaging bytes would only break a
  /// checksum; null: its bytes.
  std::function<std::string(const std::string &file)> extract;
  /// A file like `file` with a damaged part.
  std::function<std::string(const std::string &file, const std::string &part)>
      embed;
};

/// onnx, pt2, pt2-program (the JSON of a .pt2), stablehlo, cluster, plan, and
/// those of RuntimeFiles.h.
/// Readers of folders use `scratch`, which exists.
std::vector<Reader> allReaders(const std::string &scratch);

} // namespace dpc::fuzz

#endif // DPC_TEST_FUZZ_READERS_H
