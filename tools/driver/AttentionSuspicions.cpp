//===- AttentionSuspicions.cpp - Heads and scores that are mistakes -------===//
#include "ir/NodeName.h"
#include "passes/graph/Match.h"
#include "tools/driver/Comparisons.h"
#include "tools/driver/Suspicions.h"
#include "tools/driver/WeightFacts.h"

#include <cmath>

using namespace mlir;

namespace dpc {

static std::string shapeText(Value value) {
  std::string text;
  for (int64_t size : shapeOf(value))
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

/// Whether reshaping `rows`, [.., t, h * d], to `heads`, [.., h, t, d], gives
/// each head the features of some rows, instead of some features of each row.
static bool cutsRows(ArrayRef<int64_t> rows, ArrayRef<int64_t> heads) {
  if (rows.size() < 2 || heads.size() < 3 || rows.back() % heads.back() != 0)
    return false;
  const int64_t count = rows.back() / heads.back(),
                positions = heads[heads.size() - 2];
  return count > 1 && positions > 1 && count != positions &&
         rows[rows.size() - 2] == positions;
}

/// Returns the last reshape that makes heads of rows in this way before
/// `value`, an operand of attention, or null.
static ReshapeOp headsBefore(Value value) {
  for (Value one : dependencies({value}, [](Operation *op) {
         return worksOnElements(op) || isa<RopeOp, ConcatOp, NormOp>(op);
       }))
    if (auto reshape = one.getDefiningOp<ReshapeOp>();
        reshape && cutsRows(shapeOf(reshape.getX()), shapeOf(one)))
      return reshape;
  return {};
}

/// Returns the reshape that makes rows of heads in the same way after `value`,
/// the result of attention, or null.
static ReshapeOp rowsAfter(Value value) {
  for (Operation *user : value.getUsers()) {
    auto reshape = dyn_cast<ReshapeOp>(user);
    if (reshape && cutsRows(shapeOf(reshape.getResult()), shapeOf(value)))
      return reshape;
    if (isa<ConvertOp>(user))
      return rowsAfter(user->getResult(0));
  }
  return {};
}

Detail cutsHeads(Operation *op, const SuspectModel &) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention)
    return std::nullopt;
  ReshapeOp before = headsBefore(attention.getQ()),
            reshape = before ? before : rowsAfter(attention.getOut());
  return reshape ? Detail(shapeText(reshape.getX()) + " to " +
                          shapeText(reshape.getResult()) +
                          (before ? " before" : " after"))
                 : std::nullopt;
}

/// Returns the product of the numbers that `value`, queries or keys, is
/// multiplied by.
static double scaleOf(Value value) {
  double product = 1, factor = 1;
  while (Operation *op = value.getDefiningOp()) {
    if (Value scaled = scaledValue(value, factor)) {
      product *= factor;
      value = scaled;
    } else if (isa<ReshapeOp, TransposeOp, ConvertOp>(op)) {
      value = op->getOperand(0);
    } else {
      break;
    }
  }
  return product;
}

Detail scalesTwice(Operation *op, const SuspectModel &) {
  constexpr double kEqual = 1e-3;
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention)
    return std::nullopt;
  const double usual = std::sqrt(double(shapeOf(attention.getQ()).back()));
  auto isUsual = [&](double scale) {
    return std::abs(scale * usual - 1) < kEqual;
  };
  return usual > 1 && isUsual(attention.getScale().convertToDouble()) &&
                 isUsual(scaleOf(attention.getQ()) * scaleOf(attention.getK()))
             ? Detail(std::to_string(shapeOf(attention.getQ()).back()))
             : std::nullopt;
}

/// Whether `value`, queries or keys, is multiplied by a table of positions and
/// features, as rotary embeddings are.
static bool isRotated(Value value, const Reach &reach) {
  return llvm::any_of(
      dependencies({value},
                   [](Operation *op) {
                     return worksOnElements(op) ||
                            isa<RopeOp, ConcatOp, NormOp>(op);
                   }),
      [&](Value one) {
        BinaryOp product = binaryOf(one, BinaryKind::mul);
        if (!product)
          return isa_and_present<RopeOp>(one.getDefiningOp());
        const auto last = static_cast<int64_t>(shapeOf(one).size()) - 1;
        return llvm::any_of(operandOrders(product), [&](auto operands) {
          const Repeated table = repeatedSource(operands.second);
          return reach.reachesWeights(operands.first) &&
                 !reach.reachesWeights(table.source) &&
                 !splatValue(table.source) &&
                 llvm::is_contained(table.dims, last) && table.dims.size() > 1;
        });
      });
}

Detail rotatesOne(Operation *op, const SuspectModel &model) {
  auto attention = dyn_cast<AttentionOp>(op);
  if (!attention ||
      shapeOf(attention.getQ())[2] != shapeOf(attention.getK())[2])
    return std::nullopt;
  const bool isQ = isRotated(attention.getQ(), model.reach),
             isK = isRotated(attention.getK(), model.reach);
  return isQ == isK ? Detail()
                    : Detail(isQ ? "queries, but not its keys"
                                 : "keys, but not its queries");
}

} // namespace dpc
