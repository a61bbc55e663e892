//===- GpuThreads.cpp - Stages, teams, phases and folds -------------------===//
//
// See GpuKernel.h for the terms and what holds.
//
//===----------------------------------------------------------------------===//
#include "codegen/kernel/KernelEmitter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/BitVector.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

static constexpr const char *kSharedMemory = "dpc_shared";

namespace {

struct Touch {
  bool reads = false, writes = false;
};

} // namespace

TeamShape teamFor(int64_t size, int64_t width) {
  // Registers are shared by the threads of a block: not too many.
  constexpr int64_t kMaxThreads = 512;
  int64_t vectors = std::max<int64_t>(1, (size + width - 1) / width);
  if (vectors <= kWarp)
    return {kWarp, kBlock / kWarp};
  int64_t passes = (vectors + kMaxThreads - 1) / kMaxThreads;
  int64_t threads = (vectors + passes - 1) / passes;
  return {(threads + kWarp - 1) / kWarp * kWarp, 1};
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

void KernelEmitter::emitStage(int64_t teams, TeamShape shape,
                              const LoopBody &body) {
  size_t number = result.stages.size();
  std::string name =
      number == 0 ? symbol : symbol + "_" + std::to_string(number);
  bool isPtx = target == KernelTarget::ptx;
  std::string impl = isPtx ? name : name + "_impl";
  bool isGroup = !spec.groupSizes.empty();
  function = isGroup ? emitGroupImpl(impl) : emitImpl(impl);
  functions.push_back(function);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(function.addEntryBlock());
  if (!isGroup)
    bindArguments(function);
  stored.clear();
  computed.clear();
  for (unsigned i : storedResults)
    stored[yields[i]] = outputs[i];
  memos.assign(1, Memo());
  team = shape;
  sharedBytes = 0;
  inPhase = hasStored = needsBarrier = false;
  emitTeams(teams, body);
  func::ReturnOp::create(b);
  int64_t blocks =
      std::max<int64_t>(1, (teams + shape.perBlock - 1) / shape.perBlock);
  result.stages.push_back(
      {name, {blocks, shape.threads * shape.perBlock, sharedBytes}});
}

/// Which kinds of accesses there are through a pointer.
static Touch touchOf(Value pointer) {
  Touch touch;
  for (Operation *user : pointer.getUsers()) {
    Touch more{true, true};
    if (isa<LLVM::GEPOp>(user))
      more = touchOf(user->getResult(0));
    else if (isa<LLVM::LoadOp>(user))
      more = {true, false};
    else if (auto store = dyn_cast<LLVM::StoreOp>(user))
      more = {store.getValue() == pointer, true};
    touch.reads |= more.reads;
    touch.writes |= more.writes;
  }
  return touch;
}

/// Takes results and scratch memory out of the parameters of a stage that does
/// not touch them: in the plan it then writes what it stores, and nothing else.
void KernelEmitter::dropUntouched(func::FuncOp impl, KernelStage &stage) {
  unsigned numInputs = spec.inputs.size();
  unsigned numBuffers =
      numInputs + spec.outputs.size() + (result.scratchBytes > 0 ? 1 : 0);
  llvm::BitVector dropped(impl.getNumArguments());
  for (unsigned i = 0; i < numBuffers; ++i) {
    bool isOutput = i >= numInputs && i - numInputs < spec.outputs.size();
    int64_t alias = isOutput ? spec.aliases[i - numInputs] : -1;
    Touch touch = touchOf(impl.getArgument(alias >= 0 ? alias : i));
    bool isWritten = i >= numInputs && touch.writes;
    // An aliased one that is read is among the operands.
    bool isRead = i < numInputs || (alias < 0 && touch.reads);
    if (!isRead && !isWritten) {
      dropped.set(i);
      continue;
    }
    if (isWritten)
      stage.writes.push_back(static_cast<int>(stage.buffers.size()));
    stage.buffers.push_back(static_cast<int>(i));
  }
  [[maybe_unused]] LogicalResult erased = impl.eraseArguments(dropped);
  assert(succeeded(erased) && "nothing uses them");
}

void KernelEmitter::finishStages() {
  for (auto [impl, stage] : llvm::zip_equal(functions, result.stages)) {
    if (functions.size() > 1)
      dropUntouched(impl, stage);
    if (target == KernelTarget::emulation)
      emitEntry(impl, stage.symbol);
  }
}

void KernelEmitter::emitTeams(int64_t teams, const LoopBody &body) {
  if (target == KernelTarget::emulation) {
    stepLoop(constantI64(b, 0), constantI64(b, teams), 1, {},
             [&](Value number, ValueRange) {
               body(number);
               return SmallVector<Value>();
             });
    return;
  }
  auto read = [&](StringRef name) {
    Value number = intrinsic(b.getI32Type(),
                             ("llvm.nvvm.read.ptx.sreg." + name).str(), {});
    return number;
  };
  Type i64 = b.getI64Type();
  Value block = arith::ExtUIOp::create(b, i64, read("ctaid.x"));
  Value thread = read("tid.x");
  if (team.perBlock == 1) {
    threadOfTeam = arith::ExtUIOp::create(b, i64, thread);
    return teams > 0 ? body(block) : void();
  }
  Value size = arith::ConstantOp::create(b, b.getI32IntegerAttr(team.threads));
  threadOfTeam =
      arith::ExtUIOp::create(b, i64, arith::RemUIOp::create(b, thread, size));
  Value inBlock =
      arith::ExtUIOp::create(b, i64, arith::DivUIOp::create(b, thread, size));
  Value number = arith::AddIOp::create(
      b, arith::MulIOp::create(b, block, constantI64(b, team.perBlock)),
      inBlock);
  whenBelow(number, teams, [&] { body(number); });
}

void KernelEmitter::when(Value condition, const std::function<void()> &body) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&branch.getThenRegion().front());
  memos.emplace_back();
  body();
  memos.pop_back();
}

void KernelEmitter::whenBelow(Value number, int64_t limit,
                              const std::function<void()> &body) {
  when(arith::CmpIOp::create(b, arith::CmpIPredicate::slt, number,
                             constantI64(b, limit)),
       body);
}

Value KernelEmitter::intrinsic(Type type, StringRef name,
                               ValueRange arguments) {
  if (!type) {
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), arguments);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name),
                                       arguments)
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Phases and folds
//===----------------------------------------------------------------------===//

/// All threads of the team see what they stored.
void KernelEmitter::barrier() {
  needsBarrier = hasStored = false;
  if (target != KernelTarget::ptx || team.threads == 1)
    return;
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  if (team.threads == kWarp)
    intrinsic({}, "llvm.nvvm.bar.warp.sync", number(-1));
  else
    intrinsic({}, "llvm.nvvm.barrier.cta.sync.aligned.all", number(0));
}

void KernelEmitter::phase(const LoopBody &body) {
  assert(!inPhase && "phases do not nest");
  if (needsBarrier)
    barrier();
  inPhase = true;
  memos.emplace_back();
  if (target == KernelTarget::ptx)
    body(threadOfTeam);
  else
    forLoop(team.threads, body);
  memos.pop_back();
  inPhase = false;
  needsBarrier = hasStored;
}

void KernelEmitter::once(const std::function<void()> &body) {
  if (!onGpu() || inPhase)
    return body();
  if (needsBarrier)
    barrier();
  inPhase = true;
  if (target == KernelTarget::ptx && team.threads > 1)
    whenBelow(threadOfTeam, 1, body);
  else
    body();
  inPhase = false;
  needsBarrier = hasStored;
}

KernelEmitter::Combine KernelEmitter::accumulation(ArrayRef<ReduceKind> kinds) {
  SmallVector<ReduceKind> copy(kinds);
  return [this, copy](ValueRange x, ValueRange y) {
    SmallVector<Value> sums;
    for (auto [kind, a, c] : llvm::zip_equal(copy, x, y))
      sums.push_back(math.accumulate(kind, a, c));
    return sums;
  };
}

SmallVector<Value> KernelEmitter::fold(ArrayRef<Type> types,
                                       const Combine &combine,
                                       const ThreadBody &body) {
  assert(!inPhase && "folds are between phases");
  if (needsBarrier)
    barrier();
  inPhase = true;
  SmallVector<Value> values;
  memos.emplace_back();
  if (target == KernelTarget::ptx || team.threads == 1) {
    values =
        body(target == KernelTarget::ptx ? threadOfTeam : constantI64(b, 0));
    memos.pop_back();
    inPhase = false;
    needsBarrier = hasStored;
    return combineThreads(values, combine);
  }
  SmallVector<Value> arrays;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  for (Type type : types) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    arrays.push_back(
        LLVM::AllocaOp::create(b, pointer, type, constantI64(b, team.threads)));
  }
  forLoop(team.threads, [&](Value thread) {
    for (auto [value, array] : llvm::zip_equal(body(thread), arrays))
      LLVM::StoreOp::create(b, value,
                            LLVM::GEPOp::create(b, pointer, value.getType(),
                                                array, ValueRange{thread}));
  });
  memos.pop_back();
  inPhase = hasStored = false;
  return combineArrays(arrays, types, combine);
}

/// The value of the thread whose number differs in the bit `distance`.
Value KernelEmitter::shuffle(Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bits = b.getIntegerType(width);
  if (type != bits)
    value = arith::BitcastOp::create(b, bits, value);
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(n)));
  };
  auto exchange = [&](Value word) {
    return intrinsic(i32, "llvm.nvvm.shfl.sync.bfly.i32",
                     {number(-1), word, number(distance), number(31)});
  };
  if (width == 64) {
    Value half = constantI64(b, 32);
    Value low = exchange(arith::TruncIOp::create(b, i32, value));
    Value high = exchange(arith::TruncIOp::create(
        b, i32, arith::ShRUIOp::create(b, value, half)));
    value = arith::OrIOp::create(
        b, arith::ExtUIOp::create(b, bits, low),
        arith::ShLIOp::create(b, arith::ExtUIOp::create(b, bits, high), half));
  } else if (width < 32) {
    value = arith::TruncIOp::create(
        b, bits, exchange(arith::ExtUIOp::create(b, i32, value)));
  } else {
    value = exchange(value);
  }
  return type == bits ? value : arith::BitcastOp::create(b, type, value);
}

/// Memory of the block, which the launch sizes.
Value KernelEmitter::sharedMemory() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  auto module = function->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(kSharedMemory)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, LLVM::LLVMArrayType::get(b.getI8Type(), 0),
                           /*isConstant=*/false, LLVM::Linkage::External,
                           kSharedMemory, Attribute(), /*alignment=*/16,
                           /*addrSpace=*/3);
  }
  return LLVM::AddressOfOp::create(b, pointer, kSharedMemory);
}

/// Within warps by shuffles; then each thread adds up what the warps have, all
/// in one order. Each fold of a stage has places of its own in shared memory:
/// one barrier will do.
SmallVector<Value> KernelEmitter::combineThreads(SmallVector<Value> values,
                                                 const Combine &combine) {
  if (team.threads == 1)
    return values;
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    SmallVector<Value> others;
    for (Value value : values)
      others.push_back(shuffle(value, distance));
    values = combine(values, others);
  }
  int64_t warps = team.threads / kWarp;
  if (warps == 1)
    return values;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  Value shared = sharedMemory();
  auto place = [&](size_t i, Value warp) -> Value {
    Value at = arith::AddIOp::create(
        b, warp,
        constantI64(b, sharedBytes / 8 + static_cast<int64_t>(i) * warps));
    return LLVM::GEPOp::create(b, pointer, b.getI64Type(), shared,
                               ValueRange{at});
  };
  Value size = constantI64(b, kWarp);
  when(arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                             arith::RemUIOp::create(b, threadOfTeam, size),
                             constantI64(b, 0)),
       [&] {
         Value warp = arith::DivUIOp::create(b, threadOfTeam, size);
         for (auto [i, value] : llvm::enumerate(values))
           LLVM::StoreOp::create(b, value, place(i, warp));
       });
  barrier();
  SmallVector<Value> sums;
  for (int64_t warp = 0; warp < warps; ++warp) {
    SmallVector<Value> others;
    for (auto [i, value] : llvm::enumerate(values))
      others.push_back(LLVM::LoadOp::create(b, value.getType(),
                                            place(i, constantI64(b, warp))));
    sums = warp == 0 ? others : combine(sums, others);
  }
  sharedBytes += static_cast<int64_t>(values.size()) * warps * 8;
  return sums;
}

/// What combineThreads() does, from where the threads left their values.
SmallVector<Value> KernelEmitter::combineArrays(ArrayRef<Value> arrays,
                                                ArrayRef<Type> types,
                                                const Combine &combine) {
  auto place = [&](size_t i, Value thread) -> Value {
    return LLVM::GEPOp::create(b, arrays[i].getType(), types[i], arrays[i],
                               ValueRange{thread});
  };
  auto read = [&](Value thread) {
    SmallVector<Value> values;
    for (auto [i, type] : llvm::enumerate(types))
      values.push_back(LLVM::LoadOp::create(b, type, place(i, thread)));
    return values;
  };
  int64_t warps = team.threads / kWarp;
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2)
    forLoop(warps, [&](Value warp) {
      Value first = arith::MulIOp::create(b, warp, constantI64(b, kWarp));
      forLoop(distance, [&](Value lane) {
        Value low = arith::AddIOp::create(b, first, lane);
        Value high = arith::AddIOp::create(b, low, constantI64(b, distance));
        SmallVector<Value> values = combine(read(low), read(high));
        for (auto [i, value] : llvm::enumerate(values))
          LLVM::StoreOp::create(b, value, place(i, low));
      });
    });
  SmallVector<Value> sums;
  for (int64_t warp = 0; warp < warps; ++warp) {
    SmallVector<Value> others = read(constantI64(b, warp * kWarp));
    sums = warp == 0 ? others : combine(sums, others);
  }
  return sums;
}

//===----------------------------------------------------------------------===//
// Vectors and positions
//===----------------------------------------------------------------------===//

int64_t KernelEmitter::vectorWidth(int64_t size) const {
  for (Operation &op : const_cast<KernelOp &>(spec.op).getBody().front())
    if (isa<MaxPoolOp, MaxPoolGradOp>(op)) // a window for each element
      return 1;
  int64_t floats = 16, integers = 16;
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(spec.op->getOperandTypes()),
                                llvm::to_vector(spec.op->getResultTypes()))) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() == 0)
      continue;
    int64_t bytes = std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
    int64_t &least =
        isa<FloatType>(tensor.getElementType()) ? floats : integers;
    least = std::min(least, bytes);
  }
  // Masks and ids beside floats are few bytes.
  int64_t width = 16 / (floats < 16 ? floats : integers);
  return std::gcd(std::min<int64_t>(width, 8), size);
}

void KernelEmitter::storeTogether(const std::function<void()> &body) {
  std::vector<Deferred> stores, *outer = std::exchange(deferred, &stores);
  body();
  deferred = outer;
  // Those of one buffer, one after the other: LLVM merges no stores with others
  // between them that might be to the same place.
  SmallVector<Value> pointers;
  for (const Deferred &one : stores)
    if (!llvm::is_contained(pointers, one.memory.pointer))
      pointers.push_back(one.memory.pointer);
  for (Value pointer : pointers)
    for (const Deferred &one : stores)
      if (one.memory.pointer == pointer)
        store(one.scalar, one.memory, one.indices);
}

SmallVector<Value> KernelEmitter::threadColumns(Value thread, int64_t size,
                                                Value limit, ValueRange init,
                                                const ColumnBody &body) {
  int64_t width = vectorWidth(size);
  Value upper = limit ? limit : constantI64(b, size);
  auto columns = [&](Value first, int64_t count, ValueRange carried) {
    int64_t loop = space.push(size, first, count);
    SmallVector<Value> next(carried);
    storeTogether([&] {
      for (int64_t i = 0; i < count; ++i)
        next = body(
            LoopSpace::add(&b, space.loop(loop), LoopSpace::constant(i)), next);
    });
    space.pop();
    return next;
  };
  if (width == 1)
    return stepLoop(
        thread, upper, team.threads, init,
        [&](Value j, ValueRange carried) { return columns(j, 1, carried); });
  Value factor = constantI64(b, width);
  Value vectors = limit ? Value(arith::DivUIOp::create(b, limit, factor))
                        : constantI64(b, size / width);
  SmallVector<Value> carried = stepLoop(
      thread, vectors, team.threads, init, [&](Value vector, ValueRange inner) {
        return columns(arith::MulIOp::create(b, vector, factor), width, inner);
      });
  if (!limit)
    return carried;
  // Less than a vector is left below the limit.
  Value rest = arith::AddIOp::create(
      b, arith::MulIOp::create(b, vectors, factor), thread);
  return stepLoop(
      rest, upper, team.threads, carried,
      [&](Value j, ValueRange inner) { return columns(j, 1, inner); });
}

void KernelEmitter::pushDims(Value linear, ArrayRef<int64_t> sizes,
                             Indices &indices, int64_t multiple) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= std::max<int64_t>(size, 1);
  // Divisions of 64 bits cost much.
  bool isSmall = count <= std::numeric_limits<int32_t>::max();
  Type type = isSmall ? b.getI32Type() : b.getI64Type(), i64 = b.getI64Type();
  if (isSmall)
    linear = arith::TruncIOp::create(b, type, linear);
  SmallVector<Value> vars(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    Value size = math.constant(type, static_cast<double>(sizes[d]));
    Value rest = linear;
    if (llvm::any_of(sizes.take_front(d), [](int64_t s) { return s > 1; })) {
      rest = arith::RemUIOp::create(b, linear, size);
      linear = arith::DivUIOp::create(b, linear, size);
    }
    vars[d] = isSmall ? Value(arith::ExtUIOp::create(b, i64, rest)) : rest;
    if (rest == linear)
      break;
  }
  for (auto [d, size] : llvm::enumerate(sizes)) {
    Value value = vars[d] ? vars[d] : constantI64(b, 0);
    bool isLast = d + 1 == sizes.size();
    indices.push_back(
        space.loop(space.push(size, value, isLast ? multiple : 1)));
  }
}

void KernelEmitter::popDims(size_t count) {
  for (size_t i = 0; i < count; ++i)
    space.pop();
}

//===----------------------------------------------------------------------===//
// Loops over a row
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelEmitter::rowFold(ArrayRef<ReduceKind> kinds, Type type,
                                          int64_t size, Value limit,
                                          const ColumnBody &body) {
  auto neutral = [&] {
    SmallVector<Value> init;
    for (ReduceKind kind : kinds)
      init.push_back(math.neutral(kind, type));
    return init;
  };
  if (onGpu()) {
    SmallVector<Type> types(kinds.size(), type);
    return fold(types, accumulation(kinds), [&](Value thread) {
      return threadColumns(thread, size, limit, neutral(), body);
    });
  }
  Value upper = limit ? limit : constantI64(b, size);
  return foldLoop(upper, neutral(), [&](Value i, ValueRange carried) {
    int64_t loop = space.push(size, i);
    SmallVector<Value> next = body(space.loop(loop), carried);
    space.pop();
    return next;
  });
}

void KernelEmitter::rowLoop(int64_t size, Value limit,
                            const std::function<void(Index)> &body) {
  ColumnBody column = [&](Index j, ValueRange) {
    body(j);
    return SmallVector<Value>();
  };
  if (!onGpu()) {
    rowFold({}, Type(), size, limit, column);
    return;
  }
  phase([&](Value thread) { threadColumns(thread, size, limit, {}, column); });
}

} // namespace dpc::codegen
