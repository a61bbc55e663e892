//===- ExpandRing.cpp - Attention whose keys travel round a ring ----------===//
//
// n ranks hold a part of the positions each, of queries, keys and values alike.
// In step r = 0 .. n-1 rank c attends to the keys of rank j = (c - r) mod n;
// between steps every rank hands keys and values to the next one.
//
// Forward, merging (o, l) of the steps so far with a step's (o', l'):
//
//   m = max(l, l'), a = exp(l - m), b = exp(l' - m), s = a + b
//   o = a / s o + b / s o'       l = m + log(s)
//
// Backward, from the final l, every step is the gradient of an ordinary
// attention with these keys; dk and dv travel with their keys and after n
// handovers they are home:
//
//   rank c, step r   adds to dk of rank (c - r) mod n, then hands it on
//
// Causal rings hold their positions in stripes: m pieces of n blocks, block c
// of each on rank c. Queries of stripe a then see, of any rank's keys, those of
// the stripes before a, and those of stripe a where j < c (of their own, j = c,
// those up to themselves). So every rank does the same share (m + 1) / 2m of
// the products in every step, on slices that do not depend on the rank:
//
//   stripe a   queries a, keys 0 .. a   the last block is hidden where j > c
//
// In general, which keys a query sees depends on c and r. Where all ranks see a
// whole block or nothing of it, that is one number per rank (0 or kHidden),
// added to the scores; the same holds for padding. kHidden is finite, so that a
// step which sees nothing has l' = kHidden and weight exp(kHidden - m) = 0
// instead of NaN.
//
//===----------------------------------------------------------------------===//
#include "passes/local/ExpandAttention.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace dpc {
namespace {

/// Added to scores of keys that a query does not see.
constexpr double kHidden = -1e30;

using Positions = std::vector<int64_t>;

/// What the queries of one rank see of the keys of another.
enum class Sight { all, none, upToOwn, mixed };

/// Queries that are taken together, and how many keys they see at most.
struct Stripe {
  int64_t first, length, keys;
};

/// What one step adds to the scores; neither when everything is seen.
struct StepMask {
  bool causal = false;
  Value mask;
};

/// What backward reads of the queries.
struct Saved {
  Value q, dout, lse, delta;
};

/// Sums so far; those of queries by stripe.
struct Gradients {
  SmallVector<Value> dq;
  Value dk, dv;
};

class RingExpander : public AttentionExpander {
public:
  RingExpander(Operation *op, MeshAttr mesh);
  LogicalResult run();

private:
  LogicalResult findAxis();
  void findPositions();
  void findStripes();
  bool sees(int64_t query, int64_t key) const {
    return key >= 0 && (!isCausal || query < 0 || key <= query);
  }
  Sight sightOf(const Positions &own, const Positions &other) const;
  StepMask maskOf(int64_t step);
  StepMask maskOf(int64_t step, const Stripe &stripe);
  Value table(ArrayRef<double> values, ArrayRef<int64_t> rows);
  Value visibility(int64_t step, ArrayRef<Sight> sights);
  Value maskByRank();
  Value userMask(int64_t step);
  Value addMasks(Value a, Value b);
  Value spread(Value value, ArrayRef<int64_t> shape);

  Value shift(Value value) {
    return tagged(RingShiftOp::create(builder, loc, value.getType(), value,
                                      builder.getArrayAttr({axisName})));
  }
  Value withoutPadding(Value value);
  /// Positions [first, first + count) of `value`, [B, heads, positions, ..].
  Value part(Value value, int64_t first, int64_t count);
  /// `value`, the first of `count` positions, with zeros behind.
  Value extended(Value value, int64_t count);
  Value joined(ArrayRef<Value> parts);
  void take(const Stripe &stripe) {
    queries = stripe.length;
    keys = stripe.keys;
  }
  Value weighted(Value out, Value weight);
  void attend(AttentionOp attention, int64_t step, const Stripe &stripe,
              Value q, Value k, Value v, std::pair<Value, Value> &sofar);
  void forward(AttentionOp attention);
  void attendBack(int64_t step, const Stripe &stripe, const Saved &saved,
                  Value k, Value v, Gradients &sums);
  void backward(AttentionGradOp grad);

  MeshAttr mesh;
  ShardingSpec global;
  StringAttr axisName;
  int64_t axis = -1, ranks = 1;
  bool isCausal;
  Value mask;
  FloatAttr scale;
  /// By rank: the position of each local query and key, -1 for padding.
  std::vector<Positions> positions;
  bool hasPadding = false;
  std::vector<Stripe> stripes;
};

} // namespace

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

RingExpander::RingExpander(Operation *op, MeshAttr mesh)
    : AttentionExpander(op), mesh(mesh),
      global(*ShardingSpec::get(cast<RankedTensorType>(
          op->getAttrOfType<TypeAttr>(attr::kGlobal).getValue()))),
      isCausal(op->hasAttr("causal")),
      scale(op->getAttrOfType<FloatAttr>("scale")) {
  if (auto attention = dyn_cast<AttentionOp>(op))
    mask = attention.getMask();
  else
    mask = cast<AttentionGradOp>(op).getMask();
}

//===----------------------------------------------------------------------===//
// Who holds which positions
//===----------------------------------------------------------------------===//

LogicalResult RingExpander::findAxis() {
  for (const Factor &factor : global.dims[2])
    for (int64_t split : factor.axes) {
      if (axis >= 0)
        return op->emitError("positions of a ring are split over one axis, "
                             "these over two: ")
               << op->getAttr(attr::kGlobal);
      axis = split;
    }
  axisName = mesh.getNames()[axis];
  ranks = mesh.getSizes()[axis];
  return success();
}

void RingExpander::findPositions() {
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Positions all = {0};
    for (const Factor &factor : global.dims[2]) {
      int64_t local = localFactorSize(mesh, factor.size, factor.axes);
      int64_t offset = factor.axes.empty() ? 0 : rank * local;
      Positions next;
      for (int64_t outer : all)
        for (int64_t i = 0; i < local; ++i) {
          bool isValid = outer >= 0 && offset + i < factor.size;
          next.push_back(isValid ? outer * factor.size + offset + i : -1);
        }
      all = std::move(next);
    }
    hasPadding |= llvm::is_contained(all, -1);
    positions.push_back(std::move(all));
  }
}

/// One stripe with everything unless positions lie in stripes (see above).
void RingExpander::findStripes() {
  int64_t length = queries;
  const DimFactors &factors = global.dims[2];
  if (isCausal && !mask && !hasPadding && factors.size() == 2 &&
      factors.front().axes.empty())
    length = factors.back().size / ranks;
  for (int64_t first = 0; first < queries; first += length)
    stripes.push_back({first, length, first + length});
}

Sight RingExpander::sightOf(const Positions &own,
                            const Positions &other) const {
  auto valid = [](int64_t position) { return position >= 0; };
  auto anyOwn = llvm::find_if(own, valid),
       anyOther = llvm::find_if(other, valid);
  if (anyOwn == own.end() || anyOther == other.end() || !isCausal)
    return Sight::all; // of what there is
  auto range = [](const Positions &list, int64_t first) {
    std::pair<int64_t, int64_t> range = {first, first};
    for (int64_t position : list)
      if (position >= 0)
        range = {std::min(range.first, position),
                 std::max(range.second, position)};
    return range;
  };
  auto [ownLow, ownHigh] = range(own, *anyOwn);
  auto [otherLow, otherHigh] = range(other, *anyOther);
  if (otherHigh <= ownLow && &own != &other)
    return Sight::all;
  if (otherLow > ownHigh)
    return Sight::none;
  // Padding stands behind all, where no valid query sees it.
  size_t count = llvm::find(own, -1) - own.begin();
  bool isSorted =
      std::is_sorted(own.begin(), own.begin() + count) &&
      std::all_of(own.begin() + count, own.end(), std::not_fn(valid));
  return &own == &other && isSorted ? Sight::upToOwn : Sight::mixed;
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// Row c of a constant [ranks, rows..] on rank c.
Value RingExpander::table(ArrayRef<double> values, ArrayRef<int64_t> rows) {
  SmallVector<int64_t> shape = {ranks};
  llvm::append_range(shape, rows);
  SmallVector<Attribute> attributes;
  for (double value : values)
    attributes.push_back(FloatAttr::get(element, value));
  Value whole = tagged(
      ConstantOp::create(builder, loc, tensor(shape),
                         DenseElementsAttr::get(tensor(shape), attributes)));
  return tagged(RankSliceOp::create(builder, loc, tensor(rows), whole,
                                    builder.getArrayAttr({axisName})));
}

/// `value`, of rank 4, repeated along its unit dimensions.
Value RingExpander::spread(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return tagged(BroadcastOp::create(builder, loc, tensor(shape), value,
                                    ArrayRef<int64_t>{0, 1, 2, 3}));
}

/// What is added to the scores of `step`, as [1, 1, 1 | T, S].
Value RingExpander::visibility(int64_t step, ArrayRef<Sight> sights) {
  double hidden = element.isF16() ? -3e4 : kHidden;
  bool byQuery = llvm::any_of(
      sights, [](Sight s) { return s == Sight::mixed || s == Sight::upToOwn; });
  bool byKey = byQuery || hasPadding;
  int64_t rows = byQuery ? queries : 1, columns = byKey ? keys : 1;
  SmallVector<double> values;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const Positions &own = positions[rank];
    const Positions &other = positions[(rank - step + ranks) % ranks];
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t s = 0; s < columns; ++s) {
        bool isSeen =
            byQuery ? sees(own[t], other[s])
                    : sights[rank] == Sight::all && (!byKey || other[s] >= 0);
        values.push_back(isSeen ? 0 : hidden);
      }
  }
  if (llvm::all_of(values, [](double value) { return value == 0; }))
    return {};
  Value own = reshape(table(values, {rows * columns}), {1, 1, rows, columns});
  return spread(own, {1, 1, rows, keys});
}

/// A mask [.., S] as [ranks, rows, keys]: the columns of each rank's keys.
Value RingExpander::maskByRank() {
  int64_t rows = 1, after = 1, whole = 1;
  for (int64_t size : shapeOf(mask).drop_back())
    rows *= size;
  for (const Factor &factor : global.dims[2]) {
    if (!factor.axes.empty())
      whole = factor.size;
    else
      (whole == 1 ? rows : after) *= factor.size;
  }
  int64_t local = ceilDiv(whole, ranks);
  SmallVector<int64_t> zeros(3, 0), ones(3, 1);
  // Rows of padding (of one query, all ranks' rows are alike) hold anything.
  Value own = shapeOf(mask)[2] == queries ? withoutPadding(mask) : mask;
  Value stack = reshape(own, {rows, whole, after});
  if (whole != ranks * local)
    stack =
        tagged(PadOp::create(builder, loc, tensor({rows, ranks * local, after}),
                             stack, zeros, ones));
  stack = reshape(stack, {rows, ranks, local * after});
  stack = tagged(TransposeOp::create(builder, loc,
                                     tensor({ranks, rows, local * after}),
                                     stack, ArrayRef<int64_t>{1, 0, 2}));
  return reshape(stack, {ranks, rows * local * after / keys, keys});
}

/// The columns of the mask that belong to the keys of `step`.
Value RingExpander::userMask(int64_t step) {
  if (!mask)
    return {};
  Value stack = maskByRank();
  int64_t rows = shapeOf(stack)[1];
  if (step > 0) {
    // Piece c of the turned stack is piece (c - step) mod ranks.
    auto part = [&](int64_t from, int64_t count) -> Value {
      return tagged(SliceOp::create(builder, loc, tensor({count, rows, keys}),
                                    stack, ArrayRef<int64_t>{from, 0, 0},
                                    ArrayRef<int64_t>{1, 1, 1}));
    };
    Value last = part(ranks - step, step), first = part(0, ranks - step);
    stack = tagged(ConcatOp::create(builder, loc, stack.getType(),
                                    ValueRange{last, first}, 0));
  }
  Value own =
      tagged(RankSliceOp::create(builder, loc, tensor({rows, keys}), stack,
                                 builder.getArrayAttr({axisName})));
  SmallVector<int64_t> shape(shapeOf(mask));
  shape[3] = keys;
  own = reshape(own, shape);
  // A block that is masked as a whole must have weight 0, not NaN.
  auto type = cast<RankedTensorType>(own.getType());
  Value least = tagged(ConstantOp::create(
      builder, loc, type,
      DenseElementsAttr::get(
          type, Attribute(FloatAttr::get(element,
                                         element.isF16() ? -3e4 : kHidden)))));
  return binary(BinaryKind::maximum, own, least);
}

Value RingExpander::addMasks(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  SmallVector<int64_t> shape;
  for (auto [x, y] : llvm::zip(shapeOf(a), shapeOf(b)))
    shape.push_back(std::max(x, y));
  return binary(BinaryKind::add, spread(a, shape), spread(b, shape));
}

StepMask RingExpander::maskOf(int64_t step) {
  SmallVector<Sight> sights;
  for (int64_t rank = 0; rank < ranks; ++rank)
    sights.push_back(
        sightOf(positions[rank], positions[(rank - step + ranks) % ranks]));
  StepMask result;
  result.mask = userMask(step);
  // Ranks that hold padding only (Sight::all) have nothing to hide.
  bool isDiagonal =
      isCausal && step == 0 && llvm::none_of(sights, [](Sight sight) {
        return sight == Sight::mixed || sight == Sight::none;
      });
  if (isDiagonal)
    result.causal = true;
  else
    result.mask = addMasks(result.mask, visibility(step, sights));
  return result;
}

StepMask RingExpander::maskOf(int64_t step, const Stripe &stripe) {
  if (stripes.size() == 1)
    return maskOf(step);
  StepMask result;
  if (step == 0) {
    result.causal = true;
    return result;
  }
  double hidden = element.isF16() ? -3e4 : kHidden;
  SmallVector<double> values;
  for (int64_t rank = 0; rank < ranks; ++rank)
    values.push_back(rank < step ? hidden : 0);
  Value last = spread(reshape(table(values, {1}), {1, 1, 1, 1}),
                      {1, 1, 1, stripe.length});
  SmallVector<int64_t> low = {0, 0, 0, stripe.first}, strides(4, 1);
  result.mask = tagged(PadOp::create(
      builder, loc, tensor({1, 1, 1, stripe.keys}), last, low, strides));
  return result;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Value RingExpander::part(Value value, int64_t first, int64_t count) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (count == shape[2])
    return value;
  shape[2] = count;
  SmallVector<int64_t> offsets(shape.size(), 0), strides(shape.size(), 1);
  offsets[2] = first;
  auto type = RankedTensorType::get(
      shape, cast<RankedTensorType>(value.getType()).getElementType());
  return tagged(SliceOp::create(builder, loc, type, value, offsets, strides));
}

Value RingExpander::extended(Value value, int64_t count) {
  SmallVector<int64_t> shape(shapeOf(value));
  if (count == shape[2])
    return value;
  shape[2] = count;
  SmallVector<int64_t> low(shape.size(), 0), strides(shape.size(), 1);
  return tagged(
      PadOp::create(builder, loc, tensor(shape), value, low, strides));
}

Value RingExpander::joined(ArrayRef<Value> parts) {
  if (parts.size() == 1)
    return parts.front();
  auto type = cast<RankedTensorType>(parts.front().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[2] *= parts.size();
  return tagged(ConcatOp::create(
      builder, loc, RankedTensorType::get(shape, type.getElementType()), parts,
      2));
}

/// `value`, [B, heads, positions, ..], with zeros at padded positions: keys
/// that are hidden must not be NaN, nor queries that gradients sum over.
Value RingExpander::withoutPadding(Value value) {
  if (!hasPadding)
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  ShardingSpec spec = ShardingSpec::replicated(mesh, type.getShape());
  spec.dims[2] = global.dims[2];
  RankedTensorType whole =
      getSharded(spec.globalShape(), type.getElementType(), spec.toAttr());
  return tagged(MaskOp::create(builder, loc, type, value,
                               builder.getF64FloatAttr(0),
                               TypeAttr::get(whole)));
}

/// `out` times one number per row.
Value RingExpander::weighted(Value out, Value weight) {
  auto type = RankedTensorType::get(shapeOf(out), element);
  Value wide =
      tagged(BroadcastOp::create(builder, loc, type, convert(weight, element),
                                 ArrayRef<int64_t>{0, 1, 2}));
  return binary(BinaryKind::mul, out, wide);
}

/// One step of one stripe, merged into the output and lse so far.
void RingExpander::attend(AttentionOp attention, int64_t step,
                          const Stripe &stripe, Value q, Value k, Value v,
                          std::pair<Value, Value> &sofar) {
  StepMask seen = maskOf(step, stripe);
  take(stripe);
  k = part(k, 0, keys);
  v = part(v, 0, keys);
  Value scores = unfold(
      matmul(fold(part(q, stripe.first, queries), depth), k, false, true),
      keys);
  auto lseType = RankedTensorType::get(
      {batch, heads, queries}, attention.getLse().getType().getElementType());
  auto probs = tagged(AttentionProbsOp::create(
      builder, loc, scores.getType(), lseType, scores, seen.mask, scale,
      seen.causal ? builder.getUnitAttr() : UnitAttr()));
  Value own =
      unfold(matmul(fold(probs.getProbs(), keys), v, false, false), valueDepth);
  auto &[out, lse] = sofar;
  if (!out) {
    sofar = {own, probs.getLse()};
    return;
  }
  Value ownLse = probs.getLse();
  Value high = binary(BinaryKind::maximum, lse, ownLse);
  Value a = unary(UnaryKind::exp, binary(BinaryKind::sub, lse, high));
  Value b = unary(UnaryKind::exp, binary(BinaryKind::sub, ownLse, high));
  Value sum = binary(BinaryKind::add, a, b);
  out = binary(BinaryKind::add, weighted(out, binary(BinaryKind::div, a, sum)),
               weighted(own, binary(BinaryKind::div, b, sum)));
  lse = binary(BinaryKind::add, high, unary(UnaryKind::log, sum));
}

void RingExpander::forward(AttentionOp attention) {
  Value q = withoutPadding(attention.getQ());
  Value k = withoutPadding(attention.getK());
  Value v = withoutPadding(attention.getV());
  Stripe whole{0, queries, keys};
  std::vector<std::pair<Value, Value>> results(stripes.size());
  for (int64_t step = 0; step < ranks; ++step) {
    bool isLast = step + 1 == ranks;
    // Under way while this step computes.
    Value nextK = isLast ? k : shift(k), nextV = isLast ? v : shift(v);
    for (auto [stripe, result] : llvm::zip(stripes, results)) {
      attend(attention, step, stripe, q, k, v, result);
      take(whole);
    }
    k = nextK;
    v = nextV;
  }
  SmallVector<Value> outs, sums;
  for (auto [out, lse] : results) {
    outs.push_back(out);
    sums.push_back(lse);
  }
  attention.replaceAllUsesWith(ValueRange{joined(outs), joined(sums)});
  attention.erase();
}

/// Adds one step of one stripe to the gradients of its queries and of the keys
/// that are here.
void RingExpander::attendBack(int64_t step, const Stripe &stripe,
                              const Saved &saved, Value k, Value v,
                              Gradients &sums) {
  StepMask seen = maskOf(step, stripe);
  int64_t all = keys;
  take(stripe);
  auto own = [&](Value value) { return part(value, stripe.first, queries); };
  auto addTo = [&](Value &sum, Value more) {
    sum = sum ? binary(BinaryKind::add, sum, more) : more;
  };
  k = part(k, 0, keys);
  v = part(v, 0, keys);
  Value q = fold(own(saved.q), depth), dout = fold(own(saved.dout), valueDepth);
  Value scores = unfold(matmul(q, k, false, true), keys);
  Value dprobs = unfold(matmul(dout, v, false, true), keys);
  auto rows = tagged(AttentionScoresGradOp::create(
      builder, loc, scores.getType(), scores.getType(), scores, own(saved.lse),
      dprobs, own(saved.delta), seen.mask, scale,
      seen.causal ? builder.getUnitAttr() : UnitAttr()));
  Value probs = fold(rows.getProbs(), keys);
  Value dscores = fold(rows.getDscores(), keys);
  addTo(sums.dq[&stripe - stripes.data()],
        unfold(matmul(dscores, k, false, false), depth));
  addTo(sums.dk, extended(matmul(dscores, q, true, false), all));
  addTo(sums.dv, extended(matmul(probs, dout, true, false), all));
}

void RingExpander::backward(AttentionGradOp grad) {
  Saved saved;
  saved.q = withoutPadding(grad.getQ());
  saved.dout = withoutPadding(grad.getDout());
  saved.lse = withoutPadding(grad.getLse());
  saved.delta = rowDot(saved.dout, withoutPadding(grad.getOut()),
                       cast<RankedTensorType>(saved.lse.getType()));
  Value k = withoutPadding(grad.getK()), v = withoutPadding(grad.getV());
  Stripe whole{0, queries, keys};
  Gradients sums;
  sums.dq.resize(stripes.size());
  for (int64_t step = 0; step < ranks; ++step) {
    bool isLast = step + 1 == ranks;
    Value nextK = isLast ? k : shift(k), nextV = isLast ? v : shift(v);
    for (const Stripe &stripe : stripes) {
      attendBack(step, stripe, saved, k, v, sums);
      take(whole);
    }
    k = nextK;
    v = nextV;
    sums.dk = shift(sums.dk);
    sums.dv = shift(sums.dv);
  }
  grad.replaceAllUsesWith(ValueRange{joined(sums.dq), sums.dk, sums.dv});
  grad.erase();
}

LogicalResult RingExpander::run() {
  if (failed(check()) || failed(findAxis()))
    return failure();
  findPositions();
  findStripes();
  if (auto attention = dyn_cast<AttentionOp>(op))
    forward(attention);
  else
    backward(cast<AttentionGradOp>(op));
  return success();
}

LogicalResult expandRing(Operation *op, MeshAttr mesh) {
  return RingExpander(op, mesh).run();
}

} // namespace dpc
