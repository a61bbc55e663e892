//===- OpTime.cpp - Seconds of one op on one device -----------------------===//
#include "passes/cost/OpTime.h"
#include "ir/ExpertTiles.h"
#include "ir/Sharding.h"
#include "ir/TensorUtils.h"

#include "cost-model/machine/Fp8GemmRates.h"
#include "ir/ExpertLoads.h"
#include "ir/GemmEpilogues.h"
#include "passes/graph/Fp8.h"

#include <cmath>

using namespace mlir;
using namespace dpc;

int64_t dpc::elementBytes(Value value) {
  return sizeInBytes(RankedTensorType::get({1}, elementTypeOf(value)));
}

cost::DType dpc::costType(Type type) {
  if (type.isBF16())
    return cost::DType::BF16;
  if (type.isF16())
    return cost::DType::F16;
  return type.isF64() ? cost::DType::F64 : cost::DType::F32;
}

static cost::DType gemmType(Value value, const cost::Device &device) {
  return cost::computeType(device, costType(elementTypeOf(value)));
}

static double gemmSeconds(Value operand, const cost::GemmShape &shape,
                          const cost::Device &device) {
  return cost::narrowGemmSeconds(device, costType(elementTypeOf(operand)),
                                 shape);
}

/// Returns the seconds of a GEMM in fp8. cuBLASLt needs the right operand
/// transposed. dpc converts both operands for every GEMM: it reads a 16-bit
/// operand to find its largest element, reads it again, and writes the fp8
/// values. This takes five launches: one clears the two maxima, and each
/// operand needs one kernel to find its maximum and one to convert its
/// elements.
static double fp8Seconds(MatmulOp op, const Fp8Sizes &sizes,
                         const OpPricing &pricing) {
  const cost::Device &device = pricing.device;
  const cost::Software &software = pricing.software;
  cost::GemmShape shape{.m = sizes.m,
                        .n = sizes.n,
                        .k = sizes.k,
                        .transB = true,
                        .resultBytes = elementBytes(op.getResult())};
  auto left = static_cast<double>(sizes.m * sizes.k);
  auto right = static_cast<double>(sizes.n * sizes.k);
  // Only the GEMMs of weight gradients transpose the left operand
  // (passes/graph/vjp/Contraction.cpp). In all others, a weight is on the
  // right.
  bool isCached = software.fp8CachedWeights && !op.getTa();
  if (isCached)
    right /= static_cast<double>(pricing.microBatches);
  int moreLaunches = // streamSeconds includes one
      software.fp8CachedWeights ? (isCached ? 0 : 1) : 4;
  return cost::gemmSeconds(device, cost::DType::FP8, shape) +
         moreLaunches * device.launchSeconds +
         cost::streamSeconds(device, software.fp8CastBytes * (left + right));
}

static double matmulSeconds(MatmulOp op, const OpPricing &pricing) {
  const cost::Device &device = pricing.device;
  if (std::optional<Fp8Sizes> sizes = fp8SizesOf(op);
      sizes && device.peak(cost::DType::FP8) > 0)
    return fp8Seconds(op, *sizes, pricing);
  ArrayRef<int64_t> a = op.getA().getType().getShape();
  ArrayRef<int64_t> out = op.getResult().getType().getShape();
  cost::GemmShape shape;
  shape.k = a[op.getTa() ? a.size() - 2 : a.size() - 1];
  shape.m = out[out.size() - 2];
  shape.n = out.back();
  // If all batches share the right matrix, m includes the batch dimensions.
  bool isShared = op.getB().getType().getRank() == 2;
  for (int64_t size : out.drop_back(2))
    (isShared ? shape.m : shape.batch) *= size;
  shape.transA = op.getTa();
  shape.transB = op.getTb();
  return gemmSeconds(op.getA(), shape, device);
}

/// Returns the seconds of the products of `rows` rows with `stacked` matrices
/// of experts, one GEMM each, of equal sizes.
static double expertSeconds(Operation *op, Value stacked, int64_t rows,
                            const OpPricing &pricing) {
  const cost::Device &device = pricing.device;
  ArrayRef<int64_t> w = shapeOf(stacked);
  cost::GemmShape shape;
  shape.batch = std::max<int64_t>(1, std::min(w[0], rows));
  rows = llvm::divideCeil(rows, shape.batch);
  bool isGrad = isa<ExpertMatmulGradOp>(op);
  auto product = dyn_cast<ExpertMatmulOp>(op);
  shape.transA = isGrad;
  shape.transB = product && product.getTb();
  shape.m = isGrad ? w[1] : rows;
  shape.n = shape.transB ? w[1] : w[2];
  shape.k = isGrad ? rows : shape.transB ? w[2] : w[1];
  const cost::Software &software = pricing.software;
  if (!pricing.hasFp8 || !software.fp8Experts ||
      device.peak(cost::DType::FP8) <= 0)
    return gemmSeconds(op->getOperand(0), shape, device);
  auto batch = static_cast<double>(shape.batch);
  double left = batch * static_cast<double>(shape.m * shape.k),
         right = batch * static_cast<double>(shape.n * shape.k);
  if (!isGrad && software.fp8CachedWeights)
    right /= static_cast<double>(pricing.microBatches);
  shape.transB = true;
  shape.resultBytes = elementBytes(op->getResult(0));
  return cost::gemmSeconds(device, cost::DType::FP8, shape) +
         cost::streamSeconds(device, software.fp8CastBytes * (left + right));
}

/// Returns the stacked matrices of a product of experts.
static Value stackedOf(Operation *op) {
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return product.getW();
  return op->getResult(0);
}

/// Returns the seconds of a product of experts. If the experts are split, this
/// is the time of the rank that the expected routing gives the most rows.
static double expertSeconds(Operation *op, std::optional<Type> global,
                            const OpPricing &pricing) {
  Value stacked = stackedOf(op);
  int64_t own = shapeOf(stacked)[0];
  int64_t all = global ? cast<RankedTensorType>(*global).getDimSize(0) : own;
  int64_t rows =
      llvm::divideCeil(tensorType(op->getOperand(1)).getNumElements() * own,
                       std::max<int64_t>(1, all));
  if (own < all)
    rows = std::llround(rows * expertLoad(op, own));
  return expertSeconds(op, stacked, rows, pricing);
}

/// Returns the seconds of the tiles of the rank with the most rows. Tiles are
/// in the order of the experts, so that the products of all tiles cost as much
/// as those of all rows, besides the launches. The other ops run on whole
/// tiles.
static double tilesSeconds(ExpertTilesOp op, const OpPricing &pricing) {
  const cost::Device &device = pricing.device;
  auto global = cast<RankedTensorType>(op.getGlobal());
  double load = expertLoad(op, localType(global).getDimSize(0));
  int64_t rows = std::llround(expectedRows(op) * load);
  auto tiles = static_cast<double>(expectedTiles(op, load));
  Block &block = op.getBody().front();
  double seconds = 0;
  for (Operation &inner : block.without_terminator())
    seconds += isa<ExpertMatmulOp, ExpertMatmulGradOp>(inner)
                   ? expertSeconds(&inner, stackedOf(&inner), rows, pricing) +
                         (tiles - 1) * device.launchSeconds
                   : tiles * opSeconds(&inner, pricing);
  auto copy = [&](Value tile, double accesses) {
    seconds +=
        tiles * cost::streamSeconds(
                    device, accesses * static_cast<double>(sizeInBytes(tile)));
  };
  for (auto [tile, share] :
       llvm::zip_equal(block.getArguments().drop_front(), op.getInShares()))
    if (share > 0)
      copy(tile, 2);
  for (auto [number, value] :
       llvm::enumerate(block.getTerminator()->getOperands())) {
    seconds += cost::streamSeconds(
        device, static_cast<double>(sizeInBytes(op->getResult(number))));
    if (!addsInPlace(op, number))
      copy(value, 3);
  }
  return seconds;
}

static double epilogueBytes(Operation *op) {
  double bytes = sumInPlace(op) ? sizeInBytes(tensorType(op->getResult(0))) : 0;
  StringRef epilogue = epilogueOf(op);
  if (epilogue.empty())
    return bytes;
  RankedTensorType result = tensorType(op->getResult(0));
  bytes += static_cast<double>(sizeInBytes(result) -
                               sizeInBytes(matmulOf(op).getResult().getType()));
  if (op->getNumResults() > kEpilogueResult)
    bytes += static_cast<double>(
        sizeInBytes(tensorType(op->getResult(kEpilogueResult))));
  if (epilogue.starts_with("gelu_grad"))
    bytes += sizeInBytes(tensorType(op->getOperand(kEpilogueOperand)));
  else if (epilogue.ends_with("bias"))
    bytes += result.getShape().back() *
             elementBytes(op->getOperand(kEpilogueOperand));
  return bytes;
}

/// A convolution is priced as a GEMM of windows by filters. Its windows are
/// read from the image and not stored. The gradient of the filter is a small
/// matrix whose elements sum over all windows. Libraries split these sums to
/// keep all multiprocessors busy.
static double convSeconds(Operation *op, Value y, Value w,
                          const cost::Device &device) {
  ArrayRef<int64_t> filter = shapeOf(w);
  int64_t filters = std::max<int64_t>(1, filter[0]);
  int64_t windows = tensorType(y).getNumElements() / filters;
  int64_t depth = tensorType(w).getNumElements() / filters;
  cost::GemmShape shape;
  shape.m = isa<ConvGradFilterOp>(op) ? filters : windows;
  shape.n = isa<ConvOp>(op) ? filters : depth;
  shape.k = isa<ConvOp>(op)            ? depth
            : isa<ConvGradInputOp>(op) ? filters
                                       : windows;
  auto count = [&](Value value) {
    shape.elements += tensorType(value).getNumElements();
  };
  llvm::for_each(op->getOperands(), count);
  llvm::for_each(op->getResults(), count);
  constexpr int64_t kFilterParts = 64;
  if (isa<ConvGradFilterOp>(op))
    shape.mostParts = kFilterParts;
  return gemmSeconds(y, shape, device);
}

/// The dimensions of an activation are samples, positions and channels.
static bool isActivation(RankedTensorType type) { return type.getRank() >= 3; }

double dpc::activationBytes(Value value, bool narrow) {
  RankedTensorType type = tensorType(value);
  double bytes = sizeInBytes(type);
  bool isWide = isActivation(type) && type.getElementType().isF32();
  return narrow && isWide ? bytes / 2 : bytes;
}

static std::optional<int64_t> windowOf(Operation *op) {
  auto window = op->getAttrOfType<IntegerAttr>("window");
  return window ? std::optional(window.getInt()) : std::nullopt;
}

static double attentionSeconds(Operation *op, const OpPricing &pricing,
                               double flops) {
  cost::DType type = gemmType(op->getOperand(0), pricing.device);
  if (pricing.software.attention == cost::AttentionKernels::Planned)
    return flops /
           (pricing.device.peak(type) * pricing.device.gemm.peakFraction);
  ArrayRef<int64_t> q = shapeOf(op->getOperand(0));
  ArrayRef<int64_t> v = shapeOf(op->getOperand(2));
  cost::AttentionShape shape{.batch = q[0] * q[1],
                             .queries = q[2],
                             .keys = v[2],
                             .depth = q[3],
                             .valueDepth = v[3],
                             .causal = op->hasAttr("causal"),
                             .backward = isa<AttentionGradOp>(op),
                             .flops = flops,
                             .window = windowOf(op)};
  return cost::attentionSeconds(pricing.device, type, shape, pricing.software);
}

static bool isOfMicroBatch(Operation *op) {
  std::optional<Phase> phase = markedPhase(op);
  return phase && isInLoop(*phase);
}

/// If `op` adds a value to a sum over micro-batches, returns the bytes that the
/// software moves for this. If `op` is a conversion whose result is only used
/// in such sums, returns 0. Returns nothing for all other ops.
static std::optional<double> accumulationBytes(Operation *op,
                                               const cost::Software &software) {
  if (software.accumulationBytes == 0)
    return std::nullopt;
  if (isa<AccumulateOp>(op))
    return software.accumulationBytes *
           static_cast<double>(tensorType(op->getResult(0)).getNumElements());
  bool isConversion = op->getNumResults() == 1 && op->getNumOperands() == 1 &&
                      shapeOf(op->getResult(0)) == shapeOf(op->getOperand(0)) &&
                      !op->use_empty() &&
                      llvm::all_of(op->getUsers(), llvm::IsaPred<AccumulateOp>);
  return isConversion ? std::optional<double>(0) : std::nullopt;
}

double dpc::opSeconds(Operation *op, const OpPricing &pricing) {
  const cost::Device &device = pricing.device;
  if (isa<ReshapeOp, ConstantOp>(op))
    return 0;
  if (MatmulOp matmul = matmulOf(op))
    return matmulSeconds(matmul, pricing) +
           epilogueBytes(op) / cost::achievableBandwidth(device);
  if (auto product = dyn_cast<ExpertMatmulOp>(op))
    return expertSeconds(op, product.getGlobal(), pricing);
  if (auto grad = dyn_cast<ExpertMatmulGradOp>(op))
    return expertSeconds(op, grad.getGlobal(), pricing);
  if (auto tiles = dyn_cast<ExpertTilesOp>(op))
    return tilesSeconds(tiles, pricing);
  if (auto conv = dyn_cast<ConvOp>(op))
    return convSeconds(op, conv.getResult(), conv.getW(), device);
  if (auto grad = dyn_cast<ConvGradInputOp>(op))
    return convSeconds(op, grad.getDy(), grad.getW(), device);
  if (auto grad = dyn_cast<ConvGradFilterOp>(op))
    return convSeconds(op, grad.getDy(), grad.getDw(), device);
  auto costed = dyn_cast<CostOpInterface>(op);
  double flops = costed ? costed.getFlops() : 0;
  if (isa<AttentionOp, AttentionGradOp>(op))
    return attentionSeconds(op, pricing, flops);
  if (std::optional<double> bytes = accumulationBytes(op, pricing.software))
    return cost::streamSeconds(device, *bytes);
  bool inLoop = isOfMicroBatch(op);
  double bytes = 0;
  auto move = [&](Value value) {
    bool grows = inLoop && isActivation(tensorType(value));
    bytes += activationBytes(value, pricing.narrow && inLoop) *
             (grows ? pricing.software.traffic : 1.0);
  };
  llvm::for_each(op->getOperands(), move);
  llvm::for_each(op->getResults(), move);
  return cost::streamSeconds(device, bytes, flops);
}

double dpc::opSeconds(Operation *op, const cost::Device &device) {
  return opSeconds(op, OpPricing{device, cost::Software()});
}
