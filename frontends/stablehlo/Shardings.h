//===- Shardings.h - Shardings in the imported module -----------*- C++ -*-===//
//
// The shardings of arguments become constraints on the search. Mesh axes that
// shard the first dimension of an input become the mesh axis `dp`; the axis
// that shards other dimensions becomes `tp`. A remark says that the shardings
// of inner values and results are left to the search. If no argument has an
// sdy.sharding, as in old modules, mhlo.shardings are used (HloSharding.h).
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/stablehlo/Arguments.h"

namespace dpc::frontend::hlo {

struct UserAxis {
  std::string name;
  int64_t size = 1;
};

/// Parses `mesh<["data"=2, "model"=4]>`.
std::optional<std::vector<UserAxis>> parseMesh(llvm::StringRef text);

/// The axes that shard each dimension, as in `sharding<@mesh, [{"data"},
/// {?}]>`. An open dimension (`?`) is left to the search.
struct UserSharding {
  std::string mesh;
  std::vector<std::vector<std::string>> dims;
  bool isOpen = false;
};
std::optional<UserSharding> parseSharding(llvm::StringRef text);

/// Adds the shardings of the arguments of `main` to the arguments of the
/// function in `made`.
llvm::Error keepShardings(mlir::ModuleOp module, mlir::func::FuncOp main,
                          const Signature &signature, llvm::StringRef file,
                          mlir::ModuleOp made);

} // namespace dpc::frontend::hlo
