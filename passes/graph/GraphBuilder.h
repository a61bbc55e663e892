//===- GraphBuilder.h - Short names for building dpc ops --------*- C++ -*-===//
//
// Result types follow from the operands, so passes read like formulas:
//
//   GraphBuilder g(builder, loc);
//   Value y = g.mul(g.tanh(x), g.constantLike(x, 0.5));
//
// Works only at the graph altitude, where types have no encodings.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/TensorUtils.h"
#include "mlir/IR/Builders.h"

namespace dpc {

/// Returns the type in which elements are summed: f32 for bf16 and f16, else
/// `elementType`.
mlir::Type sumType(mlir::Type elementType);

/// Copies `dpc.phase` and `dpc.group` of `op` to all ops between `before`
/// (null: the start of the block) and `op`.
void markLike(mlir::Operation *op, mlir::Operation *before);

class GraphBuilder {
public:
  GraphBuilder(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  /// Builds a constant of `type`. All elements are `value`, rounded to the
  /// element type.
  mlir::Value constant(mlir::RankedTensorType type, double value);
  mlir::Value constantLike(mlir::Value like, double value);

  mlir::Value unary(UnaryKind kind, mlir::Value x);
  mlir::Value binary(BinaryKind kind, mlir::Value a, mlir::Value b);
  mlir::Value compare(CompareKind kind, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value onTrue,
                     mlir::Value onFalse);
  mlir::Value neg(mlir::Value x) { return unary(UnaryKind::neg, x); }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return binary(BinaryKind::add, a, b);
  }
  mlir::Value sub(mlir::Value a, mlir::Value b) {
    return binary(BinaryKind::sub, a, b);
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return binary(BinaryKind::mul, a, b);
  }
  mlir::Value div(mlir::Value a, mlir::Value b) {
    return binary(BinaryKind::div, a, b);
  }
  /// x * factor.
  mlir::Value scale(mlir::Value x, double factor) {
    return mul(x, constantLike(x, factor));
  }

  /// Converts `x`; returns `x` if it already has this element type.
  mlir::Value convert(mlir::Value x, mlir::Type elementType);
  /// Builds an i64 tensor. Each element is its index along `dim`.
  mlir::Value iota(llvm::ArrayRef<int64_t> shape, int64_t dim);
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                        llvm::ArrayRef<int64_t> dims);
  /// Reshapes `x`; returns `x` if it already has this shape.
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                    llvm::ArrayRef<int64_t> offsets,
                    llvm::ArrayRef<int64_t> strides);
  mlir::Value pad(mlir::Value x, llvm::ArrayRef<int64_t> shape,
                  llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> strides);
  /// Reduces `x` along `dims` (ascending) and removes these dimensions. bf16
  /// and f16 are summed in f32.
  mlir::Value reduce(ReduceKind kind, mlir::Value x,
                     llvm::ArrayRef<int64_t> dims);
  mlir::Value reduceAll(ReduceKind kind, mlir::Value x);
  mlir::Value matmul(mlir::Value a, mlir::Value b, bool ta = false,
                     bool tb = false);

  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace dpc
