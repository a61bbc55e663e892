//===- RankZero.h - what rank 0 does for all processes ----------*- C++ -*-===//
#pragma once

#include "runtime/exec/Session.h"

#include <cstring>
#include <functional>
#include <type_traits>

namespace dpc {

/// Runs work() in the process of rank 0. All processes get its status, so that
/// none waits for a rank 0 that has failed.
inline Status onRankZero(rt::Session &session,
                         const std::function<Status()> &work) {
  return session
      .fromRankZero([&]() -> Expected<std::string> {
        DPC_TRY(work());
        return std::string();
      })
      .status();
}

/// Returns the list that rank 0 has. All processes make the call, with lists of
/// any length.
template <typename T>
Expected<std::vector<T>> listOfRankZero(rt::Session &session,
                                        const std::vector<T> &own) {
  static_assert(std::is_trivially_copyable_v<T>);
  DPC_ASSIGN(std::string bytes, session.fromRankZero([&] {
    return Expected<std::string>(std::string(
        reinterpret_cast<const char *>(own.data()), own.size() * sizeof(T)));
  }));
  std::vector<T> list(bytes.size() / sizeof(T));
  std::memcpy(list.data(), bytes.data(), list.size() * sizeof(T));
  return list;
}

} // namespace dpc
