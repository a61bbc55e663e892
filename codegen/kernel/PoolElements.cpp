//===- PoolElements.cpp - Elements of pools and their gradients -----------===//
#include "codegen/kernel/ElementEmitter.h"

using namespace mlir;

namespace dpc::codegen {

using TapBody = llvm::function_ref<Values(ArrayRef<Value>, ValueRange)>;

/// Emits loops over the taps of a window, in row-major order, that carry values
/// through `body`.
static Values foldTaps(ElementEmitter &b, ArrayRef<int64_t> kernel,
                       Values &taps, ValueRange init, TapBody body) {
  if (taps.size() == kernel.size())
    return body(taps, init);
  return b.foldLoop(constantI64(b, kernel[taps.size()]), init,
                    [&](Value tap, ValueRange carried) {
                      taps.push_back(tap);
                      auto next = foldTaps(b, kernel, taps, carried, body);
                      taps.pop_back();
                      return next;
                    });
}

static Value both(ElementEmitter &b, Value x, Value y) {
  return x ? andI(b, x, y) : y;
}

/// 0 <= x < size, as one unsigned comparison.
static Value isInside(ElementEmitter &b, Value x, int64_t size) {
  return cmp(b, IntPredicate::ult, x, size);
}

/// 0 is always a valid index.
static Value orZero(ElementEmitter &b, Value condition, Value x) {
  return select(b, condition, x, constantI64(b, 0));
}

// The loop finds both results of the op. The result that is not returned is
// remembered for later use at the same indices.
Value maxPoolAt(ElementEmitter &b, MaxPoolOp op, unsigned result,
                ArrayRef<Index> indices) {
  ArrayRef<int64_t> image = shapeOf(op.getX()).drop_front(2);
  Type type = elementTypeOf(op.getX());
  Values windows, taps;
  for (auto [d, index] : llvm::enumerate(indices.drop_front(2)))
    windows.push_back(
        subI(b, mulI(b, b.space.materialize(b, index), op.getStrides()[d]),
             op.getPads()[d]));
  Value lowest = b.math.neutral(ReduceKind::max, type);
  auto found = foldTaps(
      b, op.getKernel(), taps, ValueRange{lowest, constantI64(b, -1)},
      [&](ArrayRef<Value> tap, ValueRange best) {
        Indices place(indices.take_front(2));
        Value inside, position = constantI64(b, 0);
        for (size_t d = 0; d < image.size(); ++d) {
          Value i = addI(b, windows[d], mulI(b, tap[d], op.getDilations()[d]));
          Value valid = isInside(b, i, image[d]);
          inside = both(b, inside, valid);
          i = orZero(b, valid, i);
          position = addI(b, mulI(b, position, image[d]), i);
          place.push_back(LoopSpace::opaque(i));
        }
        Value x = b.at(op.getX(), place);
        // The first element, a NaN and an element above the best one win.
        Value larger = cmp(b, FloatPredicate::OGT, x, best[0]);
        Value isNan = cmp(b, FloatPredicate::UNO, x, x);
        Value first = cmp(b, IntPredicate::slt, best[1], 0);
        Value wins = orI(b, orI(b, larger, isNan), first);
        wins = andI(b, wins, inside);
        return Values{select(b, wins, x, best[0]),
                      select(b, wins, position, best[1])};
      });
  Value both[] = {found[0],
                  b.math.convert(found[1], elementTypeOf(op.getIndex()))};
  unsigned other = 1 - result;
  b.remember(op->getResult(other), indices, both[other]);
  return both[result];
}

Value maxPoolGradAt(ElementEmitter &b, MaxPoolGradOp op,
                    ArrayRef<Index> indices) {
  ArrayRef<int64_t> windows = shapeOf(op.getDy()).drop_front(2);
  ArrayRef<int64_t> image = shapeOf(op.getDx()).drop_front(2);
  Type type = elementTypeOf(op.getDx());
  Values places, taps;
  Value own = constantI64(b, 0);
  for (auto [d, index] : llvm::enumerate(indices.drop_front(2))) {
    Value i = b.space.materialize(b, index);
    own = addI(b, mulI(b, own, image[d]), i);
    places.push_back(addI(b, i, op.getPads()[d]));
  }
  Value none = b.math.constant(type, 0);
  return foldTaps(
      b, op.getKernel(), taps, ValueRange{none},
      [&](ArrayRef<Value> tap, ValueRange sum) {
        Indices place(indices.take_front(2));
        Value reads;
        for (size_t d = 0; d < windows.size(); ++d) {
          // Tap `tap` is in window (place - tap * dilation) / stride.
          Value begin =
              subI(b, places[d], mulI(b, tap[d], op.getDilations()[d]));
          int64_t stride = op.getStrides()[d];
          Value window = begin;
          if (stride != 1) {
            Value rest = remS(b, begin, stride);
            reads = both(b, reads, cmp(b, IntPredicate::eq, rest, 0));
            window = divS(b, begin, stride);
          }
          // -1 / 2 truncates to window 0, but the remainder excludes it.
          Value valid = isInside(b, window, windows[d]);
          reads = both(b, reads, valid);
          place.push_back(LoopSpace::opaque(orZero(b, valid, window)));
        }
        Value index =
            b.math.convert(b.at(op.getIndex(), place), b.getI64Type());
        Value chosen = andI(b, reads, cmp(b, IntPredicate::eq, index, own));
        Value share = select(b, chosen, b.at(op.getDy(), place), none);
        return Values{b.math.add(sum[0], share)};
      })[0];
}

} // namespace dpc::codegen
