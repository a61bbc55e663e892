//===- Roles.h - Which initializers are trained ----------------*- C++ -*-===//
//
// An ONNX file does not say what is a parameter. Every float initializer is
// trained except
//   * batch-norm statistics;
//   * tables that only feed Cos and Sin (rotary and timestep frequencies);
//   * masks: every element is 0 or a large negative number, and the tensor
//     only feeds Add and Where;
//   * scalars (rank 0) whose name is not the path of a module's member, as
//     "blocks.0.gate" is: exporters store literal constants this way;
//   * what only feeds operators without a gradient;
//   * what the user names (`--frozen`); `--trainable` wins over all of these.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_FRONTENDS_ONNX_ROLES_H
#define DPC_FRONTENDS_ONNX_ROLES_H

#include "frontends/emit/Options.h"
#include "frontends/onnx/Flatten.h"

namespace dpc::frontend {

enum class WeightRole {
  Unused,    ///< nothing reads it: it disappears
  Constant,  ///< its value is needed while importing
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

/// Finds type, data and role of every initializer that is read. Fails on
/// unsupported element types, unusable data and patterns of `options` that
/// match no initializer.
llvm::Expected<std::vector<Weight>>
classifyWeights(const ModelFile &file, llvm::ArrayRef<FlatNode> nodes,
                const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend

#endif // DPC_FRONTENDS_ONNX_ROLES_H
