//===- Bind.h - Symbolic dimensions get their sizes ------------*- C++ -*-===//
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

/// An input of static type.
struct BoundInput {
  std::string name;
  mlir::RankedTensorType type;
  std::optional<int64_t> batchDim;
  /// Of one whole number that is bound too: a constant of the program.
  std::optional<int64_t> value;
};

/// Binds every symbolic dimension of the inputs of `file`, and inputs of one
/// integer or boolean that a binding names. The batch symbol is
/// that of dimension 0 of the first input that has one; a model without
/// symbols has its batch in dimension 0 of the first input. Fails when a
/// symbol is unbound, a binding names neither, a size is not positive, or
/// contradicts `globalBatch`.
llvm::Expected<std::vector<BoundInput>>
bindInputs(llvm::StringRef file, std::vector<DeclaredInput> inputs,
           const ImportOptions &options);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_BIND_H
