//===- DTypes.h - Element types of plans ------------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_DTYPES_H
#define DPC_CODEGEN_KERNEL_DTYPES_H

#include "runtime/base/DType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace dpc::codegen {

/// Element type of buffers for `type`; nullopt when it cannot be executed.
std::optional<rt::DType> dtypeOf(mlir::Type type);

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_DTYPES_H
