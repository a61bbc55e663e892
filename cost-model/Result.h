//===- Result.h - A value or one line that says why not ---------*- C++ -*-===//
//
// The cost model has no LLVM: this is its `Expected`. User errors travel as one
// line of text; broken invariants are asserts.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_COST_MODEL_RESULT_H
#define DPC_COST_MODEL_RESULT_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace dpc::cost {

/// One line: what is wrong, where, the value found, what would be accepted.
struct Error {
  std::string message;
};

/// A `T`, or the `Error` that prevented it. Must be tested before use.
template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::move(value)) {}
  Result(Error error) : state(std::move(error)) {}

  /// True when a value is held.
  explicit operator bool() const { return std::holds_alternative<T>(state); }

  T &operator*() {
    assert(*this && "value of a failed Result");
    return *std::get_if<T>(&state);
  }
  const T &operator*() const {
    assert(*this && "value of a failed Result");
    return *std::get_if<T>(&state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

  /// The reason of failure; only for a failed result.
  const std::string &error() const {
    assert(!*this && "error of a successful Result");
    return std::get_if<Error>(&state)->message;
  }

private:
  std::variant<T, Error> state;
};

/// Success, or one line that says why not.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Error error) : failure(std::move(error.message)) {}

  /// True on success.
  explicit operator bool() const { return !failure.has_value(); }

  /// The reason of failure; only for a failed status.
  const std::string &error() const {
    assert(failure && "error of a successful Status");
    return *failure;
  }

private:
  std::optional<std::string> failure;
};

} // namespace dpc::cost

#endif // DPC_COST_MODEL_RESULT_H
