//===- StageMarks.h - The pipeline stage an op is marked with ---*- C++ -*-===//
#ifndef DPC_IR_STAGEMARKS_H
#define DPC_IR_STAGEMARKS_H

#include "ir/Dialect.h"

#include <optional>

namespace dpc {

/// The virtual stage that `op` is marked with (`dpc.stage`), nullopt without a
/// mark.
inline std::optional<int64_t> stageOf(mlir::Operation *op) {
  auto stage = op->getAttrOfType<mlir::IntegerAttr>(attr::kStage);
  return stage ? std::optional<int64_t>(stage.getInt()) : std::nullopt;
}

} // namespace dpc

#endif // DPC_IR_STAGEMARKS_H
