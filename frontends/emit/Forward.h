//===- Forward.h - The function @forward being made ------------*- C++ -*-===//
//
// What every frontend owes the rest of the compiler is made here: the module,
// its function, names, roles and sources of arguments, names of results and
// the loss among them.
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

/// Where a weight's row-major little-endian bytes lie.
struct DataLocation {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// "f32", "i64", "bool", ...: how `dpc.source` spells an element type.
llvm::StringRef dtypeName(mlir::Type element);
/// Bytes of one element in a file (booleans take one).
int64_t elementBytes(mlir::Type element);

/// A weight that is an argument.
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
  /// `file` is the model's path, which messages and `dpc.model` name.
  Forward(llvm::StringRef file, mlir::MLIRContext *context)
      : emit(mlir::OpBuilder(context)), file(file), context(context) {}

  /// Begins the function. Its arguments are the parameters, the buffers, then
  /// the inputs; the result holds the value of each by name. `constants` are
  /// the float weights that are no arguments.
  llvm::StringMap<Val> begin(llvm::ArrayRef<WeightArgument> weights,
                             llvm::ArrayRef<BoundInput> inputs,
                             llvm::ArrayRef<std::string> constants);

  /// Ends it: returns `results`, the first scalar float one of which is the
  /// loss, and the new values of buffers that `emit.updates` holds.
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

/// Hands `module` over after verifying it; makes one diagnostic of an error.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
verified(llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module,
         llvm::StringRef file, mlir::MLIRContext &context);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_EMIT_FORWARD_H
