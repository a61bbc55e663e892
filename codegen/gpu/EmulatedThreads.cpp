//===- EmulatedThreads.cpp - Emulates the threads of a GPU by loops -------===//
#include "codegen/gpu/GpuThreads.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dpc::codegen {

namespace {

class EmulatedThreads : public GpuThreads {
public:
  explicit EmulatedThreads(ElementEmitter &b) : GpuThreads(b) {}

  void forTeams(int64_t teams, const LoopBody &body) override;

private:
  void forThreads(const LoopBody &body) override {
    b.forLoop(constantI64(b, team.shape.threads), body);
  }
  void inFirstThread(const std::function<void()> &body) override { body(); }
  void synchronize() override {}
  Values partsOf(ArrayRef<Type> types, const ThreadBody &body) override;
  Values combineParts(Values arrays, ArrayRef<Type> types,
                      const Combine &combine) override;
};

} // namespace

void EmulatedThreads::forTeams(int64_t teams, const LoopBody &body) {
  b.stepLoop(constantI64(b, 0), constantI64(b, teams), 1, body);
}

Values EmulatedThreads::partsOf(ArrayRef<Type> types, const ThreadBody &body) {
  if (team.shape.threads == 1)
    return body(constantI64(b, 0));
  Values arrays;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto function = b.getBlock()->getParent()->getParentOfType<func::FuncOp>();
  for (Type type : types) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    arrays.push_back(LLVM::AllocaOp::create(
        b, pointer, type, constantI64(b, team.shape.threads)));
  }
  b.forLoop(constantI64(b, team.shape.threads), [&](Value thread) {
    for (auto [value, array] : llvm::zip_equal(body(thread), arrays))
      LLVM::StoreOp::create(b, value,
                            LLVM::GEPOp::create(b, pointer, value.getType(),
                                                array, ValueRange{thread}));
  });
  return arrays;
}

/// Combines values in the same order as the shuffles of PTX.
Values EmulatedThreads::combineParts(Values arrays, ArrayRef<Type> types,
                                     const Combine &combine) {
  if (team.shape.threads == 1)
    return arrays;
  auto place = [&](size_t i, Value thread) -> Value {
    return LLVM::GEPOp::create(b, arrays[i].getType(), types[i], arrays[i],
                               ValueRange{thread});
  };
  auto read = [&](Value thread) {
    Values values;
    for (auto [i, type] : llvm::enumerate(types))
      values.push_back(LLVM::LoadOp::create(b, type, place(i, thread)));
    return values;
  };
  int64_t warps = team.shape.threads / kWarp;
  for (int64_t distance = kWarp / 2; distance > 0; distance /= 2)
    b.forLoop(constantI64(b, warps), [&](Value warp) {
      Value first = mulI(b, warp, kWarp);
      b.forLoop(constantI64(b, distance), [&](Value lane) {
        Value low = addI(b, first, lane);
        Value high = addI(b, low, distance);
        Values values = combine(read(low), read(high));
        for (auto [i, value] : llvm::enumerate(values))
          LLVM::StoreOp::create(b, value, place(i, low));
      });
    });
  Values combined;
  for (int64_t warp = 0; warp < warps; ++warp) {
    Values others = read(constantI64(b, warp * kWarp));
    combined = warp == 0 ? others : combine(combined, others);
  }
  return combined;
}

std::unique_ptr<GpuThreads> createEmulatedThreads(ElementEmitter &b) {
  return std::make_unique<EmulatedThreads>(b);
}

} // namespace dpc::codegen
