//===- LowerGemms.cpp - GEMMs over strided operands -----------------------===//
//
// dpc-fuse-epilogues forms one kernel from a matmul and its epilogue
// (ir/GemmEpilogues.h). The kernel becomes one instruction if the layout of its
// operands in buffers, which that pass does not know, allows it. Otherwise each
// op of the kernel becomes an instruction.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/StageDraft.h"
#include "ir/Attributes.h"
#include "ir/GemmEpilogues.h"
#include "ir/GemmLayout.h"

using namespace mlir;

namespace dpc::codegen {

/// Adds one call for each index of the outer batch dimensions, because a call
/// supports only two batch dimensions.
static void emitBatched(rt::MatmulOp op, ArrayRef<GemmLayout::Batch> batches,
                        SmallVector<rt::MatmulOp> &out) {
  if (batches.size() > 2) {
    for (int64_t i = 0; i < batches.front().size; ++i) {
      emitBatched(op, batches.drop_front(), out);
      op.aOffset += batches.front().a;
      op.bOffset += batches.front().b;
      op.cOffset += batches.front().c;
    }
    return;
  }
  if (!batches.empty()) {
    const GemmLayout::Batch &inner = batches.back();
    op.batch2 = inner.size;
    op.stride2A = inner.a;
    op.stride2B = inner.b;
    op.stride2C = inner.c;
  }
  if (batches.size() == 2) {
    const GemmLayout::Batch &outer = batches.front();
    op.batch = outer.size;
    op.strideA = outer.a;
    op.strideB = outer.b;
    op.strideC = outer.c;
  }
  out.push_back(op);
}

/// Adds the calls that multiply `a` and `b` into a buffer with view `c`. The
/// caller sets this buffer in the calls.
static LogicalResult callsOf(StageDraft &s, MatmulOp op, Value a, Value b,
                             const StridedView &c,
                             SmallVector<rt::MatmulOp> &calls) {
  Type type = op.getA().getType().getElementType();
  std::optional<rt::DType> compute = dtypeOf(type);
  if (!compute || !rt::isFloat(*compute))
    return op.emitOpError() << "of " << type << " cannot be executed; f32, "
                            << "f64, bf16 and f16 can";
  Slot left = s.slots.at(a), right = s.slots.at(b);
  auto layout = layOutGemm(left.view, right.view, c, op.getTa(), op.getTb());
  if (!layout)
    return op.emitOpError("has an operand with strided rows and columns; the "
                          "operand must not be marked dpc.view");
  rt::MatmulOp call;
  call.a = left.buffer;
  call.b = right.buffer;
  call.aOffset = left.view.offset;
  call.bOffset = right.view.offset;
  call.m = layout->m;
  call.n = layout->n;
  call.k = layout->k;
  call.transA = layout->transA;
  call.transB = layout->transB;
  call.lda = layout->lda;
  call.ldb = layout->ldb;
  call.ldc = layout->ldc;
  call.compute = *compute;
  emitBatched(call, layout->batches, calls);
  return success();
}

static Slot resultSlot(StageDraft &s, Operation *op) {
  Value result = op->getResult(0);
  return sumInPlace(op) ? clearedSlot(s, result) : s.slots.make(result);
}

static double flopsOf(Operation *op) {
  double flops = cast<CostOpInterface>(op).getFlops();
  AccumulateOp sum = sumInPlace(op);
  return sum ? flops + cast<CostOpInterface>(sum.getOperation()).getFlops()
             : flops;
}

/// If `op` is marked kFp8, lets its only call multiply fp8 codes. The call must
/// have no batch dimensions, and the rows of C must begin at multiples of 16
/// bytes. Other marked matmuls run in bf16 and are counted in `s.uncoded`.
static void encodeInFp8(StageDraft &s, MatmulOp op, rt::MatmulOp &call) {
  auto formats = op->getAttrOfType<ArrayAttr>(attr::kFp8);
  auto bytes = op->getAttrOfType<IntegerAttr>(attr::kWorkspace);
  int64_t width =
      op.getResult().getType().getElementType().getIntOrFloatBitWidth() / 8;
  if (!formats || !bytes)
    return;
  bool isOne = call.batch == 1 && call.batch2 == 1;
  int64_t begin = s.plan.buffers[call.c].offset + call.cOffset * width;
  if (!isOne || call.ldc * width % 16 != 0 || begin % 16 != 0) {
    ++s.uncoded;
    return;
  }
  auto formatOf = [&](unsigned operand) {
    return *dtypeOf(cast<TypeAttr>(formats[operand]).getValue());
  };
  call.fp8 = rt::Fp8Factors{
      formatOf(0), formatOf(1),
      s.slots.addWorkspace(op.getContext(), bytes.getInt(), "codes of fp8")};
}

// Predictions assume that all marked GEMMs run in fp8, because only codegen
// knows the layout of operands in buffers.
void remarkOnUncoded(const StageDraft &s) {
  if (s.uncoded > 0)
    func::FuncOp(s.step).emitRemark()
        << "GEMMs that are predicted in fp8 but run in bf16: " << s.uncoded
        << ", because they have batch dimensions or their rows of results do "
           "not begin at multiples of 16 bytes";
}

LogicalResult lowerMatmul(StageDraft &s, MatmulOp op) {
  auto perm = op->getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm);
  Slot c = perm ? s.slots.makePermuted(op.getResult(), perm.asArrayRef())
                : resultSlot(s, op);
  SmallVector<rt::MatmulOp> calls;
  if (failed(callsOf(s, op, op.getA(), op.getB(), c.view, calls)))
    return failure();
  double flops = flopsOf(op);
  for (rt::MatmulOp &part : calls) {
    part.c = c.buffer;
    part.beta = sumInPlace(op) ? 1 : 0;
    if (calls.size() == 1)
      encodeInFp8(s, op, part);
    s.list.emit(s.schedule.phaseOf(op), part, nameOfOp(op)).flops =
        flops / calls.size();
  }
  return success();
}

/// Whether one call can compute the GEMM and its epilogue on these operands.
/// cuBLASLt requires that rows begin at multiples of 8 elements.
static bool canFuse(const StageDraft &s, KernelOp op, rt::Epilogue epilogue,
                    ArrayRef<rt::MatmulOp> calls) {
  constexpr int64_t kElements = 8;
  if (calls.size() != 1 || epilogue == rt::Epilogue::None)
    return calls.size() == 1;
  const rt::MatmulOp &call = calls.front();
  bool hasAux = rt::readsAux(epilogue) || rt::writesAux(epilogue);
  if (call.batch != 1 || call.batch2 != 1 ||
      (hasAux && call.n % kElements != 0) ||
      (epilogue == rt::Epilogue::SumsOfA && !call.transA) ||
      (epilogue == rt::Epilogue::SumsOfB && call.transB))
    return false;
  if (!rt::readsAux(epilogue))
    return true;
  StridedView aux = s.slots.at(op.getInputs()[kEpilogueOperand]).view;
  int64_t begin = std::exchange(aux.offset, 0);
  return aux.isDense() && begin % kElements == 0;
}

static void bindEpilogue(StageDraft &s, KernelOp op, rt::Epilogue epilogue,
                         rt::MatmulOp &call) {
  call.epilogue = epilogue;
  if (epilogue == rt::Epilogue::None)
    return;
  bool reads = rt::readsBias(epilogue) || rt::readsAux(epilogue);
  Slot read = reads ? s.slots.at(op.getInputs()[kEpilogueOperand]) : Slot();
  bool writes = rt::writesBias(epilogue) || rt::writesAux(epilogue);
  Slot written = writes ? s.slots.make(op->getResult(kEpilogueResult)) : Slot();
  if (rt::readsBias(epilogue) || rt::writesBias(epilogue)) {
    const Slot &bias = rt::readsBias(epilogue) ? read : written;
    call.bias = bias.buffer;
    call.biasOffset = bias.view.offset;
  }
  if (rt::readsAux(epilogue) || rt::writesAux(epilogue)) {
    const Slot &aux = rt::readsAux(epilogue) ? read : written;
    call.aux = aux.buffer;
    call.auxOffset = aux.view.offset;
    call.auxLd = call.n;
  }
}

static LogicalResult lowerUnfused(StageDraft &s, KernelOp op) {
  if (AccumulateOp sum = sumInPlace(op)) { // the sum gets a separate buffer
    sum->removeAttr(attr::kView);
    s.buffers.replace(op->getResult(0), sum.getResult());
    s.buffers.lastRead[op->getResult(0)] = s.buffers.position.at(sum);
  }
  Block &body = op.getBody().front();
  OpBuilder builder(op);
  IRMapping map;
  map.map(body.getArguments(), op.getInputs());
  SmallVector<Operation *> parts;
  for (Operation &inner : body.without_terminator()) {
    Operation *part = builder.clone(inner, map);
    copyAttributes(op, part, {attr::kPhase, attr::kChunk});
    if (!isa<MatmulOp>(part)) {
      KernelOp kernel = wrap(part);
      map.map(inner.getResults(), kernel->getResults());
      part = kernel;
    }
    s.buffers.position[part] = s.buffers.position.at(op);
    parts.push_back(part);
  }
  for (auto [result, value] :
       llvm::zip_equal(op.getOutputs(), body.getTerminator()->getOperands())) {
    s.buffers.replace(result, map.lookup(value));
    result.replaceAllUsesWith(map.lookup(value));
  }
  for (Operation *part : parts)
    if (failed(lower(s, part)))
      return failure();
  return success();
}

LogicalResult lowerWithEpilogue(StageDraft &s, KernelOp op) {
  MatmulOp matmul = matmulOf(op);
  auto epilogue = symbolize<rt::Epilogue>(epilogueOf(op).str());
  if (!epilogue)
    return op.emitOpError() << "has the epilogue '" << epilogueOf(op)
                            << "', which plans do not know";
  SmallVector<rt::MatmulOp> calls;
  auto type = tensorType(matmul.getResult());
  if (failed(callsOf(s, matmul, op.getInputs()[0], op.getInputs()[1],
                     StridedView::dense(type.getShape()), calls)))
    return failure();
  if (!canFuse(s, op, *epilogue, calls))
    return lowerUnfused(s, op);
  rt::MatmulOp call = calls.front();
  call.c = resultSlot(s, op).buffer;
  call.beta = sumInPlace(op) ? 1 : 0;
  bindEpilogue(s, op, *epilogue, call);
  encodeInFp8(s, matmul, call);
  s.list.emit(s.schedule.phaseOf(op), call, nameOfOp(matmul)).flops =
      flopsOf(op);
  return success();
}

} // namespace dpc::codegen
