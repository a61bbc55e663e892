//===- Dropout.cpp - Random dropout of elements ---------------------------===//
#include "frontends/emit/Dropout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;

namespace dpc::frontend {

static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15,
                          kFirst = 0xBF58476D1CE4E5B9,
                          kSecond = 0x94D049BB133111EB;

/// Adds an argument with the step number to the function under construction.
static Value stepOf(Emitter &emit) {
  auto function =
      cast<func::FuncOp>(emit.builder.getInsertionBlock()->getParentOp());
  Builder &b = emit.builder;
  unsigned index = function.getNumArguments();
  auto attrs = b.getDictionaryAttr(
      {b.getNamedAttr(attr::kName, b.getStringAttr("step")),
       b.getNamedAttr(attr::kRole, b.getStringAttr(role::kScalar))});
  LogicalResult inserted =
      function.insertArgument(index, RankedTensorType::get({}, b.getF32Type()),
                              attrs, function.getLoc());
  assert(succeeded(inserted) && "an argument after all others");
  (void)inserted;
  return function.getArgument(index);
}

namespace {

/// Emits unsigned 64-bit arithmetic.
class Unsigned {
public:
  explicit Unsigned(Emitter &emit)
      : emit(emit), type(IntegerType::get(emit.builder.getContext(), 64,
                                          IntegerType::Unsigned)) {}

  Val of(Val x) { return emit.convert(x, type); }
  Val number(uint64_t value) {
    Scalar scalar;
    scalar.i = static_cast<int64_t>(value);
    return Val(ConstTensor::splat(type, {}, scalar));
  }
  Val add(Val x, Val y) { return emit.add(x, y); }
  Val mul(Val x, uint64_t y) { return emit.mul(x, number(y)); }
  /// x ^ x >> bits
  Val folded(Val x, unsigned bits) {
    return emit.logicalXor(x, emit.div(x, number(uint64_t(1) << bits)));
  }
  /// Computes mix(z) without its last shift.
  Val mixedHigh(Val z) {
    return mul(folded(mul(folded(z, 30), kFirst), 27), kSecond);
  }
  Val mixed(Val z) { return folded(mixedHigh(z), 31); }

private:
  Emitter &emit;
  Type type;
};

} // namespace

static Val nextKey(Emitter &emit) {
  Unsigned u(emit);
  Val from = emit.dropoutKey
                 ? u.add(Val(emit.dropoutKey), u.number(kGolden))
                 : u.add(u.mul(u.of(Val(stepOf(emit))), uint64_t(1) << 32),
                         u.number(static_cast<uint64_t>(emit.dropoutSeed)));
  Val key = u.mixed(from);
  emit.dropoutKey = key.value;
  return key;
}

/// Returns an unsigned number per element of `shape`. Its highest 31 bits are
/// random.
static Val drawBits(Emitter &emit, llvm::ArrayRef<int64_t> shape) {
  Unsigned u(emit);
  Val key = nextKey(emit);
  Val place = emit.reshape(u.of(emit.iota({numElements(shape)}, 0)), shape);
  Val from = u.add(u.mul(place, kGolden), u.add(key, u.number(kGolden)));
  return u.mixedHigh(from);
}

double activeDropout(Emitter &emit, double p) {
  if (!emit.evaluates || !(p > 0 && p <= 1))
    return p;
  emit.leftOutDropout = true;
  return 0;
}

void noteDropout(Emitter &emit, double p, bool trains) {
  if (p > 0)
    ++(trains ? emit.modes.dropoutsOn : emit.modes.dropoutsOff);
}

Val dropoutMask(Emitter &emit, llvm::ArrayRef<int64_t> shape, double p) {
  if (!(p >= 0 && p <= 1))
    return emit.fail("probability {0}; accepted: 0 to 1", std::to_string(p));
  int64_t count = numElements(shape);
  auto limit = static_cast<uint64_t>(std::ldexp(std::min(p, 0.5), 64));
  if (p > 0.5)
    limit += static_cast<uint64_t>(std::ldexp(p - 0.5, 64));
  if (p == 0 || p == 1 || count == 0)
    return emit.splat(p < 1, emit.boolean(), shape);
  return emit.ge(drawBits(emit, shape), Unsigned(emit).number(limit));
}

Val drawUniform(Emitter &emit, llvm::ArrayRef<int64_t> shape, Type element) {
  if (numElements(shape) == 0)
    return emit.splat(0, element, shape);
  // As many bits as the type holds, so that no number rounds to 1.
  unsigned bits = std::min(31u, cast<FloatType>(element).getFPMantissaWidth());
  Unsigned u(emit);
  Val high =
      emit.div(drawBits(emit, shape), u.number(uint64_t(1) << (64 - bits)));
  Val number = emit.convert(emit.convert(high, emit.i64()), element);
  return emit.mul(number, std::ldexp(1.0, -static_cast<int>(bits)));
}

/// The method of Box and Muller.
Val drawNormal(Emitter &emit, llvm::ArrayRef<int64_t> shape, Type element) {
  Type wide = element.isF64() ? element : emit.f32();
  Val radius = emit.sub(1, drawUniform(emit, shape, wide));
  Val angle = emit.mul(drawUniform(emit, shape, wide), 2 * M_PI);
  radius = emit.sqrt(emit.mul(emit.log(radius), -2));
  return emit.convert(emit.mul(radius, emit.cos(angle)), element);
}

Val drawIntegers(Emitter &emit, llvm::ArrayRef<int64_t> shape, int64_t limit) {
  if (numElements(shape) == 0)
    return emit.splat(0, emit.i64(), shape);
  Unsigned u(emit);
  Val high = emit.div(drawBits(emit, shape), u.number(uint64_t(1) << 33));
  Val scaled = u.mul(high, static_cast<uint64_t>(limit));
  return emit.convert(emit.div(scaled, u.number(uint64_t(1) << 31)),
                      emit.i64());
}

Val applyDropout(Emitter &emit, Val x, Val kept, double p) {
  if (!x || !kept)
    return {};
  if (p >= 1)
    return emit.splat(0, x.element(), x.shape());
  return emit.select(kept, emit.mul(x, 1 / (1 - p)), 0);
}

} // namespace dpc::frontend
