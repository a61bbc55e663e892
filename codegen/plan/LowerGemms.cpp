//===- LowerGemms.cpp - Matrix products over strided operands ----------===//
//
// A kernel that dpc-end-products made of a product and what ends it is one
// instruction (ir/GemmEpilogues.h says where it has what). The pass has asked
// whether one call can do it, of operands as views have them; where they turn
// out to lie otherwise, what is in the kernel is lowered op by op.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/StageDraft.h"
#include "ir/Attributes.h"
#include "ir/GemmEpilogues.h"
#include "ir/GemmLayout.h"
#include "runtime/plan/EnumNames.h"

using namespace mlir;

namespace dpc::codegen {

/// One instruction per point of all but the two innermost batch dimensions.
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

/// The calls that compute `op`, of `a` and `b`, into a value that lies as `c`
/// says; without the buffer of C.
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
    return op.emitOpError("has an operand whose rows and columns are both "
                          "strided; it must not be marked dpc.view");
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

/// The buffer that a product writes; where it adds to a sum, that of the sum.
static Slot productSlot(StageDraft &s, Operation *op) {
  Value result = op->getResult(0);
  return sumInPlace(op) ? clearedSlot(s, result) : s.slots.make(result);
}

static double productFlops(Operation *op) {
  double flops = cast<CostOpInterface>(op).getFlops();
  AccumulateOp sum = sumInPlace(op);
  return sum ? flops + cast<CostOpInterface>(sum.getOperation()).getFlops()
             : flops;
}

//===----------------------------------------------------------------------===//
// Products of 8-bit codes
//===----------------------------------------------------------------------===//

/// Lets the only call of a marked matmul multiply codes, where its operands lie
/// so that it is one product, and C so that a GPU can write it.
static void codeFactors(StageDraft &s, MatmulOp op, rt::MatmulOp &call) {
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

/// Time and memory were predicted by sizes, which are all that is known before
/// buffers are.
void remarkOnUncoded(const StageDraft &s) {
  if (s.uncoded > 0)
    func::FuncOp(s.step).emitRemark()
        << "products that are predicted in fp8 and run in bf16: " << s.uncoded
        << ", whose rows do not lie as those of one matrix, or "
           "whose results not at multiples of 16 bytes";
}

//===----------------------------------------------------------------------===//
// Products alone
//===----------------------------------------------------------------------===//

LogicalResult lowerMatmul(StageDraft &s, MatmulOp op) {
  auto perm = op->getAttrOfType<DenseI64ArrayAttr>(attr::kOutPerm);
  Slot c = perm ? s.slots.makePermuted(op.getResult(), perm.asArrayRef())
                : productSlot(s, op);
  SmallVector<rt::MatmulOp> calls;
  if (failed(callsOf(s, op, op.getA(), op.getB(), c.view, calls)))
    return failure();
  double flops = productFlops(op);
  for (rt::MatmulOp &part : calls) {
    part.c = c.buffer;
    part.beta = sumInPlace(op) ? 1 : 0;
    if (calls.size() == 1)
      codeFactors(s, op, part);
    s.list.emit(s.schedule.phaseOf(op), part, nameOfOp(op)).flops =
        flops / calls.size();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Products with an epilogue
//===----------------------------------------------------------------------===//

/// Whether one call can do it, where its operands are. cuBLASLt wants rows of a
/// matrix at multiples of 8 elements.
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

/// The vector and the matrix that `epilogue` reads or writes.
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

/// Makes an instruction of each op in a kernel.
static LogicalResult lowerUnfused(StageDraft &s, KernelOp op) {
  if (AccumulateOp sum = sumInPlace(op)) { // which lies elsewhere now
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
    for (StringRef name : {attr::kPhase, attr::kChunk})
      if (Attribute value = op->getAttr(name))
        part->setAttr(name, value);
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

/// One product, or what is in the kernel.
LogicalResult lowerWithEpilogue(StageDraft &s, KernelOp op) {
  MatmulOp product = matmulOf(op);
  auto epilogue = rt::parseEnum<rt::Epilogue>(epilogueOf(op).str());
  if (!epilogue)
    return op.emitOpError() << "is a product with epilogue '" << epilogueOf(op)
                            << "', which plans do not have";
  SmallVector<rt::MatmulOp> calls;
  auto type = tensorType(product.getResult());
  if (failed(callsOf(s, product, op.getInputs()[0], op.getInputs()[1],
                     StridedView::dense(type.getShape()), calls)))
    return failure();
  if (!canFuse(s, op, *epilogue, calls))
    return lowerUnfused(s, op);
  rt::MatmulOp call = calls.front();
  call.c = productSlot(s, op).buffer;
  call.beta = sumInPlace(op) ? 1 : 0;
  bindEpilogue(s, op, *epilogue, call);
  codeFactors(s, product, call);
  s.list.emit(s.schedule.phaseOf(op), call, nameOfOp(product)).flops =
      productFlops(op);
  return success();
}

} // namespace dpc::codegen
