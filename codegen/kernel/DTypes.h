//===- DTypes.h - Element types of plans ------------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_DTYPES_H
#define DPC_CODEGEN_KERNEL_DTYPES_H

#include "runtime/base/DType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace dpc::codegen {

/// The element type of plan buffers for `type`, or nullopt if plans have none.
std::optional<rt::DType> dtypeOf(mlir::Type type);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_DTYPES_H
