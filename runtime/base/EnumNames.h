//===- EnumNames.h - enums whose values have names --------------*- C++ -*-===//
//
// To name the values of an enum, which must be 0, 1, 2 and so on, list the
// names in this order in a specialization of `kNamesOf`:
//
//   enum class Kind { Ring, Tree };
//   template <>
//   inline constexpr std::array<std::string_view, 2> kNamesOf<Kind> = {...};
//
//===----------------------------------------------------------------------===//
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace dpc {

template <typename E> inline constexpr std::array<std::string_view, 0> kNamesOf;

template <typename E>
concept NamedEnum = std::is_enum_v<E> && !kNamesOf<E>.empty();

template <NamedEnum E> constexpr std::string_view stringify(E value) {
  return kNamesOf<E>[static_cast<size_t>(value)];
}

template <NamedEnum E>
constexpr std::optional<E> symbolize(std::string_view text) {
  for (size_t i = 0; i < kNamesOf<E>.size(); ++i)
    if (kNamesOf<E>[i] == text)
      return static_cast<E>(i);
  return std::nullopt;
}

/// Returns all names as text for a message: "zeros, source or random".
template <NamedEnum E> std::string acceptedNames() {
  std::string text;
  constexpr size_t count = kNamesOf<E>.size();
  for (size_t i = 0; i < count; ++i) {
    if (i > 0)
      text += i + 1 == count ? " or " : ", ";
    text += kNamesOf<E>[i];
  }
  return text;
}

namespace rt {
template <NamedEnum E> constexpr std::string_view nameOf(E value) {
  return stringify(value);
}
} // namespace rt

} // namespace dpc
