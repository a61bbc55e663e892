//===- ScalarSemantics.h - Elementwise functions on numbers -----*- C++ -*-===//
//
// Defines what unary, binary, compare and reduce ops compute from single
// elements, for folding, import and the interpreter of the tests. Code
// generation emits the same functions as MLIR.
//
// Floats are evaluated in double, and the caller rounds to the element type.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "ir/Attributes.h"

#include "llvm/ADT/APInt.h"

namespace dpc {

double evaluate(UnaryKind kind, double x);
double evaluate(BinaryKind kind, double a, double b);

/// Integer results wrap at the width of the operands. Returns nullopt for kinds
/// that are only defined on floats.
std::optional<llvm::APInt> evaluate(UnaryKind kind, const llvm::APInt &x,
                                    bool isUnsigned);
/// Returns nullopt for pow, for a division by zero and for a division that
/// overflows.
std::optional<llvm::APInt> evaluate(BinaryKind kind, const llvm::APInt &a,
                                    const llvm::APInt &b, bool isUnsigned);

/// T is double or int64_t.
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

/// Returns the binary kind with which a reduction combines two elements.
BinaryKind combinerOf(ReduceKind kind);

double neutralOf(ReduceKind kind);

} // namespace dpc
