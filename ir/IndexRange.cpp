//===- IndexRange.cpp - The values that an integer tensor can have --------===//
#include "ir/IndexRange.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dpc {

namespace {

constexpr int64_t kNone = IndexRange::kNone, kEnd = IndexRange::kEnd;
/// A limit for chains of ops, so that the recursion stays shallow.
constexpr int kMaxDepth = 100;

IndexRange hull(IndexRange a, IndexRange b) {
  return {std::min(a.low, b.low), std::max(a.high, b.high)};
}

/// Returns the bound `a` + `b`, or `unknown` if one of them is, or it
/// overflows.
int64_t sum(int64_t a, int64_t b, int64_t unknown) {
  int64_t result = 0;
  return a == unknown || b == unknown || llvm::AddOverflow(a, b, result)
             ? unknown
             : result;
}

IndexRange plus(IndexRange a, IndexRange b) {
  return {sum(a.low, b.low, kNone), sum(a.high, b.high, kEnd)};
}

IndexRange negated(IndexRange a) {
  return {a.high == kEnd ? kNone : -a.high, a.low == kNone ? kEnd : -a.low};
}

IndexRange product(IndexRange a, IndexRange b) {
  if (a.low == kNone || a.high == kEnd || b.low == kNone || b.high == kEnd)
    return a.low >= 0 && b.low >= 0 ? IndexRange{0, kEnd} : IndexRange{};
  IndexRange result{kEnd, kNone};
  for (int64_t x : {a.low, a.high})
    for (int64_t y : {b.low, b.high}) {
      int64_t corner = 0;
      if (llvm::MulOverflow(x, y, corner))
        return {};
      result = hull(result, {corner, corner});
    }
  return result;
}

BinaryOp binaryOf(Value value, BinaryKind kind) {
  auto op = value.getDefiningOp<BinaryOp>();
  return op && op.getKind() == kind ? op : BinaryOp();
}

class Finder {
public:
  IndexRange of(Value value);

private:
  IndexRange ofBinary(BinaryOp op);
  IndexRange ofSelect(SelectOp op);
  IndexRange ofReduce(ReduceOp op);
  IndexRange ofResult(OpResult result);

  int depth = 0;
  llvm::DenseMap<Value, IndexRange> known;
};

} // namespace

static IndexRange ofType(Type type) {
  if (type.isInteger(1))
    return {0, 1};
  if (type.isUnsignedInteger(8))
    return {0, 255};
  return type.isUnsignedInteger() ? IndexRange{0, kEnd} : IndexRange();
}

static IndexRange ofConstant(ConstantOp op) {
  auto values = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!values || values.empty())
    return {};
  IndexRange range{kEnd, kNone};
  auto add = [&](const APInt &value) {
    int64_t number = value.trySExtValue().value_or(kEnd);
    range = hull(range, {number, number});
  };
  if (values.isSplat())
    add(values.getSplatValue<APInt>());
  else
    llvm::for_each(values.getValues<APInt>(), add);
  return range;
}

/// Whether `op` is a - floor(a / n) * n.
static bool isFloorModulo(BinaryOp op) {
  auto multiple = binaryOf(op.getB(), BinaryKind::mul);
  if (op.getKind() != BinaryKind::sub || !multiple)
    return false;
  // The division rounds toward zero; the select subtracts 1 where it must.
  Value quotient = multiple.getA();
  if (auto select = quotient.getDefiningOp<SelectOp>())
    quotient = select.getOnFalse();
  auto division = binaryOf(quotient, BinaryKind::div);
  return division && division.getA() == op.getA() &&
         splatInteger(division.getB()) == splatInteger(multiple.getB()) &&
         quotient != multiple.getA();
}

IndexRange Finder::ofBinary(BinaryOp op) {
  std::optional<int64_t> number = splatInteger(op.getB());
  bool isPositive = number && *number > 0;
  if (isFloorModulo(op)) {
    number = splatInteger(binaryOf(op.getB(), BinaryKind::mul).getB());
    if (number && *number > 0)
      return {0, *number - 1};
  }
  IndexRange a = of(op.getA()), b = of(op.getB());
  switch (op.getKind()) {
  case BinaryKind::add:
    return plus(a, b);
  case BinaryKind::sub:
    return plus(a, negated(b));
  case BinaryKind::mul:
    return product(a, b);
  case BinaryKind::maximum:
    return {std::max(a.low, b.low), std::max(a.high, b.high)};
  case BinaryKind::minimum:
    return {std::min(a.low, b.low), std::min(a.high, b.high)};
  case BinaryKind::rem:
    return isPositive ? IndexRange{a.low >= 0 ? 0 : 1 - *number, *number - 1}
                      : IndexRange();
  case BinaryKind::div:
    return isPositive ? IndexRange{a.low == kNone ? kNone : a.low / *number,
                                   a.high == kEnd ? kEnd : a.high / *number}
                      : IndexRange();
  default:
    return {};
  }
}

/// Returns the values of `range` for which `kind` `number` is true.
static IndexRange where(IndexRange range, CompareKind kind, int64_t number) {
  switch (kind) {
  case CompareKind::lt:
    range.high = std::min(range.high, sum(number, -1, kNone));
    break;
  case CompareKind::le:
    range.high = std::min(range.high, number);
    break;
  case CompareKind::gt:
    range.low = std::max(range.low, sum(number, 1, kEnd));
    break;
  case CompareKind::ge:
    range.low = std::max(range.low, number);
    break;
  default:
    break;
  }
  return range;
}

static CompareKind negated(CompareKind kind) {
  switch (kind) {
  case CompareKind::lt:
    return CompareKind::ge;
  case CompareKind::le:
    return CompareKind::gt;
  case CompareKind::gt:
    return CompareKind::le;
  case CompareKind::ge:
    return CompareKind::lt;
  case CompareKind::eq:
    return CompareKind::ne;
  case CompareKind::ne:
    return CompareKind::eq;
  }
  llvm_unreachable("all kinds are handled");
}

static bool isNaN(Value hit, Value x) {
  auto compare = hit.getDefiningOp<CompareOp>();
  return compare && compare.getKind() == CompareKind::ne &&
         compare.getA() == x && compare.getB() == x;
}

/// Whether `hit` is true for at least one element along `dims`: for those that
/// equal the largest or smallest one, and for all NaN.
static bool hitsExtreme(Value hit, ArrayRef<int64_t> dims) {
  auto either = binaryOf(hit, BinaryKind::logical_or);
  auto equal = (either ? either.getA() : hit).getDefiningOp<CompareOp>();
  if (!equal || equal.getKind() != CompareKind::eq)
    return false;
  Value x = equal.getA(), best = equal.getB();
  while (isa_and_present<BroadcastOp, ReshapeOp>(best.getDefiningOp()))
    best = best.getDefiningOp()->getOperand(0);
  auto reduce = best.getDefiningOp<ReduceOp>();
  bool isExtreme = reduce && (reduce.getKind() == ReduceKind::max ||
                              reduce.getKind() == ReduceKind::min);
  return isExtreme && reduce.getX() == x && reduce.getDims() == dims &&
         (elementTypeOf(x).isInteger() || (either && isNaN(either.getB(), x)));
}

/// The position of an extreme, as of an argmax, is an element of an iota. The
/// number in the place of other positions is never chosen.
IndexRange Finder::ofReduce(ReduceOp op) {
  bool isMin = op.getKind() == ReduceKind::min;
  if (!isMin && op.getKind() != ReduceKind::max)
    return {};
  IndexRange all = of(op.getX());
  auto select = op.getX().getDefiningOp<SelectOp>();
  std::optional<int64_t> none =
      select ? splatInteger(select.getOnFalse()) : std::nullopt;
  if (!none || !hitsExtreme(select.getCondition(), op.getDims()))
    return all;
  IndexRange places = of(select.getOnTrue());
  bool isWorst = isMin ? *none >= places.high : *none <= places.low;
  return isWorst ? places : all;
}

/// In each branch, uses what the condition says of a value compared with a
/// number.
IndexRange Finder::ofSelect(SelectOp op) {
  // r + n where the sign of r = rem(x, n) is not that of n, otherwise r.
  auto shifted = binaryOf(op.getOnTrue(), BinaryKind::add);
  auto rest = binaryOf(op.getOnFalse(), BinaryKind::rem);
  std::optional<int64_t> number =
      rest ? splatInteger(rest.getB()) : std::nullopt;
  if (shifted && number && *number > 0 && shifted.getA() == op.getOnFalse() &&
      splatInteger(shifted.getB()) == number)
    return {0, *number - 1};
  auto condition = op.getCondition().getDefiningOp<CompareOp>();
  number = condition ? splatInteger(condition.getB()) : std::nullopt;
  if (!number)
    return hull(of(op.getOnTrue()), of(op.getOnFalse()));
  Value compared = condition.getA();
  auto branch = [&](Value value, CompareKind kind) {
    if (value == compared)
      return where(of(value), kind, *number);
    auto add = binaryOf(value, BinaryKind::add);
    return add && add.getA() == compared
               ? plus(where(of(compared), kind, *number), of(add.getB()))
               : of(value);
  };
  return hull(branch(op.getOnTrue(), condition.getKind()),
              branch(op.getOnFalse(), negated(condition.getKind())));
}

IndexRange Finder::ofResult(OpResult result) {
  return llvm::TypeSwitch<Operation *, IndexRange>(result.getOwner())
      .Case<ConstantOp>([](auto o) { return ofConstant(o); })
      .Case<IotaOp>(
          [](auto o) { return IndexRange{0, shapeOf(o)[o.getDim()] - 1}; })
      .Case<TopKOp>([&](auto o) {
        return result == o.getIndices()
                   ? IndexRange{0, shapeOf(o.getX()).back() - 1}
                   : of(o.getX());
      })
      .Case<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, ConvertOp>(
          [&](auto o) { return of(o->getOperand(0)); })
      .Case<ConcatOp>([&](auto o) {
        IndexRange range{kEnd, kNone};
        for (Value part : o.getParts())
          range = hull(range, of(part));
        return range;
      })
      .Case<EmbeddingOp>( // a row of zeros for an index outside of the table
          [&](auto o) { return hull(of(o.getTable()), {0, 0}); })
      .Case<PadOp>([&](auto o) { return hull(of(o.getX()), {0, 0}); })
      .Case<ReduceOp>([&](auto o) { return ofReduce(o); })
      .Case<BinaryOp>([&](auto o) { return ofBinary(o); })
      .Case<SelectOp>([&](auto o) { return ofSelect(o); })
      .Default(IndexRange());
}

IndexRange Finder::of(Value value) {
  Type element = elementTypeOf(value);
  Operation *op = value.getDefiningOp();
  if (!element.isInteger() || element.isInteger(1) || !op || depth >= kMaxDepth)
    return ofType(element);
  if (auto found = known.find(value); found != known.end())
    return found->second;
  ++depth;
  IndexRange range = ofResult(cast<OpResult>(value));
  --depth;
  return known[value] = range;
}

IndexRange rangeOf(Value value) { return Finder().of(value); }

std::optional<int64_t> splatInteger(Value value) {
  while (isa_and_present<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue())
                        : SplatElementsAttr();
  if (!splat || !splat.getElementType().isInteger())
    return std::nullopt;
  return splat.getSplatValue<APInt>().trySExtValue();
}

std::optional<int64_t> wrapOf(SelectOp select) {
  auto condition = select.getCondition().getDefiningOp<CompareOp>();
  auto shifted = binaryOf(select.getOnTrue(), BinaryKind::add);
  Value index = select.getOnFalse();
  if (!condition || !shifted || condition.getKind() != CompareKind::lt ||
      condition.getA() != index || splatInteger(condition.getB()) != 0 ||
      shifted.getA() != index)
    return std::nullopt;
  return splatInteger(shifted.getB());
}

bool isInputOrConstant(Value indices) {
  SmallVector<Value> work = {indices};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!elementTypeOf(value).isInteger())
      return false;
    if (!op || isa<ConstantOp, IotaOp>(op))
      continue;
    if (!isa<ReshapeOp, TransposeOp, SliceOp, BroadcastOp, ConvertOp, ConcatOp>(
            op))
      return false;
    llvm::append_range(work, op->getOperands());
  }
  return true;
}

} // namespace dpc
