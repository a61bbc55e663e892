//===- EnumNames.h - spellings of the plan's enums --------------*- C++ -*-===//
//
// There is one list per enum, in the order of its values. Printing, parsing and
// the lists of accepted values in messages all use it.
//
//===----------------------------------------------------------------------===//
#ifndef DPC_RUNTIME_PLAN_ENUMNAMES_H
#define DPC_RUNTIME_PLAN_ENUMNAMES_H

#include "runtime/plan/Plan.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace dpc::rt {

template <typename E> struct EnumNames;

template <> struct EnumNames<BufferKind> {
  static constexpr std::array<std::string_view, 9> names = {
      "parameter",     "gradient", "optimizer", "activation", "workspace",
      "communication", "input",    "scalar",    "output"};
};
template <> struct EnumNames<Space> {
  static constexpr std::array<std::string_view, 3> names = {"device", "host",
                                                            "disk"};
};
template <> struct EnumNames<TensorRole> {
  static constexpr std::array<std::string_view, 3> names = {"parameter",
                                                            "buffer", "state"};
};
template <> struct EnumNames<InitKind> {
  static constexpr std::array<std::string_view, 4> names = {"zeros", "source",
                                                            "random", "value"};
};
template <> struct EnumNames<LrKind> {
  static constexpr std::array<std::string_view, 3> names = {"constant",
                                                            "cosine", "linear"};
};
template <> struct EnumNames<ScalarKind> {
  static constexpr std::array<std::string_view, 4> names = {"const", "offset",
                                                            "valid", "coord"};
};
template <> struct EnumNames<ConvKind> {
  static constexpr std::array<std::string_view, 3> names = {
      "forward", "grad_input", "grad_filter"};
};
template <> struct EnumNames<Epilogue> {
  static constexpr std::array<std::string_view, 12> names = {
      "none",      "bias",           "relu",      "relu_bias",
      "gelu",      "gelu_bias",      "gelu_aux",  "gelu_aux_bias",
      "gelu_grad", "gelu_grad_bias", "sums_of_a", "sums_of_b"};
};
template <> struct EnumNames<ReduceKind> {
  static constexpr std::array<std::string_view, 4> names = {"sum", "max", "min",
                                                            "prod"};
};
template <> struct EnumNames<PhaseKind> {
  static constexpr std::array<std::string_view, 5> names = {
      "setup", "forward", "backward", "weight", "update"};
};
template <> struct EnumNames<Queue> {
  static constexpr std::array<std::string_view, 3> names = {"compute", "comm",
                                                            "copy"};
};

template <typename E> std::string_view enumName(E value) {
  return EnumNames<E>::names[static_cast<size_t>(value)];
}

template <typename E> std::optional<E> parseEnum(std::string_view text) {
  for (size_t i = 0; i < EnumNames<E>::names.size(); ++i)
    if (EnumNames<E>::names[i] == text)
      return static_cast<E>(i);
  return std::nullopt;
}

/// "zeros, source or random".
template <typename E> std::string acceptedNames() {
  std::string text;
  constexpr size_t count = EnumNames<E>::names.size();
  for (size_t i = 0; i < count; ++i) {
    if (i > 0)
      text += i + 1 == count ? " or " : ", ";
    text += EnumNames<E>::names[i];
  }
  return text;
}

} // namespace dpc::rt

#endif // DPC_RUNTIME_PLAN_ENUMNAMES_H
