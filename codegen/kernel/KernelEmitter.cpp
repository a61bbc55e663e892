//===- KernelEmitter.cpp - Functions, memory and loops of a kernel --------===//
#include "codegen/kernel/KernelEmitter.h"
#include "codegen/kernel/KernelScalars.h"
#include "codegen/plan/PlanBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

KernelEmitter::KernelEmitter(OpBuilder &builder, const KernelSpec &spec,
                             StringRef symbol, KernelTarget target)
    : spec(spec), symbol(symbol.str()),
      b(UnknownLoc::get(builder.getContext()), builder),
      math(b, target != KernelTarget::cpu), target(target) {
  KernelOp kernel = this->spec.op;
  Operation *yield = kernel.getBody().front().getTerminator();
  yields.assign(yield->operand_begin(), yield->operand_end());
}

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

/// Booleans are bytes in memory, bf16 and narrower floats are handled as bits.
Type storageTypeOf(Type elementType) {
  if (elementType.isBF16())
    return IntegerType::get(elementType.getContext(), 16);
  if (narrowFormat(elementType) || elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  return isa<IntegerType>(elementType) ? signless(elementType) : elementType;
}

/// Pointers of all buffers, then scalars.
func::FuncOp KernelEmitter::emitImpl(const std::string &name) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  unsigned numInputs = spec.inputs.size();
  unsigned numBuffers =
      numInputs + spec.outputs.size() + (result.scratchBytes > 0 ? 1 : 0);
  unsigned numScalars = 0;
  for (Operation &op : spec.op.getBody().front())
    numScalars += scalarsOf(&op).size();
  // PTX 8.0 has 4096 bytes for the parameters of a kernel.
  constexpr unsigned kMaxParameters = 512;
  if (onGpu() && numBuffers + numScalars > kMaxParameters) {
    spec.op.emitOpError() << "has " << numBuffers << " buffers and "
                          << numScalars << " scalars; a kernel for GPUs takes "
                          << kMaxParameters << " together";
    failed = true;
  }
  SmallVector<Type> types(numBuffers, pointer);
  types.append(numScalars, b.getI64Type());
  auto impl = func::FuncOp::create(b, name, b.getFunctionType(types, {}));
  for (unsigned i = 0; i < numBuffers; ++i) {
    bool isOutput = i >= numInputs && i - numInputs < spec.outputs.size();
    bool shared =
        spec.overlaps || (isOutput && spec.aliases[i - numInputs] >= 0);
    // What other threads wrote may be read after a barrier: LLVM would take
    // `noalias` for a promise that a barrier changes nothing.
    bool isWrittenByThreads = onGpu() && i >= numInputs;
    if (!shared && !isWrittenByThreads)
      impl.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      b.getUnitAttr());
  }
  return impl;
}

// The code proper is in a function of its own, because only arguments can be
// `noalias`, and without it no loop is vectorized.
void KernelEmitter::emitEntry(func::FuncOp impl, const std::string &name) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  impl.setPrivate();
  auto entry =
      func::FuncOp::create(b, name, b.getFunctionType({pointer, pointer}, {}));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(entry.addEntryBlock());
  SmallVector<Value> arguments;
  int32_t numBuffers = llvm::count_if(
      impl.getArgumentTypes(), [&](Type type) { return type == pointer; });
  for (auto [i, type] : llvm::enumerate(impl.getArgumentTypes())) {
    bool isScalar = type != pointer;
    int32_t position = static_cast<int32_t>(i) - (isScalar ? numBuffers : 0);
    arguments.push_back(LLVM::LoadOp::create(
        b, type,
        LLVM::GEPOp::create(b, pointer, type, entry.getArgument(isScalar),
                            ArrayRef<LLVM::GEPArg>{position})));
  }
  func::CallOp::create(b, impl, arguments);
  func::ReturnOp::create(b);
}

void KernelEmitter::bindArguments(func::FuncOp impl) {
  unsigned next = 0;
  inputs.clear();
  outputs.clear();
  scalars.clear();
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  for (auto [operand, view] : llvm::zip_equal(spec.op.getInputs(), spec.inputs))
    inputs.push_back({impl.getArgument(next++), view, elementOf(operand)});
  for (auto [i, view] : llvm::enumerate(spec.outputs)) {
    // One pointer per memory: two names for it would break `noalias`.
    Value own = impl.getArgument(next++);
    int64_t alias = spec.aliases[i];
    outputs.push_back({alias >= 0 ? inputs[alias].pointer : own, view,
                       elementOf(spec.op.getOutputs()[i])});
  }
  if (result.scratchBytes > 0)
    scratch = impl.getArgument(next++);
  for (Operation &op : spec.op.getBody().front())
    for (unsigned i = 0, e = scalarsOf(&op).size(); i < e; ++i)
      scalars[&op].push_back(impl.getArgument(next++));
}

LogicalResult KernelEmitter::emitForCpu() {
  func::FuncOp impl = emitImpl(symbol + "_impl");
  emitEntry(impl, symbol);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(impl.addEntryBlock());
  bindArguments(impl);
  memos.emplace_back();
  LogicalResult emitted = success();
  Block &body = spec.op.getBody().front();
  if (Operation *rowOp = findRowOp(spec.op))
    emitted = emitRows(rowOp);
  else if (llvm::any_of(body, [](Operation &op) { return isReduction(&op); }))
    emitted = emitReductions();
  else
    emitted = emitElementwise();
  func::ReturnOp::create(b);
  annotateLoops(impl);
  result.stages.push_back({symbol, {}});
  return emitted;
}

FailureOr<EmittedKernel> KernelEmitter::emit() {
  if (onGpu()) {
    emitForGpu();
    finishStages();
  } else {
    failed |= mlir::failed(emitForCpu());
  }
  if (failed)
    return failure();
  return result;
}

/// Vectorizing a loop that jumps through memory makes much code and little
/// speed: remembers the loop.
void KernelEmitter::noteStride(const Index &linear) {
  Block *block = b.getInsertionBlock();
  bool inLoop = isa<scf::ForOp>(block->getParentOp());
  if (!inLoop)
    return;
  Value var = block->getArgument(0);
  if (Operation *def = linear.opaque ? linear.opaque.getDefiningOp() : nullptr;
      def && def->getBlock() == block)
    strided.insert(block);
  for (auto [d, c] : llvm::enumerate(linear.coefs))
    if (space.var(d) == var && std::abs(c) > 1)
      strided.insert(block);
}

/// Keeps LLVM from vectorizing loops that jump.
void KernelEmitter::annotateLoops(func::FuncOp function) {
  MLIRContext *context = b.getContext();
  BoolAttr yes = b.getBoolAttr(true);
  auto vectorize =
      LLVM::LoopVectorizeAttr::get(context, yes, {}, {}, {}, {}, {}, {});
  function.walk([&](scf::ForOp loop) {
    if (!strided.contains(loop.getBody()))
      return;
    loop->setAttr("llvm.loop_annotation",
                  LLVM::LoopAnnotationAttr::get(
                      context, /*disableNonforced=*/{}, vectorize,
                      /*interleave=*/{}, /*unroll=*/{},
                      /*unrollAndJam=*/{},
                      /*licm=*/{}, /*distribute=*/{}, /*pipeline=*/{},
                      /*peeled=*/{}, /*unswitch=*/{}, /*mustProgress=*/{},
                      /*isVectorized=*/{}, /*startLoc=*/{}, /*endLoc=*/{},
                      /*parallelAccesses=*/{}));
  });
}

/// Buffers begin at multiples of 64 bytes; accesses of more than 16 do not pay.
unsigned KernelEmitter::alignmentOf(const Index &linear, Type storage) const {
  int64_t step = linear.constant;
  if (linear.isOpaque)
    step = std::gcd(step, linear.multiple);
  for (auto [d, c] : llvm::enumerate(linear.coefs))
    if (c != 0 && space.var(d))
      step = std::gcd(step, c * space.multiple(d));
  int64_t bytes = storage.getIntOrFloatBitWidth() / 8;
  return std::gcd<int64_t>(16, step * bytes);
}

std::pair<Value, unsigned> KernelEmitter::address(const MemoryRef &memory,
                                                  Type storage,
                                                  ArrayRef<Index> indices) {
  Index linear = LoopSpace::linearize(&b, indices, memory.view.strides,
                                      memory.view.offset);
  noteStride(linear);
  Value position = space.materialize(b, linear);
  Value pointer =
      LLVM::GEPOp::create(b, memory.pointer.getType(), storage, memory.pointer,
                          ValueRange{position}, LLVM::GEPNoWrapFlags::inbounds);
  return {pointer, onGpu() ? alignmentOf(linear, storage) : 0};
}

/// The f32 of stored bits of `half`. bf16 is the upper half of f32; written
/// with integers, it is vectorized everywhere.
Value KernelEmitter::widen(Value element, Type half) {
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  if (auto format = narrowFormat(half))
    return math.decodeFloat(element, *format);
  if (half.isF16())
    return arith::ExtFOp::create(b, f32, element);
  Value bits = arith::ExtUIOp::create(b, i32, element);
  Value shift = arith::ConstantOp::create(b, b.getI32IntegerAttr(16));
  return arith::BitcastOp::create(b, f32,
                                  arith::ShLIOp::create(b, bits, shift));
}

/// To the nearest, ties to even. NaN stays NaN: its payload could carry over.
Value KernelEmitter::round(Value scalar, Type half) {
  if (auto format = narrowFormat(half))
    return math.encodeFloat(scalar, *format);
  if (half.isF16())
    return arith::TruncFOp::create(b, half, scalar);
  if (target == KernelTarget::ptx) // one instruction
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

Value KernelEmitter::load(const MemoryRef &memory, Type elementType,
                          ArrayRef<Index> indices) {
  Type stored = memory.element ? memory.element : elementType;
  Type storage = storageTypeOf(stored);
  if (needsBarrier && !inPhase)
    barrier();
  auto [pointer, alignment] = address(memory, storage, indices);
  Value element = LLVM::LoadOp::create(b, storage, pointer, alignment);
  if (isHalf(stored) || narrowFormat(stored))
    return widen(element, stored);
  if (storage == elementType)
    return element;
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, element,
                               math.constant(storage, 0));
}

void KernelEmitter::store(Value scalar, const MemoryRef &memory,
                          ArrayRef<Index> indices) {
  if (deferred) {
    deferred->push_back({scalar, memory, Indices(indices)});
    return;
  }
  hasStored = true;
  Type stored = memory.element ? memory.element : scalar.getType();
  Type storage = storageTypeOf(stored);
  if (isHalf(stored) || narrowFormat(stored))
    scalar = round(scalar, stored);
  else if (storage != scalar.getType())
    scalar = arith::ExtUIOp::create(b, storage, scalar);
  auto [pointer, alignment] = address(memory, storage, indices);
  LLVM::StoreOp::create(b, scalar, pointer, alignment);
}

/// A constant with elements as they are computed with.
static DenseElementsAttr computedElements(DenseElementsAttr value) {
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

Value KernelEmitter::loadConstant(ConstantOp op, ArrayRef<Index> indices) {
  DenseElementsAttr value =
      computedElements(cast<DenseElementsAttr>(op.getValue()));
  Type elementType = value.getElementType();
  if (value.isSplat()) {
    if (auto type = dyn_cast<FloatType>(elementType))
      return arith::ConstantOp::create(
          b, b.getFloatAttr(type, value.getSplatValue<APFloat>()));
    return arith::ConstantOp::create(
        b, b.getIntegerAttr(elementType, value.getSplatValue<APInt>()));
  }
  auto type = cast<RankedTensorType>(value.getType());
  Type storage = storageTypeOf(elementType);
  if (storage != elementType)
    value = cast<DenseIntElementsAttr>(value).mapValues(
        storage, [](const APInt &bit) { return bit.zext(8); });
  value = value.reshape(RankedTensorType::get(type.getNumElements(), storage));
  auto function = b.getBlock()->getParent()->getParentOfType<func::FuncOp>();
  Operation *self = op.getOperation();
  std::string name = symbol + "_c" +
                     std::to_string(std::distance(self->getBlock()->begin(),
                                                  Block::iterator(self)));
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    LLVM::GlobalOp::create(
        b, LLVM::LLVMArrayType::get(storage, type.getNumElements()),
        /*isConstant=*/true, LLVM::Linkage::Internal, name, value,
        /*alignment=*/64);
  }
  MemoryRef memory{LLVM::AddressOfOp::create(
                       b, LLVM::LLVMPointerType::get(b.getContext()), name),
                   StridedView::dense(type.getShape()), Type()};
  return load(memory, elementType, indices);
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelEmitter::foldLoop(Value upper, ValueRange init,
                                           const FoldBody &body) {
  Value zero = constantI64(b, 0);
  if (auto size = upper.getDefiningOp<arith::ConstantOp>();
      size && cast<IntegerAttr>(size.getValue()).getInt() == 1)
    return body(zero, init);
  return stepLoop(zero, upper, 1, init, body);
}

SmallVector<Value> KernelEmitter::stepLoop(Value lower, Value upper,
                                           int64_t step, ValueRange init,
                                           const FoldBody &body) {
  auto loop = scf::ForOp::create(b, lower, upper, constantI64(b, step), init);
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  if (!block->empty() && block->back().hasTrait<mlir::OpTrait::IsTerminator>())
    block->back().erase();
  b.setInsertionPointToEnd(block);
  memos.emplace_back();
  SmallVector<Value> next =
      body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, next);
  memos.pop_back();
  return {loop.getResults().begin(), loop.getResults().end()};
}

void KernelEmitter::forLoop(int64_t size, const LoopBody &body) {
  foldLoop(constantI64(b, size), {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

SmallVector<Value> KernelEmitter::spaceFold(
    int64_t size, ValueRange init,
    const std::function<SmallVector<Value>(Index, ValueRange)> &body) {
  return foldLoop(constantI64(b, size), init, [&](Value i, ValueRange carried) {
    int64_t loop = space.push(size, i);
    SmallVector<Value> next = body(space.loop(loop), carried);
    space.pop();
    return next;
  });
}

void KernelEmitter::spaceLoop(int64_t size,
                              const std::function<void(Index)> &body) {
  spaceFold(size, {}, [&](Index i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

void KernelEmitter::spaceLoops(ArrayRef<int64_t> sizes, Indices &indices,
                               const std::function<void()> &body) {
  if (sizes.empty())
    return body();
  spaceLoop(sizes.front(), [&](Index i) {
    indices.push_back(i);
    spaceLoops(sizes.drop_front(), indices, body);
    indices.pop_back();
  });
}

} // namespace dpc::codegen
