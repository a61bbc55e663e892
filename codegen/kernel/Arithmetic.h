//===- Arithmetic.h - Emits integer arithmetic and selections ---*- C++ -*-===//
#ifndef DPC_CODEGEN_KERNEL_ARITHMETIC_H
#define DPC_CODEGEN_KERNEL_ARITHMETIC_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace dpc::codegen {

using IntPredicate = mlir::arith::CmpIPredicate;
using FloatPredicate = mlir::arith::CmpFPredicate;

/// Constants of integer types.
inline mlir::Value constantInt(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                               int64_t value) {
  return mlir::arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
}
inline mlir::Value constantI32(mlir::ImplicitLocOpBuilder &b, int64_t value) {
  return constantInt(b, b.getI32Type(), value);
}
inline mlir::Value constantI64(mlir::ImplicitLocOpBuilder &b, int64_t value) {
  return constantInt(b, b.getI64Type(), value);
}

/// Emits a binary operation on integers. A number as second operand becomes a
/// constant of the first operand's type.
template <typename Op> struct IntegerOp {
  mlir::Value operator()(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                         mlir::Value y) const {
    return Op::create(b, x, y);
  }
  mlir::Value operator()(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                         int64_t y) const {
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

inline mlir::Value cmp(mlir::ImplicitLocOpBuilder &b, IntPredicate predicate,
                       mlir::Value x, mlir::Value y) {
  return mlir::arith::CmpIOp::create(b, predicate, x, y);
}
inline mlir::Value cmp(mlir::ImplicitLocOpBuilder &b, IntPredicate predicate,
                       mlir::Value x, int64_t y) {
  return cmp(b, predicate, x, constantInt(b, x.getType(), y));
}
inline mlir::Value cmp(mlir::ImplicitLocOpBuilder &b, FloatPredicate predicate,
                       mlir::Value x, mlir::Value y) {
  return mlir::arith::CmpFOp::create(b, predicate, x, y);
}
inline mlir::Value select(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
                          mlir::Value yes, mlir::Value no) {
  return mlir::arith::SelectOp::create(b, condition, yes, no);
}
inline mlir::Value bitcast(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                           mlir::Value x) {
  return mlir::arith::BitcastOp::create(b, type, x);
}
inline mlir::Value extendU(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                           mlir::Value x) {
  return mlir::arith::ExtUIOp::create(b, type, x);
}
inline mlir::Value truncate(mlir::ImplicitLocOpBuilder &b, mlir::Type type,
                            mlir::Value x) {
  return mlir::arith::TruncIOp::create(b, type, x);
}

} // namespace dpc::codegen

#endif // DPC_CODEGEN_KERNEL_ARITHMETIC_H
