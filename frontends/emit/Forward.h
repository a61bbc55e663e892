//===- Forward.h - Construction of the function @forward --------*- C++ -*-===//
//
// Forward creates what every frontend must provide to the rest of the compiler:
// the module, its function, the names, roles and sources of its arguments, the
// names of its results and the loss among them.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_EMIT_FORWARD_H
#define DPC_FRONTENDS_EMIT_FORWARD_H

#include "frontends/emit/Bind.h"
#include "frontends/emit/Emitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dpc::frontend {

/// Location of a weight's row-major little-endian bytes.
struct DataLocation {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// The spelling of an element type in `dpc.source`: "f32", "i64", "bool", ...
llvm::StringRef dtypeName(mlir::Type element);
/// Bytes of one element in a file; a boolean takes one byte.
int64_t elementBytes(mlir::Type element);

/// A weight that is an argument of @forward.
struct WeightArgument {
  std::string name;
  mlir::RankedTensorType type;
  bool isParameter = false;         ///< trained; otherwise a buffer
  std::optional<DataLocation> data; ///< nullopt: abstract
};

/// A result of the model.
struct NamedResult {
  std::string name;
  Val value;
};

class Forward {
public:
  /// `file` is the model's path; messages and `dpc.model` name it.
  Forward(llvm::StringRef file, mlir::MLIRContext *context)
      : emit(mlir::OpBuilder(context)), file(file), context(context) {}

  /// Begins the function. Its arguments are the parameters, the buffers and the
  /// inputs, in this order. The result maps each name to its value. `constants`
  /// are the float weights that are not arguments.
  llvm::StringMap<Val> begin(llvm::ArrayRef<WeightArgument> weights,
                             llvm::ArrayRef<BoundInput> inputs,
                             llvm::ArrayRef<std::string> constants);

  /// Finishes the function. It returns `results` and the new values of the
  /// buffers in `emit.updates`. The first scalar float result is the loss.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  finish(llvm::ArrayRef<NamedResult> results);

  Emitter emit;

private:
  void addUpdates(llvm::SmallVectorImpl<mlir::Value> &results,
                  llvm::SmallVectorImpl<mlir::DictionaryAttr> &attrs);
  void makeModule(llvm::ArrayRef<std::string> constants);

  std::string file;
  mlir::MLIRContext *context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
};

/// Verifies `module` and returns it; reports an error as one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
verified(llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module,
         llvm::StringRef file, mlir::MLIRContext &context);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_FORWARD_H
