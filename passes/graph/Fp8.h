//===- Fp8.h - Matmuls in fp8 -----------------------------------*- C++ -*-===//
//
// Linear layers in fp8 follow the hybrid recipe: activations and weights are
// e4m3, which has more digits, and gradients are e5m2, which has more range.
// dpc-mixed-precision marks the matmuls of parameters, differentiation marks
// their gradients, and dpc-partition keeps the mark if fp8 supports the sizes
// on a rank.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace dpc {

/// The sizes of a GEMM [m, k] [k, n].
struct Fp8Sizes {
  int64_t m, n, k;
};

/// Returns the GEMM sizes of a matmul that is marked for fp8. Returns nullopt
/// unless it is a single bf16 GEMM whose sizes fp8 supports.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op);
/// Like fp8SizesOf(op), with other operand and result types, such as local
/// types.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op, mlir::RankedTensorType a,
                                   mlir::RankedTensorType b,
                                   mlir::RankedTensorType result);

/// Marks a matmul for fp8. A flag is true if the operand is a gradient.
void markFp8(MatmulOp op, bool gradientInA, bool gradientInB);

/// Marks the matmuls of linear layers in `forward`, which must already be bf16.
void markFp8Matmuls(mlir::func::FuncOp forward);

/// Sets the workspace bytes of a marked matmul of the local altitude, or
/// removes the mark if fp8 does not support the local sizes.
void settleFp8(MatmulOp op);

} // namespace dpc
