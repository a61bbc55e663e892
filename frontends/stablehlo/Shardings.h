//===- Shardings.h - Shardings in the imported module -----------*- C++ -*-===//
//
// Axes of an sdy.mesh that shard the first dimension of an input are data axes,
// which become dp. One other axis can shard other dimensions of arguments; it
// becomes tp. Shardings of parameters and inputs are constraints. Shardings of
// inner values and of results are left to the search, and a remark says so.
// Modules that predate sdy have no mesh. Instead, each argument has an
// mhlo.sharding, which HloSharding.h parses. These are used only if no argument
// has an sdy.sharding.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_SHARDINGS_H
#define DPC_FRONTENDS_STABLEHLO_SHARDINGS_H

#include "frontends/stablehlo/Arguments.h"

namespace dpc::frontend::hlo {

/// A mesh axis and its size.
struct UserAxis {
  std::string name;
  int64_t size = 1;
};

/// Parses `mesh<["data"=2, "model"=4]>`.
std::optional<std::vector<UserAxis>> parseMesh(llvm::StringRef text);

/// The axes of each dimension of `sharding<@mesh, [{"data"}, {?}]>`. An open
/// dimension is left to the search.
struct UserSharding {
  std::string mesh;
  std::vector<std::vector<std::string>> dims;
  bool isOpen = false;
};
std::optional<UserSharding> parseSharding(llvm::StringRef text);

/// Copies the shardings of `main`'s arguments to those of the function in
/// `made`.
llvm::Error keepShardings(mlir::ModuleOp module, mlir::func::FuncOp main,
                          const Signature &signature, llvm::StringRef file,
                          mlir::ModuleOp made);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_SHARDINGS_H
