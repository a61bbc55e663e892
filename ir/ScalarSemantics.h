//===- ScalarSemantics.h - What elementwise ops compute ---------*- C++ -*-===//
//
// The one definition of the kinds of unary, binary, compare and reduce on
// single elements. Folding, constants of imported models and the interpreter of
// the tests use it; codegen emits the same functions as MLIR.
//
// Floats are evaluated in double; the caller rounds to the element type.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_IR_SCALARSEMANTICS_H
#define DPC_IR_SCALARSEMANTICS_H

#include "ir/Enums.h"

#include "llvm/ADT/APInt.h"

namespace dpc {

double evaluate(UnaryKind kind, double x);
double evaluate(BinaryKind kind, double a, double b);

/// Integers of one width; arithmetic wraps. Nullopt for unary kinds that are
/// functions of floats.
std::optional<llvm::APInt> evaluate(UnaryKind kind, const llvm::APInt &x,
                                    bool isUnsigned);
/// Nullopt for pow, division by zero and overflowing division.
std::optional<llvm::APInt> evaluate(BinaryKind kind, const llvm::APInt &a,
                                    const llvm::APInt &b, bool isUnsigned);

/// Compares doubles or int64_t.
template <typename T> bool evaluate(CompareKind kind, T a, T b) {
  switch (kind) {
  case CompareKind::eq:
    return a == b;
  case CompareKind::ne:
    return a != b;
  case CompareKind::lt:
    return a < b;
  case CompareKind::le:
    return a <= b;
  case CompareKind::gt:
    return a > b;
  case CompareKind::ge:
    return a >= b;
  }
  llvm_unreachable("unknown compare kind");
}

/// The binary kind that a reduction applies to one element after the other.
BinaryKind combinerOf(ReduceKind kind);

/// What a reduction starts from: an element that changes no result.
double neutralOf(ReduceKind kind);

} // namespace dpc

#endif // DPC_IR_SCALARSEMANTICS_H
