//===- Status.h - error values of the runtime -------------------*- C++ -*-===//
//
// The runtime reports user errors as values: a code for programs and one line
// of text for people (what, where, the value, what would be accepted).
// Exceptions are not used; a broken invariant is an assert.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_STATUS_H
#define DPC_RUNTIME_BASE_STATUS_H

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace dpc::rt {

/// What kind of failure a Status reports.
enum class Code {
  Ok,
  Invalid,     ///< the user's data or options are wrong
  NotFound,    ///< a file, tensor or symbol does not exist
  Io,          ///< the operating system refused a read or write
  Unsupported, ///< valid, but this build or machine cannot do it
  Timeout,     ///< a rank did not arrive in time
  Cancelled    ///< stopped because another rank failed first
};

/// Success, or a code and one line of text.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message)
      : codeValue(code), text(std::move(message)) {
    assert(code != Code::Ok && "an error needs an error code");
  }

  static Status success() { return {}; }
  static Status invalid(std::string m) { return {Code::Invalid, std::move(m)}; }
  static Status notFound(std::string m) {
    return {Code::NotFound, std::move(m)};
  }
  static Status io(std::string m) { return {Code::Io, std::move(m)}; }
  static Status unsupported(std::string m) {
    return {Code::Unsupported, std::move(m)};
  }

  bool ok() const { return codeValue == Code::Ok; }
  Code code() const { return codeValue; }
  /// Empty on success.
  const std::string &message() const { return text; }

private:
  Code codeValue = Code::Ok;
  std::string text;
};

/// A value, or the Status that says why there is none.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::move(value)) {}
  Expected(Status status) : state(std::move(status)) {
    assert(!std::get<Status>(state).ok() && "success needs a value");
  }

  bool ok() const { return std::holds_alternative<T>(state); }
  explicit operator bool() const { return ok(); }
  /// The error; success() when there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state); }
  T &operator*() {
    assert(ok());
    return std::get<T>(state);
  }
  const T &operator*() const {
    assert(ok());
    return std::get<T>(state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::variant<T, Status> state;
};

/// Leaves the enclosing function with the error of EXPR when it has one.
#define DPC_TRY(EXPR)                                                          \
  do {                                                                         \
    if (::dpc::rt::Status dpcStatus = (EXPR); !dpcStatus.ok())                 \
      return dpcStatus;                                                        \
  } while (false)

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_STATUS_H
