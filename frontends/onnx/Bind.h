//===- Bind.h - Symbolic dimensions get their sizes ------------*- C++ -*-===//
#ifndef DPC_FRONTENDS_ONNX_BIND_H
#define DPC_FRONTENDS_ONNX_BIND_H

#include "frontends/onnx/Import.h"
#include "frontends/onnx/ModelFile.h"

namespace dpc::frontend {

/// A graph input (initializers listed as inputs are not) of static type.
struct BoundInput {
  std::string name;
  mlir::RankedTensorType type;
  std::optional<int64_t> batchDim;
};

/// Binds every symbolic dimension of the inputs. The batch symbol is that of
/// dimension 0 of the first input that has one; a model without symbols has
/// its batch in dimension 0 of the first input. A dimension without a name is
/// called INPUT.D. Fails when a symbol is unbound, a binding names no symbol,
/// is not positive, or contradicts `globalBatch`.
llvm::Expected<std::vector<BoundInput>> bindInputs(const ModelFile &file,
                                                   const ImportOptions &options,
                                                   mlir::MLIRContext *context);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_BIND_H
