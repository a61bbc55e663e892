//===- Index.cpp - Affine element indices of a loop nest ------------------===//
#include "codegen/kernel/Index.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

bool Index::isConstant() const {
  return !isOpaque && llvm::all_of(coefs, [](int64_t c) { return c == 0; });
}

int64_t LoopSpace::push(int64_t size, Value var, int64_t multiple) {
  sizes.push_back(size);
  multiples.push_back(multiple);
  vars.push_back(var);
  return numLoops() - 1;
}

void LoopSpace::pop() {
  sizes.pop_back();
  multiples.pop_back();
  vars.pop_back();
}

Index LoopSpace::loop(int64_t loop) const {
  Index index;
  // A loop with one iteration is left out, so that fewer terms are compared.
  if (sizes[loop] == 1)
    return index;
  index.coefs.assign(loop + 1, 0);
  index.coefs[loop] = 1;
  return index;
}

Index LoopSpace::constant(int64_t value) {
  Index index;
  index.constant = value;
  return index;
}

Index LoopSpace::opaque(Value value) {
  Index index;
  index.opaque = value;
  index.isOpaque = true;
  return index;
}

Index LoopSpace::add(ImplicitLocOpBuilder *b, const Index &x, const Index &y) {
  Index sum = x;
  sum.coefs.resize(std::max(x.coefs.size(), y.coefs.size()), 0);
  for (auto [i, c] : llvm::enumerate(y.coefs))
    sum.coefs[i] += c;
  sum.constant += y.constant;
  if (y.isOpaque)
    sum.multiple = x.isOpaque ? std::gcd(x.multiple, y.multiple) : y.multiple;
  sum.isOpaque |= y.isOpaque;
  if (y.opaque)
    sum.opaque = x.opaque ? addI(*b, x.opaque, y.opaque) : y.opaque;
  return sum;
}

Index LoopSpace::scale(ImplicitLocOpBuilder *b, const Index &x,
                       int64_t factor) {
  Index product = x;
  for (int64_t &c : product.coefs)
    c *= factor;
  product.constant *= factor;
  if (x.isOpaque)
    product.multiple = x.multiple * factor;
  if (x.opaque && factor != 1)
    product.opaque = mulI(*b, x.opaque, factor);
  return product;
}

Index LoopSpace::linearize(ImplicitLocOpBuilder *b, ArrayRef<Index> indices,
                           ArrayRef<int64_t> strides, int64_t offset) {
  Index sum = constant(offset);
  for (auto [index, stride] : llvm::zip_equal(indices, strides))
    sum = add(b, sum, scale(b, index, stride));
  return sum;
}

std::optional<std::pair<Index, Index>>
LoopSpace::divide(const Index &index, int64_t divisor) const {
  if (index.isOpaque)
    return std::nullopt;
  Index quotient, remainder;
  quotient.coefs.assign(index.coefs.size(), 0);
  remainder.coefs.assign(index.coefs.size(), 0);
  quotient.constant = index.constant / divisor;
  remainder.constant = index.constant % divisor;
  int64_t largest = remainder.constant;
  for (auto [d, c] : llvm::enumerate(index.coefs)) {
    if (c < 0)
      return std::nullopt;
    if (c % divisor == 0) {
      quotient.coefs[d] = c / divisor;
    } else {
      remainder.coefs[d] = c;
      largest += c * this->largest(d);
    }
  }
  if (largest >= divisor)
    return std::nullopt;
  return std::pair{quotient, remainder};
}

Value LoopSpace::materialize(ImplicitLocOpBuilder &b,
                             const Index &index) const {
  Value sum = index.opaque;
  for (auto [d, c] : llvm::enumerate(index.coefs)) {
    if (c == 0 || !vars[d])
      continue;
    Value term = vars[d];
    if (c != 1)
      term = mulI(b, term, c);
    sum = sum ? addI(b, sum, term) : term;
  }
  if (!sum)
    return constantI64(b, index.constant);
  if (index.constant != 0)
    sum = addI(b, sum, index.constant);
  return sum;
}

} // namespace dpc::codegen
