//===- AttentionBands.cpp - Masks by the distance of keys -----------------===//
//
// A mask of 8,192 queries has 67 million elements, and elementAt() takes a
// microsecond. So only the elements next to the borders of the band are read if
// the ops of the mask prove that every row keeps one interval of keys: a
// comparison of affine functions of the position keeps a half plane, whose rows
// are intervals, and intersections of intervals are intervals.
//
//===----------------------------------------------------------------------===//
#include "passes/graph/AttentionBands.h"

using namespace mlir;
using namespace dpc;

static constexpr int64_t kMaxMaskElements = int64_t(1) << 24;

void Band::add(const Band &other) {
  causal |= other.causal;
  if (other.window)
    window = window ? std::min(*window, *other.window) : *other.window;
}

/// Whether `op` is a reshape that just adds or removes dimensions of size 1.
static bool movesUnitDims(Operation *op) {
  return isa<ReshapeOp>(op) && withoutUnitDims(shapeOf(op->getOperand(0))) ==
                                   withoutUnitDims(shapeOf(op->getResult(0)));
}

/// Compares all elements of the constant `value` with those at index 0 of
/// `dim`.
static bool isRepeated(Value value, int64_t dim) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (ShapedType::getNumElements(shape) > kMaxMaskElements)
    return false;
  SmallVector<int64_t> index(shape.size(), 0);
  auto next = [&] {
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        return true;
      index[d] = 0;
    }
    return false;
  };
  do {
    SmallVector<int64_t> first(index);
    first[dim] = 0;
    if (elementAt(value, index) != elementAt(value, first))
      return false;
  } while (next());
  return true;
}

static bool isInvariant(Value value, int64_t dim) {
  if (shapeOf(value)[dim] == 1 || splatValue(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    for (auto [i, to] : llvm::enumerate(broadcast.getDims()))
      if (to == dim)
        return isInvariant(broadcast.getX(), i);
    return true;
  }
  if (movesUnitDims(op)) {
    auto isLong = [](int64_t size) { return size != 1; };
    int64_t before = llvm::count_if(shapeOf(value).take_front(dim), isLong);
    for (auto [i, size] : llvm::enumerate(shapeOf(op->getOperand(0))))
      if (isLong(size) && before-- == 0)
        return isInvariant(op->getOperand(0), i);
  }
  if (auto iota = dyn_cast<IotaOp>(op))
    return static_cast<int64_t>(iota.getDim()) != dim;
  if (isa<ConstantOp>(op))
    return isRepeated(value, dim);
  if (isa<UnaryOp, BinaryOp, CompareOp, SelectOp, ConvertOp>(op))
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return isInvariant(operand, dim);
    });
  return false;
}

/// Returns the source of `value` before data movement that maps straight lines
/// to straight lines.
static Value skipViews(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<BroadcastOp, TransposeOp, SliceOp>(op) && !movesUnitDims(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Whether the elements of `value` are an affine function of their index.
static bool isAffine(Value value) {
  value = skipViews(value);
  while (auto convert = value.getDefiningOp<ConvertOp>()) {
    if (elementTypeOf(value).getIntOrFloatBitWidth() < 32)
      return false; // Positions may be rounded, or wrap around.
    value = skipViews(convert.getX());
  }
  if (splatValue(value) || value.getDefiningOp<IotaOp>())
    return true;
  auto sum = value.getDefiningOp<BinaryOp>();
  return sum &&
         (sum.getKind() == BinaryKind::add ||
          sum.getKind() == BinaryKind::sub) &&
         isAffine(sum.getA()) && isAffine(sum.getB());
}

/// Whether the ops of `value` prove that in every line along a dimension, the
/// elements that equal `kept` (a condition: true or false) or are 0 (a term)
/// are an interval.
static bool keepsIntervals(Value value, bool kept) {
  value = skipViews(skipConverts(skipViews(value)));
  if (splatValue(value))
    return true;
  if (auto select = value.getDefiningOp<SelectOp>()) {
    std::optional<double> onTrue = splatValue(select.getOnTrue()),
                          onFalse = splatValue(select.getOnFalse());
    return onTrue && onFalse && (*onTrue == 0.0) != (*onFalse == 0.0) &&
           keepsIntervals(select.getCondition(), *onTrue == 0.0);
  }
  if (UnaryOp negation = unaryOf(value, UnaryKind::logical_not))
    return keepsIntervals(negation.getX(), !kept);
  if (BinaryOp both = binaryOf(value, kept ? BinaryKind::logical_and
                                           : BinaryKind::logical_or))
    return keepsIntervals(both.getA(), kept) &&
           keepsIntervals(both.getB(), kept);
  auto compare = value.getDefiningOp<CompareOp>();
  return compare && compare.getKind() != CompareKind::eq &&
         compare.getKind() != CompareKind::ne && isAffine(compare.getA()) &&
         isAffine(compare.getB());
}

namespace {

/// A mask of which `keeps(t, s)` says whether key s is kept for query t, or
/// nullopt if this is unknown.
struct Mask {
  int64_t rows, columns;
  function_ref<std::optional<bool>(int64_t, int64_t)> keeps;

  /// Returns the only band that agrees with the first and the last row, or
  /// nullopt if the last query does not see its own key.
  std::optional<Band> guess() const {
    if (keeps(rows - 1, columns - 1) != std::optional(true))
      return std::nullopt;
    Band band;
    int64_t first = columns - 1;
    while (first > 0 && keeps(rows - 1, first - 1) == std::optional(true))
      --first;
    if (first > 0)
      band.window = columns - first;
    // The first query stands at key columns - rows.
    band.causal =
        rows > 1 && keeps(0, columns - rows + 1) != std::optional(true);
    return band;
  }

  bool agrees(const Band &band, int64_t t, int64_t s) const {
    return s < 0 || s >= columns ||
           keeps(t, s) == std::optional(band.keeps(t + columns - rows - s));
  }

  /// Whether row t keeps the keys of `band`. If the row keeps an interval, the
  /// keys at both borders decide.
  bool rowAgrees(const Band &band, int64_t t, bool isInterval) const {
    int64_t own = t + columns - rows;
    if (isInterval) {
      int64_t first =
          band.window ? std::max<int64_t>(own - *band.window + 1, 0) : 0;
      int64_t last = band.causal ? own : columns - 1;
      return llvm::all_of(std::array{first - 1, first, last, last + 1},
                          [&](int64_t s) { return agrees(band, t, s); });
    }
    for (int64_t s = 0; s < columns; ++s)
      if (!agrees(band, t, s))
        return false;
    return true;
  }
};

} // namespace

/// Returns the band of `value` [B, H, T, S] if it depends only on t and s.
/// keeps(element) is nullopt for an element that is neither kept nor masked.
static std::optional<Band>
bandOf(Value value, bool isInterval,
       function_ref<std::optional<bool>(double)> keeps) {
  ArrayRef<int64_t> shape = shapeOf(value);
  auto keepsKey = [&](int64_t t, int64_t s) {
    std::optional<double> element = elementAt(value, {0, 0, t, s});
    return element ? keeps(*element) : std::nullopt;
  };
  Mask mask{shape[2], shape[3], keepsKey};
  if (mask.rows > mask.columns || mask.columns == 1 ||
      (!isInterval && mask.rows * mask.columns > kMaxMaskElements))
    return std::nullopt;
  std::optional<Band> band = mask.guess();
  for (int64_t t = 0; band && t < mask.rows; ++t)
    if (!mask.rowAgrees(*band, t, isInterval))
      return std::nullopt;
  return isInvariant(value, 0) && isInvariant(value, 1) ? band : std::nullopt;
}

std::optional<Band> BandReader::ofCondition(Value condition, bool keeps) {
  auto [it, isNew] =
      conditions.try_emplace({condition, keeps ? 1U : 0U}, std::nullopt);
  if (isNew)
    it->second = bandOf(condition, keepsIntervals(condition, keeps),
                        [&](double x) { return (x != 0.0) == keeps; });
  return it->second;
}

std::optional<Band> BandReader::ofTerm(Value mask, double limit) {
  auto [it, isNew] = terms.try_emplace(mask, Term{std::nullopt, 0});
  if (isNew) {
    double largest = -std::numeric_limits<double>::infinity();
    std::optional<Band> band = bandOf(mask, keepsIntervals(mask, true),
                                      [&](double x) -> std::optional<bool> {
                                        if (std::isnan(x) || x > 0.0)
                                          return std::nullopt;
                                        if (x < 0.0)
                                          largest = std::max(largest, x);
                                        return x == 0.0;
                                      });
    it->second = {band, largest};
  }
  const Term &term = it->second;
  return term.band && term.largest <= limit ? term.band : std::nullopt;
}

Value dpc::windowMask(GraphBuilder g, int64_t queries, int64_t keys,
                      int64_t window, Type element) {
  SmallVector<int64_t> shape = {1, 1, queries, keys};
  Value query = g.iota(shape, 2), key = g.iota(shape, 3);
  auto type = RankedTensorType::get(shape, statisticsType(element));
  Value hidden = g.constantLike(query, double(keys - queries - window));
  return g.select(g.compare(CompareKind::gt, key, g.add(query, hidden)),
                  g.constant(type, 0.0),
                  g.constant(type, -std::numeric_limits<double>::infinity()));
}

void dpc::hideByMask(GraphBuilder g, Operation *op, Value mask) {
  auto hide = [&](auto attention) {
    attention.removeWindowAttr();
    Value given = attention.getMask();
    if (!given)
      return attention.getMaskMutable().assign(mask);
    SmallVector<int64_t> shape;
    for (auto [a, b] : llvm::zip(shapeOf(given), shapeOf(mask)))
      shape.push_back(std::max(a, b));
    auto whole = [&](Value part) {
      return g.broadcast(g.convert(part, elementTypeOf(mask)), shape,
                         {0, 1, 2, 3});
    };
    attention.getMaskMutable().assign(g.add(whole(given), whole(mask)));
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    hide(attention);
  else
    hide(cast<AttentionGradOp>(op));
}
