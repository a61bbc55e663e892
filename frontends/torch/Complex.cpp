//===- Complex.cpp - Complex tensors as pairs of real ones ----------------===//
#include "frontends/torch/Complex.h"

#include "frontends/emit/Functions.h"
#include "frontends/torch/Liveness.h"
#include "frontends/torch/ops/Shared.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dpc::frontend::pt2 {

Val pairOf(Val re, Val im) {
  if (!re || !im)
    return {};
  Val pair;
  pair.parts = std::make_shared<const std::vector<Val>>(
      std::vector<Val>{std::move(re), std::move(im)});
  return pair;
}

bool isComplex(const Val &x) { return x.parts && x.parts->size() == 2; }

Val real(const Val &x) { return (*x.parts)[0]; }
Val imaginary(const Val &x) { return (*x.parts)[1]; }

namespace {

Val polar(Emitter &e, Val size, Val angle) {
  return pairOf(e.mul(size, e.cos(angle)), e.mul(size, e.sin(angle)));
}
Val polarOf(Call &c, Val size, Val angle) { return polar(c.emit, size, angle); }
Val complexOf(Call &, Val re, Val im) { return pairOf(re, im); }

/// The last dimension has both parts.
Val viewAsComplex(Call &c, Val x) {
  Emitter &e = c.emit;
  if (x.rank() == 0 || x.shape().back() != 2)
    return c.fail("the last dimension of {0} must have 2 elements", x);
  auto part = [&](int64_t i) {
    return e.dropDim(e.sliceDim(x, x.rank() - 1, i, 1), x.rank() - 1);
  };
  return pairOf(part(0), part(1));
}

Val viewAsReal(Call &c, Val x) {
  Emitter &e = c.emit;
  Val re = real(x), im = imaginary(x);
  Shape shape(re.shape());
  shape.push_back(1);
  return e.concat({e.reshape(re, shape), e.reshape(im, shape)}, re.rank());
}

Val realOf(Call &, Val x) { return isComplex(x) ? real(x) : x; }
Val imaginaryOf(Call &, Val x) { return imaginary(x); }
Val angleOf(Call &c, Val x) {
  return arcTangentOf(c.emit, imaginary(x), real(x));
}
Val conjugate(Call &c, Val x) {
  return isComplex(x) ? pairOf(real(x), c.emit.neg(imaginary(x))) : x;
}
Val unchanged(Call &, Val x) { return x; }

Val sizeOf(Call &c, const Val &x) {
  Emitter &e = c.emit;
  Val re = real(x), im = imaginary(x);
  return rootOf(c, e.add(e.mul(re, re), e.mul(im, im)));
}

Val product(Emitter &e, const Val &a, const Val &b) {
  Val ar = real(a), ai = imaginary(a), br = real(b), bi = imaginary(b);
  return pairOf(e.sub(e.mul(ar, br), e.mul(ai, bi)),
                e.add(e.mul(ar, bi), e.mul(ai, br)));
}

/// Operators that read complex values themselves.
bool isOwn(llvm::StringRef op) {
  static const llvm::StringSet<> own = {
      "view_as_real",  "real",
      "imag",          "angle",
      "conj",          "_conj",
      "conj_physical", "resolve_conj",
      "sym_size",      "_assert_tensor_metadata",
      "fft_fft",       "fft_ifft",
      "fft_fft2",      "fft_ifft2",
      "fft_fftn",      "fft_ifftn",
      "fft_irfft"};
  return own.contains(op);
}

/// Operators that treat both parts alike if every operand is complex.
bool isLinear(llvm::StringRef op) {
  static const llvm::StringSet<> linear = {"add",   "sub",    "neg",
                                           "sum",   "mean",   "cat",
                                           "stack", "concat", "concatenate"};
  return linear.contains(op);
}

/// Operators that treat both parts alike; other operands are real.
bool isByParts(llvm::StringRef op) {
  static const llvm::StringSet<> byParts = {"t",
                                            "mT",
                                            "mul",
                                            "div",
                                            "view",
                                            "_unsafe_view",
                                            "reshape",
                                            "flatten",
                                            "unflatten",
                                            "unsqueeze",
                                            "squeeze",
                                            "permute",
                                            "transpose",
                                            "expand",
                                            "broadcast_to",
                                            "slice",
                                            "select",
                                            "narrow",
                                            "index",
                                            "index_select",
                                            "clone",
                                            "contiguous",
                                            "to",
                                            "_to_copy",
                                            "detach",
                                            "alias",
                                            "repeat",
                                            "split",
                                            "chunk",
                                            "unbind",
                                            "roll",
                                            "flip",
                                            "swapaxes",
                                            "movedim",
                                            "multiply",
                                            "divide",
                                            "expand_as",
                                            "lift_fresh",
                                            "true_divide",
                                            "repeat_interleave",
                                            "split_with_sizes"};
  return byParts.contains(op);
}

} // namespace

bool readsComplex(const Node &node, const Values &values) {
  bool found = false;
  for (const auto &[name, argument] : node.inputs)
    forEachName(argument, [&](llvm::StringRef value) {
      found |= isComplex(values.lookup(value));
    });
  return found;
}

void convertComplex(Call &call, const Operator &op, const Values &values) {
  llvm::StringRef name = call.target().split('.').first;
  llvm::SmallVector<Val> operands;
  for (const auto &[argument, value] : call.node.inputs)
    forEachName(value, [&](llvm::StringRef operand) {
      operands.push_back(values.lookup(operand));
    });
  bool allComplex = llvm::all_of(operands, isComplex);
  if (isOwn(name))
    return op.convert(call);
  if (name == "abs")
    return call.out(sizeOf(call, operands[0]));
  bool multiplies = name == "mul" || name == "multiply";
  if (multiplies && operands.size() == 2 && allComplex)
    return call.out(product(call.emit, operands[0], operands[1]));
  bool divides =
      name.contains("div") && isComplex(operands.back()) && operands.size() > 1;
  if (divides || !(isByParts(name) || (isLinear(name) && allComplex))) {
    call.fail("complex operands are not supported; accepted: products, sums, "
              "movement, and torch.view_as_real");
    return;
  }
  llvm::SmallVector<Val> parts[2];
  for (int i = 0; i < 2; ++i) {
    Values own;
    for (const auto &[argument, value] : call.node.inputs)
      forEachName(value, [&](llvm::StringRef operand) {
        Val x = values.lookup(operand);
        own[operand] = isComplex(x) ? (*x.parts)[i] : x;
      });
    Call part(call.emit, call.graph, call.node, op.signature, own);
    part.trains = call.trains;
    part.ofComplexPart = true;
    op.convert(part);
    parts[i] = part.results;
  }
  for (size_t n = 0; n < call.results.size(); ++n)
    call.results[n] = pairOf(parts[0][n], parts[1][n]);
}

void addComplex(OperatorTable &t) {
  t["polar.default"] = {"abs, angle", polarOf};
  t["complex.default"] = {"real, imag", complexOf};
  t["view_as_complex.default"] = {"self", viewAsComplex};
  t["view_as_real.default"] = {"self", viewAsReal};
  t["real.default"] = {"self", realOf};
  t["imag.default"] = {"self", imaginaryOf};
  t["angle.default"] = {"self", angleOf};
  for (const char *name :
       {"conj.default", "_conj.default", "conj_physical.default"})
    t[name] = {"self", conjugate};
  t["resolve_conj.default"] = {"self", unchanged};
  t["resolve_neg.default"] = {"self", unchanged};
}

} // namespace dpc::frontend::pt2
