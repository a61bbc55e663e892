//===- GpuThreads.cpp - Teams of threads, phases and folds ----------------===//
#include "codegen/gpu/GpuThreads.h"

#include <numeric>

using namespace mlir;

namespace dpc::codegen {

TeamShape teamFor(int64_t size, int64_t width) {
  // With more threads per block, each thread has fewer registers.
  constexpr int64_t kMaxThreads = 512;
  int64_t vectors = std::max<int64_t>(1, llvm::divideCeilSigned(size, width));
  if (vectors <= kWarp)
    return {kWarp, kBlock / kWarp};
  int64_t passes = llvm::divideCeilSigned(vectors, kMaxThreads);
  int64_t threads = llvm::divideCeilSigned(vectors, passes);
  return {llvm::divideCeilSigned(threads, kWarp) * kWarp, 1};
}

int64_t vectorWidth(const KernelSpec &spec, int64_t size) {
  KernelOp kernel = spec.op;
  for (Operation &op : kernel.getBody().front())
    if (isa<MaxPoolOp, MaxPoolGradOp>(op)) // elements read different windows
      return 1;
  int64_t floats = 16, integers = 16;
  for (Type type :
       llvm::concat<const Type>(llvm::to_vector(kernel->getOperandTypes()),
                                llvm::to_vector(kernel->getResultTypes()))) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getRank() == 0)
      continue;
    int64_t bytes = std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
    int64_t &least =
        isa<FloatType>(tensor.getElementType()) ? floats : integers;
    least = std::min(least, bytes);
  }
  // The narrowest floats decide the width; integers (masks, ids) decide it only
  // if there are no floats.
  int64_t width = 16 / (floats < 16 ? floats : integers);
  return std::gcd(std::min<int64_t>(width, 8), size);
}

std::unique_ptr<GpuThreads> GpuThreads::create(ElementEmitter &b) {
  return b.target == KernelTarget::ptx ? createPtxThreads(b)
                                       : createEmulatedThreads(b);
}

void GpuThreads::barrier() {
  team.needsBarrier = team.hasStored = false;
  synchronize();
}

void GpuThreads::beforeLoad() {
  if (team.needsBarrier && !team.inPhase)
    barrier();
}

bool GpuThreads::keepsStore(Value scalar, const MemoryRef &memory,
                            ArrayRef<Index> indices) {
  if (kept) {
    kept->push_back({scalar, memory, Indices(indices)});
    return true;
  }
  team.hasStored = true;
  return false;
}

void GpuThreads::enterPhase() {
  assert(!team.inPhase && "phases do not nest");
  if (team.needsBarrier)
    barrier();
  team.inPhase = true;
}

void GpuThreads::leavePhase() {
  team.inPhase = false;
  team.needsBarrier = team.hasStored;
}

void GpuThreads::phase(const LoopBody &body) {
  enterPhase();
  b.openScope();
  forThreads(body);
  b.closeScope();
  leavePhase();
}

void GpuThreads::once(const std::function<void()> &body) {
  if (team.inPhase)
    return body();
  enterPhase();
  inFirstThread(body);
  leavePhase();
}

Values GpuThreads::fold(ArrayRef<Type> types, const Combine &combine,
                        const ThreadBody &body) {
  enterPhase();
  b.openScope();
  Values parts = partsOf(types, body);
  b.closeScope();
  leavePhase();
  return combineParts(std::move(parts), types, combine);
}

void GpuThreads::storeTogether(const std::function<void()> &body) {
  std::vector<KeptStore> stores, *outer = std::exchange(kept, &stores);
  body();
  kept = outer;
  // LLVM does not merge two stores if a store between them may alias.
  Values pointers;
  for (const KeptStore &one : stores)
    if (!llvm::is_contained(pointers, one.memory.pointer))
      pointers.push_back(one.memory.pointer);
  for (Value pointer : pointers)
    for (const KeptStore &one : stores)
      if (one.memory.pointer == pointer)
        b.store(one.scalar, one.memory, one.indices);
}

Values GpuThreads::threadColumns(Value thread, int64_t size, Value limit,
                                 ValueRange init, const ColumnBody &body) {
  int64_t width = vectorWidth(b.spec, size);
  Value upper = limit ? limit : constantI64(b, size);
  auto columns = [&](Value first, int64_t count, ValueRange carried) {
    int64_t loop = b.space.push(size, first, count);
    Values next(carried);
    storeTogether([&] {
      for (int64_t i = 0; i < count; ++i)
        next = body(LoopSpace::shift(b.space.loop(loop), i), next);
    });
    b.space.pop();
    return next;
  };
  if (width == 1)
    return b.stepLoop(
        thread, upper, team.shape.threads, init,
        [&](Value j, ValueRange carried) { return columns(j, 1, carried); });
  Value factor = constantI64(b, width);
  Value vectors = limit ? divU(b, limit, factor) : constantI64(b, size / width);
  Values carried =
      b.stepLoop(thread, vectors, team.shape.threads, init,
                 [&](Value vector, ValueRange inner) {
                   return columns(mulI(b, vector, factor), width, inner);
                 });
  if (!limit)
    return carried;
  // The last columns, fewer than a vector, are computed one by one.
  Value rest = addI(b, mulI(b, vectors, factor), thread);
  return b.stepLoop(
      rest, upper, team.shape.threads, carried,
      [&](Value j, ValueRange inner) { return columns(j, 1, inner); });
}

Values GpuThreads::rowFold(const RowFold &rows, int64_t size, Value limit,
                           const ColumnBody &body) {
  return fold(rows.types, rows.combine, [&](Value thread) {
    return threadColumns(thread, size, limit, rows.init(), body);
  });
}

void GpuThreads::rowLoop(int64_t size, Value limit,
                         const std::function<void(Index)> &body) {
  phase([&](Value thread) {
    threadColumns(thread, size, limit, {}, [&](Index j, ValueRange) {
      body(j);
      return Values();
    });
  });
}

void GpuThreads::restLoop(int64_t size, Value limit, const LoopBody &body) {
  phase([&](Value thread) {
    b.stepLoop(addI(b, limit, thread), constantI64(b, size), team.shape.threads,
               {}, [&](Value column, ValueRange) {
                 body(column);
                 return Values();
               });
  });
}

} // namespace dpc::codegen
