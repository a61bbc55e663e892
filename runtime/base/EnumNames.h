//===- EnumNames.h - Enums whose values have texts --------------*- C++ -*-===//
//
// An enum gets texts by a specialization of `kNamesOf`, in the order of its
// enumerators, which count from 0 without gaps:
//
//   enum class Kind { Ring, Tree };
//   template <>
//   inline constexpr std::array<std::string_view, 2> kNamesOf<Kind> = {...};
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_BASE_ENUMNAMES_H
#define DPC_RUNTIME_BASE_ENUMNAMES_H

#include <array>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dpc {

/// The texts of an enum's values, in their order.
template <typename E> inline constexpr std::array<std::string_view, 0> kNamesOf;

template <typename E>
concept NamedEnum = std::is_enum_v<E> && !kNamesOf<E>.empty();

/// The text of a value.
template <NamedEnum E> constexpr std::string_view stringify(E value) {
  return kNamesOf<E>[static_cast<size_t>(value)];
}

/// The value of a text, if there is one.
template <NamedEnum E>
constexpr std::optional<E> symbolize(std::string_view text) {
  for (size_t i = 0; i < kNamesOf<E>.size(); ++i)
    if (kNamesOf<E>[i] == text)
      return static_cast<E>(i);
  return std::nullopt;
}

} // namespace dpc

#endif // DPC_RUNTIME_BASE_ENUMNAMES_H
