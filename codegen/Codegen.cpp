//===- Codegen.cpp - Files of a plan, and the Lowering interface ----------===//
#include "codegen/Codegen.h"
#include "codegen/gpu/CompilePtx.h"
#include "ir/Dialect.h"
#include "runtime/plan/PlanJson.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir;

namespace dpc::codegen {

LogicalResult writeKernels(PlanDraft &draft, const std::string &dir) {
  ModuleOp module = *draft.kernels;
  auto fail = [&](const std::string &path, std::error_code code) {
    return module.emitError("cannot write " + path + ": " + code.message());
  };
  std::string folder = dir + "/kernels";
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    return fail(folder, code);
  if (!draft.constants.empty()) {
    std::error_code code;
    std::string path = dir + "/constants.bin";
    llvm::raw_fd_ostream out(path, code, llvm::sys::fs::OF_None);
    if (code)
      return fail(path, code);
    out.write(draft.constants.data(), draft.constants.size());
    out.flush();
    if (out.has_error())
      return fail(path, out.error());
  }
  if (module.getBody()->empty())
    return success();
  bool isPtx = !draft.targetGpu.empty() && !draft.emulatesGpu;
  std::string name = isPtx ? "kernels.ptx" : "kernels.so";
  std::string path = folder + "/" + name;
  if (failed(isPtx ? compileToPtx(module, draft.targetGpu,
                                  draft.plan.kernelLaunches, path)
                   : compileToSharedObject(module, draft.cpu, path)))
    return failure();
  Expected<std::string> hash = rt::hashFile(path);
  if (!hash.ok())
    return module.emitError(hash.status().message());
  draft.plan.kernelFile = name;
  draft.plan.kernelHash = *hash;
  return success();
}

namespace {

template <typename Op, LoweringKind kind>
struct FixedLowering
    : LoweringOpInterface::ExternalModel<FixedLowering<Op, kind>, Op> {
  LoweringKind getLoweringKind(Operation *) const { return kind; }
};

template <typename Op, LoweringKind kind = LoweringKind::elementwise>
struct ViewLowering
    : LoweringOpInterface::ExternalModel<ViewLowering<Op, kind>, Op> {
  LoweringKind getLoweringKind(Operation *op) const {
    return op->hasAttr(attr::kView) ? LoweringKind::view : kind;
  }
};

template <LoweringKind kind, typename... Ops>
void attach(MLIRContext *context) {
  (Ops::template attachInterface<FixedLowering<Ops, kind>>(*context), ...);
}

} // namespace

void registerLoweringModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, DpcDialect *) {
    attach<LoweringKind::matmul, MatmulOp, ExpertMatmulOp, ExpertMatmulGradOp,
           ExpertTilesOp, ConvOp, ConvGradInputOp, ConvGradFilterOp,
           AttentionOp, AttentionGradOp>(context);
    attach<LoweringKind::elementwise, ConstantOp, IotaOp, UnaryOp, BinaryOp,
           CompareOp, SelectOp, ConvertOp, PadOp, ConcatOp, RopeOp, EmbeddingOp,
           CrossEntropyGradOp, AdamWOp, SgdOp, MaskOp, RankSliceOp,
           AttentionScoresGradOp>(context);
    attach<LoweringKind::kernel, MaxPoolOp, MaxPoolGradOp, ReduceOp, SoftmaxOp,
           SoftmaxGradOp, NormOp, NormGradOp, TopKOp, CumSumOp, EmbeddingGradOp,
           CrossEntropySumsOp, SumSquaresOp, AttentionProbsOp, KernelOp>(
        context);
    attach<LoweringKind::collective, AllReduceOp, AllGatherOp, ReduceScatterOp,
           AllToAllOp, RingShiftOp, SendOp, RecvOp>(context);
    attach<LoweringKind::transfer, FetchOp, StoreOp>(context);
    attach<LoweringKind::view, ReshapeOp>(context);
    TransposeOp::attachInterface<ViewLowering<TransposeOp>>(*context);
    SliceOp::attachInterface<ViewLowering<SliceOp>>(*context);
    BroadcastOp::attachInterface<ViewLowering<BroadcastOp>>(*context);
    AccumulateOp::attachInterface<
        ViewLowering<AccumulateOp, LoweringKind::kernel>>(*context);
  });
}

} // namespace dpc::codegen
