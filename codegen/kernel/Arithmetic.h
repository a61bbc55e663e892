//===- Arithmetic.h - Emits integer arithmetic and selections ---*- C++ -*-===//
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dpc::codegen {

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using mlir::ImplicitLocOpBuilder;
using mlir::OpBuilder;
using mlir::Operation;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using Values = SmallVector<Value>;

using IntPredicate = mlir::arith::CmpIPredicate;
using FloatPredicate = mlir::arith::CmpFPredicate;

inline Value constantInt(ImplicitLocOpBuilder &b, Type type, int64_t value) {
  return mlir::arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}
inline Value constantI32(ImplicitLocOpBuilder &b, int64_t value) {
  return constantInt(b, b.getI32Type(), value);
}
inline Value constantI64(ImplicitLocOpBuilder &b, int64_t value) {
  return constantInt(b, b.getI64Type(), value);
}

/// Emits a binary operation on integers. An int64_t as second operand becomes a
/// constant of the type of `x`.
template <typename Op> struct IntegerOp {
  Value operator()(ImplicitLocOpBuilder &b, Value x, Value y) const {
    return Op::create(b, x, y);
  }
  Value operator()(ImplicitLocOpBuilder &b, Value x, int64_t y) const {
    return Op::create(b, x, constantInt(b, x.getType(), y));
  }
};
inline constexpr IntegerOp<mlir::arith::AddIOp> addI{};
inline constexpr IntegerOp<mlir::arith::SubIOp> subI{};
inline constexpr IntegerOp<mlir::arith::MulIOp> mulI{};
inline constexpr IntegerOp<mlir::arith::DivSIOp> divS{};
inline constexpr IntegerOp<mlir::arith::DivUIOp> divU{};
inline constexpr IntegerOp<mlir::arith::RemSIOp> remS{};
inline constexpr IntegerOp<mlir::arith::RemUIOp> remU{};
inline constexpr IntegerOp<mlir::arith::MinSIOp> minS{};
inline constexpr IntegerOp<mlir::arith::MaxSIOp> maxS{};
inline constexpr IntegerOp<mlir::arith::AndIOp> andI{};
inline constexpr IntegerOp<mlir::arith::OrIOp> orI{};
inline constexpr IntegerOp<mlir::arith::ShLIOp> shiftLeft{};
inline constexpr IntegerOp<mlir::arith::ShRUIOp> shiftRightU{};
inline constexpr IntegerOp<mlir::arith::ShRSIOp> shiftRightS{};

inline Value cmp(ImplicitLocOpBuilder &b, IntPredicate predicate, Value x,
                 Value y) {
  return mlir::arith::CmpIOp::create(b, predicate, x, y);
}
inline Value cmp(ImplicitLocOpBuilder &b, IntPredicate predicate, Value x,
                 int64_t y) {
  return cmp(b, predicate, x, constantInt(b, x.getType(), y));
}
inline Value cmp(ImplicitLocOpBuilder &b, FloatPredicate predicate, Value x,
                 Value y) {
  return mlir::arith::CmpFOp::create(b, predicate, x, y);
}
inline Value select(ImplicitLocOpBuilder &b, Value condition, Value yes,
                    Value no) {
  return mlir::arith::SelectOp::create(b, condition, yes, no);
}
inline Value bitcast(ImplicitLocOpBuilder &b, Type type, Value x) {
  return mlir::arith::BitcastOp::create(b, type, x);
}
inline Value extendU(ImplicitLocOpBuilder &b, Type type, Value x) {
  return mlir::arith::ExtUIOp::create(b, type, x);
}
inline Value truncate(ImplicitLocOpBuilder &b, Type type, Value x) {
  return mlir::arith::TruncIOp::create(b, type, x);
}

} // namespace dpc::codegen
