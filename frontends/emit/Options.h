//===- Options.h - Import options that the user sets ------------*- C++ -*-===//
#pragma once

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/GlobPattern.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dpc {

struct ImportOptions {
  /// The size of each symbolic dimension by symbol (`--bind=seq=1024`), and the
  /// value of each one-element integer input by name.
  std::map<std::string, int64_t> bind;
  /// Samples per step over all ranks, or 0 if unknown. Sets the batch symbol,
  /// which is dimension 0 of the first input whose dimension 0 is symbolic.
  int64_t globalBatch = 0;
  /// Names or globs of float weights that are not trained.
  std::vector<std::string> frozen;
  /// Names or globs of float weights that are trained even if they look like
  /// tables, masks or scalar constants. Takes precedence over `frozen`.
  std::vector<std::string> trainable;
  /// Whether the caller appends a loss to the imported model (`--loss`).
  bool appendsLoss = false;
  /// The output to train (`--loss-output=NAME`), or "" for the usual choice
  /// (see markLoss).
  std::string lossOutput;
  /// The seed of dropout (`--seed=N`): 0 to 2^32 - 1.
  int64_t seed = 0;
  /// Whether a model in training mode is imported as after .eval() (`--infer`):
  /// without dropout, and with batch norm by running statistics.
  bool evaluates = false;
};

namespace frontend {

/// Formats types and shapes for messages: "[8, 32] f32", "[8, 32]".
std::string describe(mlir::RankedTensorType type);
std::string describe(llvm::ArrayRef<int64_t> shape);

/// Like llvm::formatv, but formats types, shapes and values with `describe`.
/// Without arguments, returns `format` unchanged.
template <typename... Args>
std::string formatted(const char *format, const Args &...args) {
  auto shown = []<typename T>(const T &arg) -> decltype(auto) {
    if constexpr (!std::is_arithmetic_v<T> && requires { describe(arg); })
      return describe(arg);
    else
      return (arg);
  };
  if constexpr (sizeof...(args) == 0)
    return format;
  else
    return llvm::formatv(format, shown(args)...).str();
}

/// Creates an error with a one-line message.
llvm::Error makeError(const llvm::Twine &message);
template <typename... Args>
llvm::Error makeError(const char *format, const Args &...args) {
  return makeError(llvm::Twine(formatted(format, args...)));
}

/// Selects weights by a list of names and globs.
class NameFilter {
public:
  /// `names` are the weights of `file`, and messages call a weight `what` (for
  /// example "initializer"). Fails if a glob is invalid or a pattern matches no
  /// name; the message then lists some of `examples`.
  static llvm::Expected<NameFilter>
  create(llvm::StringRef option, const std::vector<std::string> &patterns,
         llvm::StringRef file, llvm::StringRef what,
         llvm::ArrayRef<std::string> names,
         llvm::ArrayRef<std::string> examples);

  bool matches(llvm::StringRef name) const;
  /// Returns the patterns that match none of `some`.
  std::vector<std::string> matchingNone(llvm::ArrayRef<std::string> some) const;

private:
  std::vector<std::string> names;
  std::vector<llvm::GlobPattern> globs;
};

} // namespace frontend
} // namespace dpc
