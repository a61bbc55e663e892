//===- IndexUse.cpp - Ops that read integers as indices -------------------===//
#include "ir/IndexUse.h"

#include "ir/Attributes.h"

using namespace mlir;

namespace dpc {

static int64_t countOf(OpOperand &use) {
  Operation *user = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (auto embedding = dyn_cast<EmbeddingOp>(user))
    return index == 1 ? shapeOf(embedding.getTable())[0] : 0;
  if (auto sums = dyn_cast<EmbeddingGradOp>(user))
    return index == 0 && sums->hasAttr(attr::kBounded)
               ? shapeOf(sums.getResult())[0]
               : 0;
  if (auto loss = dyn_cast<CrossEntropyOp>(user))
    return index == 1 ? shapeOf(loss.getLogits())[1] : 0;
  if (auto sums = dyn_cast<CrossEntropySumsOp>(user))
    return index == 2 ? shapeOf(sums.getLogits())[1] : 0;
  auto hit = dyn_cast<CompareOp>(user);
  if (!hit || !hit->hasAttr(attr::kBounded) || index != 1)
    return 0;
  auto positions = hit.getA().getDefiningOp<IotaOp>();
  return positions ? shapeOf(positions)[positions.getDim()] : 0;
}

/// Returns the label that the loss of `op` ignores.
static std::optional<int64_t> ignoredBy(Operation *op) {
  if (auto loss = dyn_cast<CrossEntropyOp>(op);
      loss && !loss->hasAttr(attr::kBounded))
    return static_cast<int64_t>(loss.getIgnoreIndex());
  if (auto label = op->getAttrOfType<IntegerAttr>(attr::kIgnored))
    return label.getInt();
  return std::nullopt;
}

std::optional<AcceptedIndices> acceptedBy(OpOperand &use) {
  int64_t count = countOf(use);
  if (count <= 0)
    return std::nullopt;
  return AcceptedIndices{count, ignoredBy(use.getOwner())};
}

/// Returns the constant that `op` adds to operand `index`. Sums beyond 32 bits
/// could overflow.
static std::optional<int64_t> addedTo(BinaryOp op, unsigned index) {
  bool adds = op.getKind() == BinaryKind::add;
  std::optional<int64_t> other = splatInteger(op->getOperand(1 - index));
  if (!other || std::abs(*other) > INT32_MAX ||
      !(adds || (op.getKind() == BinaryKind::sub && index == 0)))
    return std::nullopt;
  return adds ? *other : -*other;
}

/// Whether the elements of the result are those of the operands.
static bool isMovement(Operation *op) {
  return isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, ConcatOp>(op);
}

/// Whether `op` keeps integers: it converts to a type that holds indices.
static bool keepsIntegers(Operation *op) {
  auto convert = dyn_cast<ConvertOp>(op);
  return convert &&
         elementTypeOf(convert.getResult()).getIntOrFloatBitWidth() >= 32;
}

bool moveThrough(OpOperand &use, MovedIndices &from) {
  Operation *user = use.getOwner();
  if (auto select = dyn_cast<SelectOp>(user)) {
    std::optional<int64_t> count = wrapOf(select);
    if (!count || from.wraps != 0 || use.getOperandNumber() != 2)
      return false;
    from.wraps = *count;
  } else if (auto binary = dyn_cast<BinaryOp>(user)) {
    std::optional<int64_t> added = addedTo(binary, use.getOperandNumber());
    if (!added || from.wraps != 0)
      return false;
    from.added += *added;
  } else if (!isMovement(user) && !keepsIntegers(user)) {
    return false;
  }
  if (auto slice = dyn_cast<SliceOp>(user)) {
    if (shapeOf(slice.getX()).size() > 1)
      from.ahead += slice.getOffsets()[1];
  } else if (auto concat = dyn_cast<ConcatOp>(user);
             concat && concat.getDim() == 1) {
    for (Value part : concat.getParts().take_front(use.getOperandNumber()))
      from.ahead -= shapeOf(part)[1];
  }
  from.value = user->getResult(0);
  return true;
}

namespace {

/// Follows moveThrough() backward, and changes what is accepted accordingly.
struct Backward {
  int64_t first, limit; ///< accepted: `first` to `limit` - 1
  std::optional<int64_t> ignored;
  bool wraps = false;

  bool accepts(int64_t value) const {
    return (value >= first && value < limit) || value == ignored;
  }
  bool acceptsConstant(ConstantOp op) const;
  bool acceptsAll(Value value) const;
};

} // namespace

bool Backward::acceptsConstant(ConstantOp op) const {
  auto values = dyn_cast<DenseIntElementsAttr>(op.getValue());
  return values && llvm::all_of(values.getValues<APInt>(), [&](APInt value) {
           std::optional<int64_t> number = value.trySExtValue();
           return number && accepts(*number);
         });
}

bool Backward::acceptsAll(Value value) const {
  if (elementTypeOf(value).isInteger() &&
      rangeOf(value).isWithin(first, limit - 1))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return elementTypeOf(value).isInteger() && roleOf(value) == role::kInput;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return acceptsConstant(constant);
  if (auto select = dyn_cast<SelectOp>(op)) {
    std::optional<int64_t> count = wrapOf(select);
    return count && !wraps && first == 0 && limit == *count && !ignored &&
           Backward{-limit, limit, std::nullopt, /*wraps=*/true}.acceptsAll(
               select.getOnFalse());
  }
  if (auto binary = dyn_cast<BinaryOp>(op)) {
    for (unsigned index : {0, 1})
      if (std::optional<int64_t> added = addedTo(binary, index)) {
        Backward before = *this;
        before.first -= *added;
        before.limit -= *added;
        if (ignored)
          before.ignored = *ignored - *added;
        return before.acceptsAll(binary->getOperand(index));
      }
    return false;
  }
  return (isMovement(op) || keepsIntegers(op)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return acceptsAll(operand); });
}

bool isKnownAccepted(OpOperand &use) {
  std::optional<AcceptedIndices> accepted = acceptedBy(use);
  return !accepted ||
         Backward{0, accepted->count, accepted->ignored}.acceptsAll(use.get());
}

} // namespace dpc
