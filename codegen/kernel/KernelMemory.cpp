//===- KernelMemory.cpp - Elements in memory ------------------------------===//
#include "codegen/kernel/KernelMemory.h"
#include "codegen/kernel/DTypes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

static bool isHalf(Type type) {
  return type && (type.isBF16() || type.isF16());
}

static std::optional<rt::NarrowFloat> narrowFormat(Type type) {
  std::optional<rt::DType> dtype =
      isa_and_nonnull<FloatType>(type) ? dtypeOf(type) : std::nullopt;
  return dtype ? rt::narrowFloatOf(*dtype) : std::nullopt;
}

Type computeTypeOf(Value value) {
  Type type = elementTypeOf(value);
  if (isa<IntegerType>(type))
    return computedInteger(type);
  return isHalf(type) || narrowFormat(type)
             ? Float32Type::get(type.getContext())
             : type;
}

Type storageTypeOf(Type elementType) {
  if (elementType.isBF16())
    return IntegerType::get(elementType.getContext(), 16);
  if (narrowFormat(elementType) || elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  return isa<IntegerType>(elementType) ? computedInteger(elementType)
                                       : elementType;
}

/// Records the enclosing loop for annotateLoops() if the access at `linear` is
/// strided in this loop.
static void noteStride(KernelBuilder &b, const Index &linear) {
  Block *block = b.getInsertionBlock();
  bool inLoop = isa<scf::ForOp>(block->getParentOp());
  if (!inLoop)
    return;
  Value var = block->getArgument(0);
  if (Operation *def = linear.opaque ? linear.opaque.getDefiningOp() : nullptr;
      def && def->getBlock() == block)
    b.strided.insert(block);
  for (auto [d, c] : llvm::enumerate(linear.coefs))
    if (b.space.var(d) == var && std::abs(c) > 1)
      b.strided.insert(block);
}

/// Returns the alignment of an access in bytes. Buffers begin at multiples of
/// 64 bytes; alignments above 16 bytes do not help.
static unsigned alignmentOf(const KernelBuilder &b, const Index &linear,
                            Type storage) {
  int64_t step = linear.constant;
  if (linear.isOpaque)
    step = std::gcd(step, linear.multiple);
  for (auto [d, c] : llvm::enumerate(linear.coefs))
    if (c != 0 && b.space.var(d))
      step = std::gcd(step, c * b.space.multiple(d));
  int64_t bytes = storage.getIntOrFloatBitWidth() / 8;
  return std::gcd<int64_t>(16, step * bytes);
}

/// Returns the address and its alignment in bytes, or 0 for that of the type.
static std::pair<Value, unsigned> address(KernelBuilder &b,
                                          const MemoryRef &memory, Type storage,
                                          ArrayRef<Index> indices) {
  Index linear = LoopSpace::linearize(&b, indices, memory.view.strides,
                                      memory.view.offset);
  noteStride(b, linear);
  Value position = b.space.materialize(b, linear);
  Value pointer =
      LLVM::GEPOp::create(b, memory.pointer.getType(), storage, memory.pointer,
                          ValueRange{position}, LLVM::GEPNoWrapFlags::inbounds);
  return {pointer, b.isForGpu() ? alignmentOf(b, linear, storage) : 0};
}

/// Converts the stored bits of `half` to f32. The bits of a bf16 number are the
/// upper half of an f32 number. Integer code for this conversion is vectorized
/// on every CPU.
static Value widen(KernelBuilder &b, Value element, Type half) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  if (auto format = narrowFormat(half))
    return b.math.decodeFloat(element, *format);
  if (half.isF16())
    return arith::ExtFOp::create(b, f32, element);
  Value bits = extendU(b, i32, element);
  Value shift = constantI32(b, 16);
  return bitcast(b, f32, shiftLeft(b, bits, shift));
}

/// Rounds to the nearest value, ties to even. Handles NaN separately, because
/// adding to the payload of a NaN could overflow.
static Value round(KernelBuilder &b, Value scalar, Type half) {
  if (auto format = narrowFormat(half))
    return b.math.encodeFloat(scalar, *format);
  if (half.isF16())
    return arith::TruncFOp::create(b, half, scalar);
  if (b.target == KernelTarget::ptx) // one instruction
    return bitcast(b, b.getIntegerType(16),
                   arith::TruncFOp::create(b, half, scalar));
  Value bits = bitcast(b, b.getI32Type(), scalar);
  Value high = shiftRightU(b, bits, 16);
  Value odd = andI(b, high, 1);
  Value raised = addI(b, addI(b, bits, 0x7FFF), odd);
  Value rounded = shiftRightU(b, raised, 16);
  Value isNan = cmp(b, FloatPredicate::UNO, scalar, scalar);
  Value quiet = orI(b, high, 0x40);
  return truncate(b, b.getIntegerType(16), select(b, isNan, quiet, rounded));
}

Value loadElement(KernelBuilder &b, const MemoryRef &memory, Type elementType,
                  ArrayRef<Index> indices) {
  Type stored = memory.element ? memory.element : elementType;
  Type storage = storageTypeOf(stored);
  auto [pointer, alignment] = address(b, memory, storage, indices);
  Value element = LLVM::LoadOp::create(b, storage, pointer, alignment);
  if (isHalf(stored) || narrowFormat(stored))
    return widen(b, element, stored);
  if (storage == elementType)
    return element;
  return cmp(b, IntPredicate::ne, element, b.math.constant(storage, 0));
}

void storeElement(KernelBuilder &b, Value scalar, const MemoryRef &memory,
                  ArrayRef<Index> indices) {
  Type stored = memory.element ? memory.element : scalar.getType();
  Type storage = storageTypeOf(stored);
  if (isHalf(stored) || narrowFormat(stored))
    scalar = round(b, scalar, stored);
  else if (storage != scalar.getType())
    scalar = extendU(b, storage, scalar);
  auto [pointer, alignment] = address(b, memory, storage, indices);
  LLVM::StoreOp::create(b, scalar, pointer, alignment);
}

Value convertElement(KernelBuilder &b, Value x, Type from, Type to) {
  x = b.math.convertElement(x, from, to);
  // Rounds the result to a value that the narrow type can represent.
  bool isNarrow = isa<FloatType>(to) && to.getIntOrFloatBitWidth() < 16;
  return isNarrow ? widen(b, round(b, x, to), to) : x;
}

DenseElementsAttr computedElements(DenseElementsAttr value) {
  Type type = value.getElementType();
  if (isHalf(type) || narrowFormat(type))
    return cast<DenseFPElementsAttr>(value).mapValues(
        Float32Type::get(type.getContext()), [](const APFloat &number) {
          APFloat wide = number;
          bool inexact = false;
          wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven,
                       &inexact);
          return wide.bitcastToAPInt();
        });
  if (!isa<IntegerType>(type) || computedInteger(type) == type)
    return value;
  unsigned width = computedInteger(type).getIntOrFloatBitWidth();
  return cast<DenseIntElementsAttr>(value).mapValues(
      computedInteger(type), [&](const APInt &number) {
        return isUnsigned(type) ? number.zextOrTrunc(width)
                                : number.sextOrTrunc(width);
      });
}

} // namespace dpc::codegen
