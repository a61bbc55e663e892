//===- Bind.h - Sizes for symbolic dimensions -------------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_EMIT_BIND_H
#define DPC_FRONTENDS_EMIT_BIND_H

#include "frontends/emit/ConstTensor.h"
#include "frontends/emit/Options.h"

namespace dpc::frontend {

/// A dimension of an input: a size, or a symbol when `symbol` is not empty.
struct InputDim {
  std::string symbol;
  int64_t size = 0;
};

/// An input as its file declares it.
struct DeclaredInput {
  std::string name;
  mlir::Type element;
  std::vector<InputDim> dims;
};

/// An input whose dimensions are all known.
struct BoundInput {
  std::string name;
  mlir::RankedTensorType type;
  std::optional<int64_t> batchDim;
  /// The value that `--bind` gives to an input of one integer or boolean; such
  /// an input becomes a constant of the program.
  std::optional<int64_t> value;
};

/// Gives a size to every symbolic dimension of the inputs of `file`, and a
/// value to each input of one integer or boolean that a binding names.
/// The batch symbol is the symbol in dimension 0 of the first input that has
/// one there. A model without symbols has its batch in dimension 0 of its first
/// input.
/// Fails when a symbol is unbound, when a binding names neither a symbol nor an
/// input, when a size is not positive, and when a size contradicts
/// `globalBatch`.
llvm::Expected<std::vector<BoundInput>>
bindInputs(llvm::StringRef file, std::vector<DeclaredInput> inputs,
           const ImportOptions &options);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_BIND_H
