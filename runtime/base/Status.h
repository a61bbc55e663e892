//===- Status.h - success or an error with one line of text -----*- C++ -*-===//
//
// A Status is an error code for programs and one line of text for people: what
// is wrong, where, with which value, and what would be accepted. The runtime
// and the parts of the compiler that do not use MLIR report user errors this
// way; code that uses MLIR emits diagnostics and returns `LogicalResult`.
// Asserts check invariants.
//
//===----------------------------------------------------------------------===//
#pragma once

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace dpc {

enum class StatusCode {
  Ok,
  Invalid,     ///< The user's data or options are wrong.
  NotFound,    ///< A file, tensor or symbol does not exist.
  Io,          ///< The operating system refused a read or write.
  Unsupported, ///< The request is valid, but this build or machine cannot
               ///< fulfill it.
  Timeout,     ///< Another rank did not arrive in time.
  Cancelled    ///< This rank stopped because another rank failed first.
};

/// Returns the texts, characters and numbers in `parts` as one string.
template <typename... Parts> std::string concat(const Parts &...parts) {
  std::string text;
  auto append = [&](const auto &part) {
    using Part = std::decay_t<decltype(part)>;
    if constexpr (std::is_arithmetic_v<Part> && !std::is_same_v<Part, char>)
      text += std::to_string(part);
    else
      text += part;
  };
  (append(parts), ...);
  return text;
}

/// An error with code Invalid, which converts to Status and to Expected.
struct Error {
  std::string message;
};

class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : codeValue(code), text(std::move(message)) {
    assert(code != StatusCode::Ok && "an error needs an error code");
  }
  Status(Error error) : Status(StatusCode::Invalid, std::move(error.message)) {}

  static Status success() { return {}; }
  /// Returns an error whose message is concat(parts...).
  template <typename... Parts> static Status invalid(const Parts &...parts) {
    return {StatusCode::Invalid, concat(parts...)};
  }
  template <typename... Parts> static Status notFound(const Parts &...parts) {
    return {StatusCode::NotFound, concat(parts...)};
  }
  template <typename... Parts> static Status io(const Parts &...parts) {
    return {StatusCode::Io, concat(parts...)};
  }
  template <typename... Parts>
  static Status unsupported(const Parts &...parts) {
    return {StatusCode::Unsupported, concat(parts...)};
  }
  template <typename... Parts> static Status timeout(const Parts &...parts) {
    return {StatusCode::Timeout, concat(parts...)};
  }
  template <typename... Parts> static Status cancelled(const Parts &...parts) {
    return {StatusCode::Cancelled, concat(parts...)};
  }

  bool ok() const { return codeValue == StatusCode::Ok; }
  /// True on success.
  explicit operator bool() const { return ok(); }
  StatusCode code() const { return codeValue; }
  /// Empty on success.
  const std::string &message() const { return text; }
  /// Returns an error with "PLACE: " before its message. Success stays success.
  Status in(const std::string &place) const {
    return ok() ? *this : Status(codeValue, place + ": " + text);
  }

private:
  StatusCode codeValue = StatusCode::Ok;
  std::string text;
};

/// A `T`, or the error that explains why there is none. If there is an error,
/// reading the value prints the error and aborts the process.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::move(value)) {}
  Expected(Status status) : state(std::move(status)) {
    assert(!std::get<Status>(state).ok() && "success needs a value");
  }
  Expected(Error error) : state(Status(std::move(error))) {}

  bool ok() const { return std::holds_alternative<T>(state); }
  Expected in(const std::string &place) && {
    return ok() ? std::move(*this) : Expected(status().in(place));
  }
  explicit operator bool() const { return ok(); }
  /// Returns the error, or success if there is a value.
  Status status() const { return ok() ? Status() : std::get<Status>(state); }
  /// Returns the error's text. There must be an error.
  const std::string &message() const {
    assert(!ok() && "message of a success");
    return std::get_if<Status>(&state)->message();
  }
  T &operator*() { return const_cast<T &>(std::as_const(*this).operator*()); }
  const T &operator*() const {
    if (!ok()) {
      std::fprintf(stderr, "dpc: an unchecked error: %s\n", message().c_str());
      std::abort();
    }
    return *std::get_if<T>(&state);
  }
  T *operator->() { return &**this; }
  const T *operator->() const { return &**this; }

private:
  std::variant<T, Status> state;
};

/// If the Status EXPR is an error, returns it from the enclosing function.
#define DPC_TRY(EXPR)                                                          \
  do {                                                                         \
    if (::dpc::Status dpcStatus = (EXPR); !dpcStatus.ok())                     \
      return dpcStatus;                                                        \
  } while (false)

/// Initializes DECLARATION with the value of an Expected. If it is an error,
/// returns the error from the enclosing function.
#define DPC_ASSIGN(DECLARATION, ...)                                           \
  DPC_ASSIGN_TO(DECLARATION, DPC_NAME(dpcExpected, __LINE__), __VA_ARGS__)
#define DPC_ASSIGN_TO(DECLARATION, EXPECTED, ...)                              \
  auto EXPECTED = (__VA_ARGS__);                                               \
  if (!EXPECTED)                                                               \
    return EXPECTED.status();                                                  \
  DECLARATION = std::move(*EXPECTED)
#define DPC_NAME(PREFIX, LINE) DPC_NAME_OF(PREFIX, LINE)
#define DPC_NAME_OF(PREFIX, LINE) PREFIX##LINE

} // namespace dpc
