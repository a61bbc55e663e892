//===- Aliases.cpp - Operators with several names -------------------------===//
#include "frontends/torch/Call.h"

namespace dpc::frontend::pt2 {

namespace {

struct Alias {
  const char *name, *of;
};

constexpr Alias kAliases[] = {
    {"absolute.default", "abs.default"},
    {"arccos.default", "acos.default"},
    {"arccosh.default", "acosh.default"},
    {"arcsin.default", "asin.default"},
    {"arcsinh.default", "asinh.default"},
    {"arctan.default", "atan.default"},
    {"arctan2.default", "atan2.default"},
    {"arctanh.default", "atanh.default"},
    {"broadcast_to.default", "expand.default"},
    {"concatenate.default", "cat.default"},
    {"divide.Scalar", "div.Scalar"},
    {"divide.Scalar_mode", "div.Scalar_mode"},
    {"divide.Tensor", "div.Tensor"},
    {"divide.Tensor_mode", "div.Tensor_mode"},
    {"fix.default", "trunc.default"},
    {"ger.default", "outer.default"},
    {"greater.Scalar", "gt.Scalar"},
    {"greater.Tensor", "gt.Tensor"},
    {"greater_equal.Scalar", "ge.Scalar"},
    {"greater_equal.Tensor", "ge.Tensor"},
    {"less.Scalar", "lt.Scalar"},
    {"less.Tensor", "lt.Tensor"},
    {"less_equal.Scalar", "le.Scalar"},
    {"less_equal.Tensor", "le.Tensor"},
    {"multiply.Scalar", "mul.Scalar"},
    {"multiply.Tensor", "mul.Tensor"},
    {"negative.default", "neg.default"},
    {"not_equal.Scalar", "ne.Scalar"},
    {"not_equal.Tensor", "ne.Tensor"},
    {"row_stack.default", "vstack.default"},
    {"special_erf.default", "erf.default"},
    {"special_erfinv.default", "erfinv.default"},
    {"special_exp2.default", "exp2.default"},
    {"special_expit.default", "sigmoid.default"},
    {"special_expm1.default", "expm1.default"},
    {"special_gammaln.default", "lgamma.default"},
    {"special_log1p.default", "log1p.default"},
    {"special_log_softmax.default", "log_softmax.int"},
    {"special_logsumexp.default", "logsumexp.default"},
    {"special_round.default", "round.default"},
    {"special_softmax.default", "softmax.int"},
    {"subtract.Scalar", "sub.Scalar"},
    {"subtract.Tensor", "sub.Tensor"},
    {"swapdims.default", "transpose.int"},
    {"true_divide.Scalar", "div.Scalar"},
    {"true_divide.Tensor", "div.Tensor"},
};

} // namespace

void addAliases(OperatorTable &t) {
  for (const Alias &alias : kAliases) {
    Operator known = t.lookup(alias.of);
    assert(!known.signature.empty() && "an alias of an operator of the table");
    t[alias.name] = known;
  }
}

} // namespace dpc::frontend::pt2
