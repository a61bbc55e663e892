//===- PlanEpilogue.h - GEMM epilogues of a plan ----------------*- C++ -*-===//
#pragma once

#include "runtime/base/EnumNames.h"

#include <string_view>

namespace dpc::rt {

/// How a GEMM turns its f32 sums s = op(A) op(B) into C. `bias` is a vector,
/// and `aux` is a matrix of C's size. Epilogues compute in f32 and round C
/// once. If cuBLASLt lacks an epilogue, a separate kernel computes it from sums
/// that are rounded to C's type. gelu(x) is the tanh approximation x (1 +
/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
enum class Epilogue {
  None,        ///< C = s
  Bias,        ///< C = s + bias[j] (n elements)
  Relu,        ///< C = max(s, 0)
  ReluBias,    ///< C = max(s + bias[j], 0)
  Gelu,        ///< C = gelu(s)
  GeluBias,    ///< C = gelu(s + bias[j])
  GeluAux,     ///< aux = s; C = gelu(s)
  GeluAuxBias, ///< aux = s + bias[j]; C = gelu(s + bias[j])
  GeluGrad,    ///< C = s gelu'(aux)
  /// C = s gelu'(aux); bias[j] = sum of C[i][j] over i, before C is rounded.
  GeluGradBias,
  /// C = s; bias[i] = sum of op(A)[i][l] over l (m elements). Requires transA.
  SumsOfA,
  /// C = s; bias[j] = sum of op(B)[l][j] over l (n elements). Excludes transB.
  SumsOfB,
};

constexpr bool readsBias(Epilogue e) {
  return e == Epilogue::Bias || e == Epilogue::ReluBias ||
         e == Epilogue::GeluBias || e == Epilogue::GeluAuxBias;
}
constexpr bool writesBias(Epilogue e) {
  return e == Epilogue::GeluGradBias || e == Epilogue::SumsOfA ||
         e == Epilogue::SumsOfB;
}
constexpr bool readsAux(Epilogue e) {
  return e == Epilogue::GeluGrad || e == Epilogue::GeluGradBias;
}
constexpr bool writesAux(Epilogue e) {
  return e == Epilogue::GeluAux || e == Epilogue::GeluAuxBias;
}

} // namespace dpc::rt

namespace dpc {
template <>
inline constexpr std::array<std::string_view, 12> kNamesOf<rt::Epilogue> = {
    "none",      "bias",           "relu",      "relu_bias",
    "gelu",      "gelu_bias",      "gelu_aux",  "gelu_aux_bias",
    "gelu_grad", "gelu_grad_bias", "sums_of_a", "sums_of_b"};
} // namespace dpc
