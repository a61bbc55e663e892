//===- Status.h - success or an error with one line of text -----*- C++ -*-===//
//
// The compiler's IR-free parts and the runtime report user errors as values: a
// code for programs and one line of text for people (what, where, the value,
// what would be accepted). A broken invariant is an assert. Code that holds
// MLIR reports through diagnostics and `LogicalResult` instead.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_STATUS_H
#define DPC_RUNTIME_BASE_STATUS_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace dpc {

/// What kind of failure a Status reports.
enum class StatusCode {
  Ok,
  Invalid,     ///< The user's data or options are wrong.
  NotFound,    ///< A file, tensor or symbol does not exist.
  Io,          ///< The operating system refused a read or write.
  Unsupported, ///< Valid, but this build or machine cannot do it.
  Timeout,     ///< A rank did not arrive in time.
  Cancelled    ///< This rank stopped because another rank failed first.
};

/// Shorthand for `Status::invalid(message)`: becomes a Status or an Expected.
struct Error {
  std::string message;
};

/// Success, or a code and one line of text.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : codeValue(code), text(std::move(message)) {
    assert(code != StatusCode::Ok && "an error needs an error code");
  }
  Status(Error error) : Status(StatusCode::Invalid, std::move(error.message)) {}

  static Status success() { return {}; }
  static Status invalid(std::string m) {
    return {StatusCode::Invalid, std::move(m)};
  }
  static Status notFound(std::string m) {
    return {StatusCode::NotFound, std::move(m)};
  }
  static Status io(std::string m) { return {StatusCode::Io, std::move(m)}; }
  static Status unsupported(std::string m) {
    return {StatusCode::Unsupported, std::move(m)};
  }

  bool ok() const { return codeValue == StatusCode::Ok; }
  /// True on success.
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return codeValue; }
  /// Empty on success.
  const std::string &message() const { return text; }

private:
  StatusCode codeValue = StatusCode::Ok;
  std::string text;
};

/// A `T`, or the Status that says why there is none. Must be tested before use.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::move(value)) {}
  Expected(Status status) : state(std::move(status)) {
    assert(!std::get<Status>(state).ok() && "success needs a value");
  }
  Expected(Error error) : state(Status(std::move(error))) {}

  bool ok() const { return std::holds_alternative<T>(state); }
  /// True when a value is held.
  explicit operator bool() const { return ok(); }
  /// The error; success() when there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state); }
  /// The error's line; only where there is no value.
  const std::string &message() const {
    assert(!ok() && "message of a success");
    return std::get_if<Status>(&state)->message();
  }
  T &operator*() {
    assert(ok() && "value of a failure");
    return *std::get_if<T>(&state);
  }
  const T &operator*() const {
    assert(ok() && "value of a failure");
    return *std::get_if<T>(&state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::variant<T, Status> state;
};

/// Leaves the enclosing function with the error of EXPR when it has one.
#define DPC_TRY(EXPR)                                                          \
  do {                                                                         \
    if (::dpc::Status dpcStatus = (EXPR); !dpcStatus.ok())                     \
      return dpcStatus;                                                        \
  } while (false)

} // namespace dpc

#endif // DPC_RUNTIME_BASE_STATUS_H
