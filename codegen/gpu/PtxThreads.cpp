//===- PtxThreads.cpp - The code of one thread ----------------------------===//
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
  SmallVector<Value> partsOf(ArrayRef<Type>, const ThreadBody &body) override {
    return body(thread);
  }
  SmallVector<Value> combineParts(SmallVector<Value> values, ArrayRef<Type>,
                                  const Combine &combine) override;

  Value thread; ///< its number in the team
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
  Value block = arith::ExtUIOp::create(b, i64, read("ctaid.x"));
  Value inBlock = read("tid.x");
  if (team.shape.perBlock == 1) {
    thread = arith::ExtUIOp::create(b, i64, inBlock);
    return teams > 0 ? body(block) : void();
  }
  Value size =
      arith::ConstantOp::create(b, b.getI32IntegerAttr(team.shape.threads));
  thread =
      arith::ExtUIOp::create(b, i64, arith::RemUIOp::create(b, inBlock, size));
  Value own =
      arith::ExtUIOp::create(b, i64, arith::DivUIOp::create(b, inBlock, size));
  Value number = arith::AddIOp::create(
      b, arith::MulIOp::create(b, block, constantI64(b, team.shape.perBlock)),
      own);
  b.whenBelow(number, teams, [&] { body(number); });
}

void PtxThreads::synchronize() {
  if (team.shape.threads == 1)
    return;
  auto number = [&](int32_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  if (team.shape.threads == kWarp)
    intrinsic(b, {}, "llvm.nvvm.bar.warp.sync", number(-1));
  else
    intrinsic(b, {}, "llvm.nvvm.barrier.cta.sync.aligned.all", number(0));
}

/// The value of the thread whose number differs in the bit `distance`.
static Value shuffle(KernelBuilder &b, Value value, int64_t distance) {
  Type type = value.getType(), i32 = b.getI32Type();
  unsigned width = type.getIntOrFloatBitWidth();
  Type bits = b.getIntegerType(width);
  if (type != bits)
    value = arith::BitcastOp::create(b, bits, value);
  auto number = [&](int64_t n) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(int32_t(n)));
  };
  auto exchange = [&](Value word) {
    return intrinsic(b, i32, "llvm.nvvm.shfl.sync.bfly.i32",
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

/// Within warps by shuffles; then each thread adds up what the warps have, all
/// in one order. Each fold of a stage has places of its own in shared memory:
/// one barrier will do.
SmallVector<Value> PtxThreads::combineParts(SmallVector<Value> values,
                                            ArrayRef<Type>,
                                            const Combine &combine) {
  if (team.shape.threads == 1)
    return values;
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2) {
    SmallVector<Value> others;
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
    Value at = arith::AddIOp::create(
        b, warp,
        constantI64(b, team.sharedBytes / 8 + static_cast<int64_t>(i) * warps));
    return LLVM::GEPOp::create(b, pointer, b.getI64Type(), shared,
                               ValueRange{at});
  };
  Value size = constantI64(b, kWarp);
  b.when(arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                               arith::RemUIOp::create(b, thread, size),
                               constantI64(b, 0)),
         [&] {
           Value warp = arith::DivUIOp::create(b, thread, size);
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
  team.sharedBytes += static_cast<int64_t>(values.size()) * warps * 8;
  return sums;
}

std::unique_ptr<GpuThreads> createPtxThreads(ElementEmitter &b) {
  return std::make_unique<PtxThreads>(b);
}

} // namespace dpc::codegen
