//===- PlanEpilogue.h - GEMM epilogues of a plan ----------------*- C++ -*-===//
#ifndef DPC_RUNTIME_PLAN_PLANEPILOGUE_H
#define DPC_RUNTIME_PLAN_PLANEPILOGUE_H

#include "runtime/base/EnumNames.h"

#include <string_view>

namespace dpc::rt {

/// What a GEMM does to s = op(A) op(B) before it stores C, and what else it
/// computes in the same pass. The epilogue computes in the type of the sums,
/// f32, and C is rounded once. A GPU library without such a routine runs a
/// kernel after the GEMM, which reads values rounded to C's type. `bias` is a
/// vector, `aux` a matrix of C's size. gelu is the tanh form: x (1 +
/// tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2.
enum class Epilogue {
  None,        ///< C = s
  Bias,        ///< C = s + bias[j], which has n elements
  Relu,        ///< C = max(s, 0)
  ReluBias,    ///< C = max(s + bias[j], 0)
  Gelu,        ///< C = gelu(s)
  GeluBias,    ///< C = gelu(s + bias[j])
  GeluAux,     ///< aux = s; C = gelu(s)
  GeluAuxBias, ///< aux = s + bias[j]; C = gelu(s + bias[j])
  GeluGrad,    ///< C = s gelu'(aux)
  /// C = s gelu'(aux); bias[j] = sum of C[i][j] over i, before C is rounded.
  GeluGradBias,
  /// C = s; bias[i] = sum of op(A)[i][l] over l, m elements. With transA.
  SumsOfA,
  /// C = s; bias[j] = sum of op(B)[l][j] over l, n elements. Without transB.
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

#endif // DPC_RUNTIME_PLAN_PLANEPILOGUE_H
