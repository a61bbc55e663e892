//===- DTypes.h - Element types of plans ------------------------*- C++ -*-===//
#pragma once

#include "runtime/base/DType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace dpc::codegen {

/// The element type of plan buffers for `type`, or nullopt if plans have none.
std::optional<rt::DType> dtypeOf(mlir::Type type);

} // namespace dpc::codegen
