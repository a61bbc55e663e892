//===- PtxThreads.cpp - The code of one thread in PTX ---------------------===//
#include "codegen/gpu/GpuThreads.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dpc::codegen {

static constexpr const char *kSharedMemory = "dpc_shared";

namespace {

class PtxThreads : public GpuThreads {
public:
  explicit PtxThreads(ElementEmitter &b) : GpuThreads(b) {}

  void forTeams(int64_t teams, const LoopBody &body) override;

private:
  void forThreads(const LoopBody &body) override { body(thread); }
  void inFirstThread(const std::function<void()> &body) override {
    if (team.shape.threads == 1)
      return body();
    b.whenBelow(thread, 1, body);
  }
  void synchronize() override;
  Values partsOf(ArrayRef<Type>, const ThreadBody &body) override {
    return body(thread);
  }
  Values combineParts(Values values, ArrayRef<Type>,
                      const Combine &combine) override;

  Value thread;
};

} // namespace

static Value intrinsic(KernelBuilder &b, Type type, StringRef name,
                       ValueRange arguments) {
  if (!type) {
    LLVM::CallIntrinsicOp::create(b, b.getStringAttr(name), arguments);
    return {};
  }
  return LLVM::CallIntrinsicOp::create(b, type, b.getStringAttr(name),
                                       arguments)
      .getResult(0);
}

void PtxThreads::forTeams(int64_t teams, const LoopBody &body) {
  auto read = [&](StringRef name) {
    return intrinsic(b, b.getI32Type(),
                     ("llvm.nvvm.read.ptx.sreg." + name).str(), {});
  };
  Type i64 = b.getI64Type();
  Value block = extendU(b, i64, read("ctaid.x"));
  Value inBlock = read("tid.x");
  if (team.shape.perBlock == 1) {
    thread = extendU(b, i64, inBlock);
    return teams > 0 ? body(block) : void();
  }
  Value size = constantI32(b, team.shape.threads);
  thread = extendU(b, i64, remU(b, inBlock, size));
  Value own = extendU(b, i64, divU(b, inBlock, size));
  Value number = addI(b, mulI(b, block, team.shape.perBlock), own);
  b.whenBelow(number, teams, [&] { body(number); });
}

void PtxThreads::synchronize() {
  if (team.shape.threads == 1)
    return;
  if (team.shape.threads == kWarp)
    intrinsic(b, {}, "llvm.nvvm.bar.warp.sync", constantI32(b, -1));
  else
    intrinsic(b, {}, "llvm.nvvm.barrier.cta.sync.aligned.all",
              constantI32(b, 0));
}

/// Returns `value` of the thread whose index differs only in bit `distance`.
static Value shuffle(KernelBuilder &b, Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bits = b.getIntegerType(width);
  if (type != bits)
    value = bitcast(b, bits, value);
  auto exchange = [&](Value word) {
    return intrinsic(b, i32, "llvm.nvvm.shfl.sync.bfly.i32",
                     {constantI32(b, -1), word, constantI32(b, distance),
                      constantI32(b, 31)});
  };
  if (width == 64) {
    Value half = constantI64(b, 32);
    Value low = exchange(truncate(b, i32, value));
    Value high = exchange(truncate(b, i32, shiftRightU(b, value, half)));
    value = orI(b, extendU(b, bits, low),
                shiftLeft(b, extendU(b, bits, high), half));
  } else if (width < 32) {
    value = truncate(b, bits, exchange(extendU(b, i32, value)));
  } else {
    value = exchange(value);
  }
  return type == bits ? value : bitcast(b, type, value);
}

static Value sharedMemory(KernelBuilder &b) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  auto module = b.getBlock()->getParentOp()->getParentOfType<ModuleOp>();
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

/// Combines the values of each warp by shuffles. Then every thread combines the
/// results of all warps in the same order. One barrier suffices, because each
/// fold of a stage has a separate part of shared memory.
Values PtxThreads::combineParts(Values values, ArrayRef<Type>,
                                const Combine &combine) {
  if (team.shape.threads == 1)
    return values;
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    Values others;
    for (Value value : values)
      others.push_back(shuffle(b, value, distance));
    values = combine(values, others);
  }
  int64_t warps = team.shape.threads / kWarp;
  if (warps == 1)
    return values;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  Value shared = sharedMemory(b);
  auto place = [&](size_t i, Value warp) -> Value {
    Value at =
        addI(b, warp, team.sharedBytes / 8 + static_cast<int64_t>(i) * warps);
    return LLVM::GEPOp::create(b, pointer, b.getI64Type(), shared,
                               ValueRange{at});
  };
  Value size = constantI64(b, kWarp);
  b.when(cmp(b, IntPredicate::eq, remU(b, thread, size), 0), [&] {
    Value warp = divU(b, thread, size);
    for (auto [i, value] : llvm::enumerate(values))
      LLVM::StoreOp::create(b, value, place(i, warp));
  });
  barrier();
  Values combined;
  for (int64_t warp = 0; warp < warps; ++warp) {
    Values others;
    for (auto [i, value] : llvm::enumerate(values))
      others.push_back(LLVM::LoadOp::create(b, value.getType(),
                                            place(i, constantI64(b, warp))));
    combined = warp == 0 ? others : combine(combined, others);
  }
  team.sharedBytes += static_cast<int64_t>(values.size()) * warps * 8;
  return combined;
}

std::unique_ptr<GpuThreads> createPtxThreads(ElementEmitter &b) {
  return std::make_unique<PtxThreads>(b);
}

} // namespace dpc::codegen
