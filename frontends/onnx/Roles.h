//===- Roles.h - Roles of initializers --------------------------*- C++ -*-===//
//
// An ONNX file does not say which initializers are parameters. All float
// initializers are trained except
//   * batch-norm statistics;
//   * tables that only feed Cos and Sin (rotary and timestep frequencies);
//   * masks: tensors that only feed Add and Where, and whose elements are all 0
//     or large negative numbers;
//   * scalars (rank 0), because exporters store literals this way, unless the
//     name is the path of a weight, such as "blocks.0.gate";
//   * initializers that only feed operators without a gradient;
//   * initializers from which only shapes, axes and scales of Resize are
//     computed: these are constants;
//   * initializers that the option `--frozen` names.
//
// Initializers that the option `--trainable` names are always trained.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/emit/Options.h"
#include "frontends/onnx/Flatten.h"

namespace dpc::frontend {

enum class WeightRole {
  Unused,    ///< no node reads it
  Constant,  ///< the importer reads its value
  Parameter, ///< trained
  Buffer,    ///< read but not trained
};

struct Weight {
  const ::onnx::TensorProto *tensor = nullptr;
  mlir::RankedTensorType type;
  WeightRole role = WeightRole::Unused;
  bool hasData = false;             ///< false: abstract
  std::optional<DataLocation> data; ///< set for parameters and buffers
  /// A buffer without a weight's name, such as an exporter's table "val_3".
  bool isUnsaved = false;
  bool isFrozen = false; ///< --frozen alone keeps it from being trained
};

/// Determines type, role and data of every initializer that is read. Fails if
/// an element type is unsupported, data is unusable, or a pattern of `options`
/// matches no initializer.
llvm::Expected<std::vector<Weight>>
classifyWeights(const ModelFile &file, llvm::ArrayRef<FlatNode> nodes,
                const ImportOptions &options, mlir::MLIRContext *context);

} // namespace dpc::frontend
