//===- Forward.h - Construction of the function @forward --------*- C++ -*-===//
//
// Every frontend uses Forward to create the module and its function: names,
// roles and sources of arguments, names of results, and the loss.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Bind.h"
#include "frontends/emit/Emitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace dpc::frontend {

/// The position of a weight's data, which is row-major and little-endian.
struct DataLocation {
  std::string file;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Returns the element type's name in `dpc.source`: "f32", "bool", ...
llvm::StringRef dtypeName(mlir::Type element);
/// Returns the bytes per element in a file; a boolean takes one byte.
int64_t elementBytes(mlir::Type element);

struct WeightArgument {
  std::string name;
  mlir::RankedTensorType type;
  bool isParameter = false;              ///< true: trained; false: buffer
  std::optional<DataLocation> data;      ///< nullopt: abstract
  std::vector<std::string> aliases = {}; ///< other names (tied weights)
  bool isUnsaved = false; ///< whether the model saves its weights without it
  bool isFrozen = false;  ///< a parameter of the model that is not trained
};

struct NamedResult {
  std::string name;
  Val value;
};

class Forward {
public:
  /// `file` is the path of the model, which messages and `dpc.model` show.
  Forward(llvm::StringRef file, mlir::MLIRContext *context)
      : emit(mlir::OpBuilder(context)), file(file), context(context) {}

  /// Starts the function, with parameters, buffers and inputs as arguments in
  /// this order, and returns the arguments by name. `constants` names the float
  /// weights that are not arguments.
  llvm::StringMap<Val> begin(llvm::ArrayRef<WeightArgument> weights,
                             llvm::ArrayRef<BoundInput> inputs,
                             llvm::ArrayRef<std::string> constants);

  /// Notes the names of all weights that are not arguments. Called after
  /// begin().
  void noteUnread(llvm::ArrayRef<std::string> names);

  /// Ends the function, which returns `results` and then the new buffer values
  /// in `emit.updates`. `loss` names the result to train (see markLoss).
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  finish(llvm::ArrayRef<NamedResult> results, llvm::StringRef loss);

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

/// Verifies and returns `module`. Reports any error as one diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
verified(llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> module,
         llvm::StringRef file, mlir::MLIRContext &context);

} // namespace dpc::frontend
