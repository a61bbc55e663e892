//===- Fp8.h - Matmuls in fp8 -----------------------------------*- C++ -*-===//
//
// Linear layers in fp8 follow the hybrid recipe: activations and weights are
// e4m3, which has more digits, and gradients are e5m2, which has more range.
// dpc-mixed-precision marks the matmuls of parameters, differentiation marks
// their gradients, and dpc-partition keeps the mark if fp8 supports the sizes
// on a rank.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_FP8_H
#define DPC_PASSES_GRAPH_FP8_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace dpc {

/// The sizes of a GEMM [m, k] [k, n].
struct Fp8Sizes {
  int64_t m, n, k;
};

/// The sizes of a marked matmul of bf16 that is one GEMM whose sizes fp8
/// supports; nullopt for other matmuls.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op);
/// The same with other types of operands and result, such as those of a rank.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op, mlir::RankedTensorType a,
                                   mlir::RankedTensorType b,
                                   mlir::RankedTensorType result);

/// Marks a matmul. The arguments tell which operand is a gradient.
void markFp8(MatmulOp op, bool gradientInA, bool gradientInB);

/// Marks the matmuls of linear layers in `forward`, whose types are bf16
/// already.
void markFp8Products(mlir::func::FuncOp forward);

/// In the program of a rank: sets the bytes of the workspace of a marked
/// matmul, or removes its mark if fp8 does not support its sizes.
void settleFp8(MatmulOp op);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_FP8_H
