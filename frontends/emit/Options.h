//===- Options.h - What the user decides about a model ---------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_OPTIONS_H
#define DPC_FRONTENDS_EMIT_OPTIONS_H

#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dpc {

/// What the user decides about a model at import.
struct ImportOptions {
  /// Sizes of symbolic dimensions by symbol (`--bind=seq=1024`), and values of
  /// inputs of one whole number by name.
  std::map<std::string, int64_t> bind;
  /// Samples in a step over all ranks; sets the batch symbol, which is the
  /// symbol of dimension 0 of the first input that has one. 0 = not given.
  int64_t globalBatch = 0;
  /// Names or globs of float weights that are not trained.
  std::vector<std::string> frozen;
  /// Names or globs of float weights that are trained although they look
  /// like tables, masks or scalar constants. Wins over `frozen`.
  std::vector<std::string> trainable;
  /// Whether the caller appends a loss to what is imported (`--loss`).
  bool appendsLoss = false;
  /// Of what dropout leaves out (`--seed=N`): 0 to 2^32 - 1.
  int64_t seed = 0;
};

namespace frontend {

/// An error of one line.
llvm::Error makeError(const llvm::Twine &message);

/// The weights that a list of names and globs means.
class NameFilter {
public:
  /// `names` are the weights of `file`, which it calls `what` ("initializer").
  /// Fails on patterns that are no globs or match none of them; its message
  /// shows some of `examples`.
  static llvm::Expected<NameFilter>
  create(llvm::StringRef option, const std::vector<std::string> &patterns,
         llvm::StringRef file, llvm::StringRef what,
         llvm::ArrayRef<std::string> names,
         llvm::ArrayRef<std::string> examples);

  bool matches(llvm::StringRef name) const;

private:
  std::vector<std::string> names;
  std::vector<llvm::GlobPattern> globs;
};

} // namespace frontend
} // namespace dpc

#endif // DPC_FRONTENDS_EMIT_OPTIONS_H
