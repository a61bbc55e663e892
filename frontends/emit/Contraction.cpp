//===- Contraction.cpp - Tensor contractions ------------------------------===//
#include "frontends/emit/Contraction.h"

#include <map>
#include <set>

using namespace mlir;

namespace dpc::frontend {

/// numpy.matmul for operands of rank 2 or more.
static Val batchedMatmul(Emitter &e, Val a, Val b) {
  if (!a || !b)
    return {};
  Shape batchA(a.shape().drop_back(2)), batchB(b.shape().drop_back(2));
  // One matrix on the right multiplies every matrix on the left.
  if (numElements(batchB) == 1 && a.rank() >= b.rank())
    return e.matmul(a, e.reshape(b, b.shape().take_back(2)));
  if (batchA == batchB)
    return e.matmul(a, b);
  auto batch = e.broadcastShape(batchA, batchB);
  if (!batch)
    return {};
  auto wide = [&](Val v) {
    return e.broadcastTo(v, joinShapes({*batch, v.shape().take_back(2)}));
  };
  return e.matmul(wide(a), wide(b));
}

Val stackedMatmul(Emitter &e, Val a, Val b) {
  if (!a || !b)
    return {};
  if (a.rank() == 0 || b.rank() == 0)
    return e.fail("operands must not be scalars");
  bool rowVector = a.rank() == 1, columnVector = b.rank() == 1;
  if (rowVector)
    a = e.reshape(a, {1, a.dim(0)});
  if (columnVector)
    b = e.reshape(b, {b.dim(0), 1});
  Val result = batchedMatmul(e, a, b);
  if (!result)
    return {};
  Shape shape(result.shape());
  if (columnVector)
    shape.pop_back();
  if (rowVector)
    shape.erase(shape.end() - (columnVector ? 1 : 2));
  return e.reshape(result, shape);
}

namespace {

/// An operand with one label per dimension.
struct Labeled {
  Val value;
  std::string labels;
};

Val ordered(Emitter &e, const Labeled &x, llvm::StringRef labels) {
  Shape perm;
  for (char label : labels)
    perm.push_back(static_cast<int64_t>(x.labels.find(label)));
  return e.transpose(x.value, perm);
}

Labeled summedTo(Emitter &e, const Labeled &x, llvm::StringRef wanted) {
  Labeled result;
  Shape dims;
  for (auto [d, label] : llvm::enumerate(x.labels)) {
    if (wanted.contains(label))
      result.labels += label;
    else
      dims.push_back(static_cast<int64_t>(d));
  }
  result.value = e.reduce(ReduceKind::sum, x.value, dims);
  return result;
}

/// Replaces each "..." by the labels '0', '1', .. (the last dimension has the
/// first one). They broadcast: an operand loses those of its dimensions of size
/// 1 that another operand has with more.
std::string withoutEllipsis(Emitter &e, llvm::StringRef equation,
                            std::vector<Val> &inputs) {
  auto [left, right] = equation.split("->");
  llvm::SmallVector<llvm::StringRef> terms;
  left.split(terms, ',');
  if (!equation.contains("...") || terms.size() != inputs.size() ||
      !llvm::all_of(inputs, [](const Val &x) { return bool(x); }))
    return equation.str();
  auto dimsOf = [&](size_t i) {
    auto named = static_cast<int64_t>(terms[i].size()) - 3;
    int64_t count = inputs[i].rank() - named;
    return terms[i].contains("...") && count >= 0 && count <= 10 ? count : 0;
  };
  Shape sizes;
  for (size_t i = 0; i < terms.size(); ++i)
    for (int64_t n = 0, count = dimsOf(i); n < count; ++n) {
      if (n == static_cast<int64_t>(sizes.size()))
        sizes.push_back(1);
      auto before = static_cast<int64_t>(terms[i].find("..."));
      sizes[n] = std::max(sizes[n], inputs[i].dim(before + count - 1 - n));
    }
  auto labelOf = [](int64_t n) { return static_cast<char>('0' + n); };
  std::string all, result;
  for (auto n = static_cast<int64_t>(sizes.size()); n-- > 0;)
    all += labelOf(n);
  for (size_t i = 0; i < terms.size(); ++i) {
    auto [front, behind] = terms[i].split("...");
    std::string labels;
    Shape shape(inputs[i].shape());
    int64_t at = static_cast<int64_t>(front.size());
    for (int64_t n = dimsOf(i); n-- > 0;)
      if (shape[at] == 1 && sizes[n] != 1)
        shape.erase(shape.begin() + at);
      else
        labels += labelOf(n), ++at;
    inputs[i] = e.reshape(inputs[i], shape);
    result += (i ? "," : "") + front.str() + labels + behind.str();
  }
  if (equation.contains("->")) {
    auto [front, behind] = right.split("...");
    return result + "->" + front.str() +
           (right.contains("...") ? all : std::string()) + behind.str();
  }
  // Without '->', the labels of "..." come first.
  std::set<char> once;
  for (char label : result)
    if (llvm::isAlpha(label) && llvm::count(result, label) == 1)
      once.insert(label);
  return result + "->" + all + std::string(once.begin(), once.end());
}

class Einsum {
public:
  explicit Einsum(Emitter &e) : e(e) {}

  Val run(llvm::StringRef equation, llvm::ArrayRef<Val> inputs) {
    std::string output;
    std::vector<Labeled> operands;
    if (!parse(equation, inputs, output, operands))
      return {};
    while (operands.size() > 1) {
      auto [i, j] = cheapestPair(operands);
      // Labels of the output or of other operands must not be summed yet.
      std::string later = output;
      for (size_t n = 0; n < operands.size(); ++n)
        if (n != i && n != j)
          later += operands[n].labels;
      Labeled product = contract(operands[i], operands[j], later);
      if (!product.value)
        return {};
      operands.erase(operands.begin() + static_cast<int64_t>(j));
      operands[i] = product;
    }
    return ordered(e, summedTo(e, operands[0], output), output);
  }

private:
  bool parse(llvm::StringRef text, llvm::ArrayRef<Val> inputs,
             std::string &output, std::vector<Labeled> &operands) {
    std::string equation = text.str();
    llvm::erase(equation, ' ');
    std::vector<Val> values(inputs.begin(), inputs.end());
    equation = withoutEllipsis(e, equation, values);
    auto [left, right] = llvm::StringRef(equation).split("->");
    llvm::SmallVector<llvm::StringRef> terms;
    left.split(terms, ',');
    if (terms.size() != inputs.size()) {
      e.fail("equation '{0}' names {1} operands, the node has {2}", equation,
             terms.size(), inputs.size());
      return false;
    }
    for (auto [i, term] : llvm::enumerate(terms)) {
      Val x = values[i];
      if (!x || !noteSizes(x, term, equation))
        return false;
      operands.push_back({x, term.str()});
    }
    output = llvm::StringRef(equation).contains("->") ? right.str()
                                                      : implicitOutput(left);
    for (char label : output)
      if (!sizes.count(label) || llvm::count(output, label) > 1) {
        e.fail("equation '{0}' has an invalid output", equation);
        return false;
      }
    return true;
  }

  bool noteSizes(Val x, llvm::StringRef term, const std::string &equation) {
    bool ok = static_cast<int64_t>(term.size()) == x.rank();
    for (size_t d = 0; ok && d < term.size(); ++d) {
      auto [entry, isNew] =
          sizes.try_emplace(term[d], x.dim(static_cast<int64_t>(d)));
      ok = entry->second == x.dim(static_cast<int64_t>(d)) &&
           term.count(term[d]) == 1;
    }
    if (!ok)
      e.fail("equation '{0}' does not fit operand {1} (repeated labels within "
             "an operand are not supported)",
             equation, x);
    return ok;
  }

  /// Without '->', the output has the labels that occur once, sorted.
  std::string implicitOutput(llvm::StringRef left) const {
    std::string output;
    for (const auto &[label, size] : sizes)
      if (left.count(label) == 1)
        output += label;
    return output;
  }

  int64_t sizeOf(llvm::StringRef labels) const {
    return numElements(shapeOf(labels));
  }
  Shape shapeOf(llvm::StringRef labels) const {
    Shape shape;
    for (char label : labels)
      shape.push_back(sizes.at(label));
    return shape;
  }

  /// Returns the pair with the fewest multiplications; the first on ties.
  std::pair<size_t, size_t>
  cheapestPair(const std::vector<Labeled> &operands) const {
    std::pair<size_t, size_t> best;
    double least = -1;
    for (size_t i = 0; i < operands.size(); ++i)
      for (size_t j = i + 1; j < operands.size(); ++j) {
        double terms = 1;
        for (const auto &[label, size] : sizes)
          if (llvm::is_contained(operands[i].labels, label) ||
              llvm::is_contained(operands[j].labels, label))
            terms *= static_cast<double>(size);
        if (least < 0 || terms < least) {
          least = terms;
          best = {i, j};
        }
      }
    return best;
  }

  /// Multiplies two operands and sums over the labels that are not in `later`.
  Labeled contract(const Labeled &left, const Labeled &right,
                   llvm::StringRef later) {
    Labeled a = summedTo(e, left, later.str() + right.labels);
    Labeled b = summedTo(e, right, later.str() + left.labels);
    std::string batch, summed, onlyA, onlyB;
    for (char label : a.labels) {
      if (!llvm::StringRef(b.labels).contains(label))
        onlyA += label;
      else if (later.contains(label))
        batch += label;
      else
        summed += label;
    }
    for (char label : b.labels)
      if (!llvm::StringRef(a.labels).contains(label))
        onlyB += label;
    std::string result = batch + onlyA + onlyB;
    if (summed.empty())
      return {outerProduct(a, b, batch, onlyA, onlyB), result};
    if (batch.empty() && leading(b, summed).size() < onlyB.size())
      if (std::string stack = leading(b, summed); !stack.empty())
        return stacked(a, b, stack, onlyA, summed);
    if (batch.empty() && leading(a, summed).size() < onlyA.size())
      if (std::string stack = leading(a, summed); !stack.empty())
        return stacked(b, a, stack, onlyB, summed);
    Shape shape = shapeOf(result);
    Val x = ordered(e, a, batch + onlyA + summed);
    Val y = ordered(e, b, batch + summed + onlyB);
    int64_t m = sizeOf(onlyA), n = sizeOf(onlyB), k = sizeOf(summed);
    if (batch.empty()) {
      x = e.reshape(x, {m, k});
      y = e.reshape(y, {k, n});
    } else {
      x = e.reshape(x, {sizeOf(batch), m, k});
      y = e.reshape(y, {sizeOf(batch), k, n});
    }
    return {e.reshape(e.matmul(x, y), shape), result};
  }

  /// Returns the labels of `x` before the first summed label.
  static std::string leading(const Labeled &x, llvm::StringRef summed) {
    return x.labels.substr(0, x.labels.find_first_of(summed.str()));
  }

  /// Multiplies the matrix `a` with each matrix of the stack `b`, for example
  /// tokens with the weights of every expert ("td,edf->etf"). `a` is repeated,
  /// which costs nothing, so that `b` need not be transposed.
  Labeled stacked(const Labeled &a, const Labeled &b, const std::string &stack,
                  const std::string &onlyA, const std::string &summed) {
    std::string onlyB;
    for (char label : b.labels)
      if (!llvm::is_contained(stack, label) &&
          !llvm::is_contained(summed, label))
        onlyB += label;
    int64_t count = sizeOf(stack), m = sizeOf(onlyA), n = sizeOf(onlyB);
    int64_t k = sizeOf(summed);
    Val x = e.broadcast(e.reshape(ordered(e, a, onlyA + summed), {m, k}),
                        {count, m, k}, {1, 2});
    Val y = e.reshape(ordered(e, b, stack + summed + onlyB), {count, k, n});
    std::string result = stack + onlyA + onlyB;
    return {e.reshape(e.matmul(x, y), shapeOf(result)), result};
  }

  /// Multiplies operands that share no summed label, by broadcasting both.
  Val outerProduct(const Labeled &a, const Labeled &b, const std::string &batch,
                   const std::string &onlyA, const std::string &onlyB) {
    Shape shapeA = joinShapes({shapeOf(batch + onlyA), Shape(onlyB.size(), 1)});
    Shape shapeB =
        joinShapes({shapeOf(batch), Shape(onlyA.size(), 1), shapeOf(onlyB)});
    return e.mul(e.reshape(ordered(e, a, batch + onlyA), shapeA),
                 e.reshape(ordered(e, b, batch + onlyB), shapeB));
  }

  Emitter &e;
  std::map<char, int64_t> sizes;
};

} // namespace

Val einsum(Emitter &e, llvm::StringRef equation, llvm::ArrayRef<Val> operands) {
  return Einsum(e).run(equation, operands);
}

} // namespace dpc::frontend
