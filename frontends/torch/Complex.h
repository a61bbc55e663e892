//===- Complex.h - Complex tensors as pairs of real ones --------*- C++ -*-===//
//
// A complex value is a Val with two parts, which have its shape: the real and
// the imaginary tensor. Rotary embeddings turn pairs of numbers by complex
// products; other complex arithmetic is refused.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

/// Returns a complex value; null if a part is null.
Val pairOf(Val re, Val im);
bool isComplex(const Val &x);
Val real(const Val &x);
Val imaginary(const Val &x);

/// Whether an operand of the node is complex.
bool readsComplex(const Node &node, const Values &values);

/// Converts a node that reads complex operands: operators that move or scale
/// elements apply to both parts.
void convertComplex(Call &call, const Operator &op, const Values &values);

} // namespace dpc::frontend::pt2
