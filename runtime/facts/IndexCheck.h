//===- IndexCheck.h - values of index inputs --------------------*- C++ -*-===//
//
// An input with Port::limit holds ids or labels. It accepts Port::first to
// limit - 1 and Port::ignored. Every source of inputs checks this before a step
// uses a value.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "runtime/base/Status.h"
#include "runtime/plan/Plan.h"

#include <optional>
#include <string>

namespace dpc::rt {

/// Whether the input holds ids or labels.
bool isIndex(const Port &port);

/// Returns true for every value if the input is no index.
bool acceptsIndex(const Port &port, int64_t value);

struct InvalidIndex {
  int64_t position; ///< of the element
  std::string value;
};

/// Returns the first of `count` elements of type `dtype` that the input does
/// not accept. `data` need not be aligned.
std::optional<InvalidIndex> findInvalidIndex(const Port &port, DType dtype,
                                             const void *data, int64_t count);

/// Returns "0 to 9", or "0 to 9, or -100 (ignored)".
std::string expectedIndexes(const Port &port);

/// Returns what a negative `value` becomes in an unsigned type of up to 32
/// bits.
std::optional<int64_t> wrapped(int64_t value, DType dtype);

/// Errors are "PLACE: element 4 of input 'ids' is -1, expected 0 to 9".
Status checkIndexes(const Port &port, DType dtype, const void *data,
                    int64_t count, const std::string &place);

} // namespace dpc::rt
