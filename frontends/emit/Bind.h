//===- Bind.h - Sizes for symbolic dimensions -------------------*- C++ -*-===//
#pragma once

#include "frontends/emit/ConstTensor.h"
#include "frontends/emit/Options.h"

namespace dpc::frontend {

/// A dimension of an input: `size`, or a symbol if `symbol` is not empty.
struct InputDim {
  std::string symbol;
  int64_t size = 0;
};

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
  /// The value that `--bind` sets for an input of one integer or boolean, which
  /// then becomes a constant.
  std::optional<int64_t> value;
};

/// Sets the size of every symbolic dimension of the inputs of `file`, and the
/// value of each one-element integer or boolean input that a binding names. The
/// batch symbol is dimension 0 of the first input whose dimension 0 is
/// symbolic. In a model without symbols, the batch is dimension 0 of the first
/// input. Fails if a symbol is unbound, if a binding names neither a symbol nor
/// an input, if a size is not positive, or if a size contradicts `globalBatch`.
llvm::Expected<std::vector<BoundInput>>
bindInputs(llvm::StringRef file, std::vector<DeclaredInput> inputs,
           const ImportOptions &options);

} // namespace dpc::frontend
