//===- Shardings.h - Shardings that a module comes with --------*- C++ -*-===//
//
// Axes of an sdy.mesh that split the first dimension of an input are data axes,
// which means dp; one more axis may split other dimensions of arguments, which
// means tp. Shardings of parameters and inputs are constraints; of values
// inside, and of results, they are left to search, which a remark says.
//
// Modules of before sdy have no mesh, but an mhlo.sharding for each argument,
// which counts where none has an sdy.sharding: HloSharding.h reads it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_STABLEHLO_SHARDINGS_H
#define DPC_FRONTENDS_STABLEHLO_SHARDINGS_H

#include "frontends/stablehlo/Arguments.h"

namespace dpc::frontend::hlo {

/// An axis of a mesh and its size.
struct UserAxis {
  std::string name;
  int64_t size = 1;
};

/// `mesh<["data"=2, "model"=4]>`.
std::optional<std::vector<UserAxis>> parseMesh(llvm::StringRef text);

/// The axes of each dimension of `sharding<@mesh, [{"data"}, {?}]>`. A
/// dimension may be open, which leaves it to search.
struct UserSharding {
  std::string mesh;
  std::vector<std::vector<std::string>> dims;
  bool isOpen = false;
};
std::optional<UserSharding> parseSharding(llvm::StringRef text);

/// Puts the shardings of `main`'s arguments on those of `made`'s function.
llvm::Error keepShardings(mlir::ModuleOp module, mlir::func::FuncOp main,
                          const Signature &signature, llvm::StringRef file,
                          mlir::ModuleOp made);

} // namespace dpc::frontend::hlo

#endif // DPC_FRONTENDS_STABLEHLO_SHARDINGS_H
