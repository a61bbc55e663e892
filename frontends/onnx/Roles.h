//===- Roles.h - Roles of initializers --------------------------*- C++ -*-===//
//
// An ONNX file does not say which initializers are parameters. Every float
// initializer is trained except
//   * batch-norm statistics;
//   * tables that only feed Cos and Sin (rotary and timestep frequencies);
//   * masks: every element is 0 or a large negative number, and the tensor
//     only feeds Add and Where;
//   * scalars (rank 0) whose name is not the path of a module's member, such as
//     "blocks.0.gate", because exporters store literal constants this way;
//   * initializers that only feed operators without a gradient;
//   * initializers that the user names (`--frozen`).
//
// `--trainable` takes precedence over all of these rules.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_ROLES_H
#define DPC_FRONTENDS_ONNX_ROLES_H

#include "frontends/emit/Options.h"
#include "frontends/onnx/Flatten.h"

namespace dpc::frontend {

enum class WeightRole {
  Unused,    ///< not read, and therefore dropped
  Constant,  ///< its value is needed at import time
  Parameter, ///< trained
  Buffer,    ///< read, not trained
};

/// One initializer of the main graph.
struct Weight {
  const ::onnx::TensorProto *tensor = nullptr;
  mlir::RankedTensorType type;
  WeightRole role = WeightRole::Unused;
  bool hasData = false;             ///< false: abstract
  std::optional<DataLocation> data; ///< set for parameters and buffers
};

/// Determines type, data and role of every initializer that is read. Fails on
/// unsupported element types, unusable data, and patterns of `options` that
/// match no initializer.
llvm::Expected<std::vector<Weight>>
classifyWeights(const ModelFile &file, llvm::ArrayRef<FlatNode> nodes,
                const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_ROLES_H
