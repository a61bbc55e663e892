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

/// The format of floats of at most 8 bits.
static std::optional<rt::NarrowFloat> narrowFormat(Type type) {
  std::optional<rt::DType> dtype =
      isa_and_nonnull<FloatType>(type) ? dtypeOf(type) : std::nullopt;
  return dtype ? rt::narrowFloatOf(*dtype) : std::nullopt;
}

/// The signless integer that holds elements of `type`: a byte at least, unless
/// it is a boolean.
static Type signless(Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  return IntegerType::get(type.getContext(),
                          width > 1 && width < 8 ? 8 : width);
}

Type computeTypeOf(Value value) {
  Type type = cast<RankedTensorType>(value.getType()).getElementType();
  if (isa<IntegerType>(type))
    return signless(type);
  return isHalf(type) || narrowFormat(type)
             ? Float32Type::get(type.getContext())
             : type;
}

Type storageTypeOf(Type elementType) {
  if (elementType.isBF16())
    return IntegerType::get(elementType.getContext(), 16);
  if (narrowFormat(elementType) || elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  return isa<IntegerType>(elementType) ? signless(elementType) : elementType;
}

/// Vectorizing a loop that jumps through memory makes much code and little
/// speed: remembers the loop.
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

/// Buffers begin at multiples of 64 bytes; accesses of more than 16 do not pay.
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

/// Where an element lies, and to how many bytes that is aligned (0: as its
/// type asks for).
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

/// The f32 of stored bits of `half`. bf16 is the upper half of f32; written
/// with integers, it is vectorized everywhere.
static Value widen(KernelBuilder &b, Value element, Type half) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  if (auto format = narrowFormat(half))
    return b.math.decodeFloat(element, *format);
  if (half.isF16())
    return arith::ExtFOp::create(b, f32, element);
  Value bits = arith::ExtUIOp::create(b, i32, element);
  Value shift = arith::ConstantOp::create(b, b.getI32IntegerAttr(16));
  return arith::BitcastOp::create(b, f32,
                                  arith::ShLIOp::create(b, bits, shift));
}

/// To the nearest, ties to even. NaN stays NaN: its payload could carry over.
static Value round(KernelBuilder &b, Value scalar, Type half) {
  if (auto format = narrowFormat(half))
    return b.math.encodeFloat(scalar, *format);
  if (half.isF16())
    return arith::TruncFOp::create(b, half, scalar);
  if (b.target == KernelTarget::ptx) // one instruction
    return arith::BitcastOp::create(b, b.getIntegerType(16),
                                    arith::TruncFOp::create(b, half, scalar));
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  Value bits = arith::BitcastOp::create(b, b.getI32Type(), scalar);
  Value high = arith::ShRUIOp::create(b, bits, number(16));
  Value odd = arith::AndIOp::create(b, high, number(1));
  Value raised = arith::AddIOp::create(
      b, arith::AddIOp::create(b, bits, number(0x7FFF)), odd);
  Value rounded = arith::ShRUIOp::create(b, raised, number(16));
  Value isNan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, scalar, scalar);
  Value quiet = arith::OrIOp::create(b, high, number(0x40));
  return arith::TruncIOp::create(
      b, b.getIntegerType(16),
      arith::SelectOp::create(b, isNan, quiet, rounded));
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
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element,
                               b.math.constant(storage, 0));
}

void storeElement(KernelBuilder &b, Value scalar, const MemoryRef &memory,
                  ArrayRef<Index> indices) {
  Type stored = memory.element ? memory.element : scalar.getType();
  Type storage = storageTypeOf(stored);
  if (isHalf(stored) || narrowFormat(stored))
    scalar = round(b, scalar, stored);
  else if (storage != scalar.getType())
    scalar = arith::ExtUIOp::create(b, storage, scalar);
  auto [pointer, alignment] = address(b, memory, storage, indices);
  LLVM::StoreOp::create(b, scalar, pointer, alignment);
}

Value convertElement(KernelBuilder &b, Value x, Type from, Type to) {
  x = b.math.convertElement(x, from, to);
  // What cannot be told from its code must be one of its type's numbers.
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
  if (!isa<IntegerType>(type) || signless(type) == type)
    return value;
  unsigned width = signless(type).getIntOrFloatBitWidth();
  return cast<DenseIntElementsAttr>(value).mapValues(
      signless(type), [&](const APInt &number) {
        return isUnsigned(type) ? number.zextOrTrunc(width)
                                : number.sextOrTrunc(width);
      });
}

} // namespace dpc::codegen
