//===- Fp8.h - Which products multiply codes of fp8 -------------*- C++ -*-===//
//
// Linear layers in fp8 by the hybrid recipe: values and weights go forward as
// e4m3, which has more digits, gradients come back as e5m2, which has more
// range. dpc-mixed-precision marks the products of parameters, differentiation
// their gradients, and dpc-partition keeps the marks where a rank's sizes fit.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_PASSES_GRAPH_FP8_H
#define DPC_PASSES_GRAPH_FP8_H

#include "ir/Dialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace dpc {

struct Fp8Sizes {
  int64_t m, n, k;
};

/// Of a marked matmul of bf16 that is one product of sizes that fp8 takes.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op);
/// The same, were its operands and result of these types: those on a rank.
std::optional<Fp8Sizes> fp8SizesOf(MatmulOp op, mlir::RankedTensorType a,
                                   mlir::RankedTensorType b,
                                   mlir::RankedTensorType result);

/// Marks a product: its operands are values, or one is a gradient.
void markFp8(MatmulOp op, bool gradientInA, bool gradientInB);

/// Marks the products of linear layers in a @forward with its types.
void markFp8Products(mlir::func::FuncOp forward);

/// On an op of a rank's program: notes the bytes that it needs beside its
/// operands, or takes the mark away.
void settleFp8(MatmulOp op);

} // namespace dpc

#endif // DPC_PASSES_GRAPH_FP8_H
