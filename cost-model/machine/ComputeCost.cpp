//===- ComputeCost.cpp - Time of local work on one device -----------------===//

#include "cost-model/machine/ComputeCost.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::cost {

double GemmShape::flops() const {
  return 2.0 * double(batch) * double(m) * double(n) * double(k);
}

double GemmShape::bytes(DType type) const {
  if (elements > 0)
    return static_cast<double>(elements) * bytesPerElement(type);
  double rows = double(m), columns = double(n), depth = double(k);
  double width = bytesPerElement(type);
  double result = resultBytes > 0 ? double(resultBytes) : width;
  return double(batch) *
         (width * (rows * depth + depth * columns) + result * rows * columns);
}

static double ceilDiv(double value, double divisor) {
  return std::ceil(value / divisor);
}

/// Returns whether the rows of operands (k elements) and result are aligned.
static bool isAligned(const GemmShape &shape, DType type, int64_t alignBytes) {
  int64_t width = bytesPerElement(type),
          result = shape.resultBytes > 0 ? shape.resultBytes : width;
  return shape.k * width % alignBytes == 0 &&
         shape.n * result % alignBytes == 0;
}

namespace {

struct Tiling {
  double tm = 1, tn = 1;
  double split = 1; ///< The number of parts of k.
};

} // namespace

/// Returns the rate relative to the largest tiles, which load the least.
static double intensity(const GemmModel &model, const Tiling &tiling) {
  double c = model.operandCost;
  double largest = 1 / static_cast<double>(model.tileM) +
                   1 / static_cast<double>(model.tileN);
  return (1 + c * largest) / (1 + c * (1 / tiling.tm + 1 / tiling.tn));
}

static double tileCount(const GemmShape &shape, const Tiling &tiling) {
  return double(shape.batch) * ceilDiv(double(shape.m), tiling.tm) *
         ceilDiv(double(shape.n), tiling.tn) * tiling.split;
}

/// Returns the seconds to compute the tiles and to write and read partial sums.
static double tiledSeconds(const Device &device, DType type,
                           const GemmShape &shape, const Tiling &tiling) {
  double slots = static_cast<double>(device.multiprocessors);
  double depth = double(shape.k) / tiling.split + device.gemm.halfK;
  double steps =
      ceilDiv(tileCount(shape, tiling), slots) * tiling.tm * tiling.tn * depth;
  double rate = device.peak(type) / 2 / slots * device.gemm.peakFraction *
                intensity(device.gemm, tiling);
  double seconds = steps / rate;
  if (tiling.split > 1)
    seconds += 8 * tiling.split * double(shape.batch) * double(shape.m) *
               double(shape.n) / achievableBandwidth(device);
  return seconds;
}

static double arithmeticSeconds(const Device &device, DType type,
                                const GemmShape &shape) {
  const GemmModel &model = device.gemm;
  double slots = static_cast<double>(device.multiprocessors);
  double best = std::numeric_limits<double>::infinity();
  // A part with a smaller k is not worth its partial sums.
  constexpr int64_t kLeastDepth = 256;
  for (auto [first, second] : {std::pair(model.tileM, model.tileN),
                               std::pair(model.tileN, model.tileM)})
    for (int halve = 0; halve < 9; ++halve) {
      Tiling tiling;
      tiling.tm = double(std::max<int64_t>(1, first >> halve / 3));
      tiling.tn = double(std::max<int64_t>(1, second >> halve % 3));
      double tiles = tileCount(shape, tiling);
      best = std::min(best, tiledSeconds(device, type, shape, tiling));
      for (int64_t split = 2; split <= shape.mostParts; split *= 2) {
        if (tiles >= slots || shape.k < kLeastDepth * split)
          break;
        tiling.split = static_cast<double>(split);
        best = std::min(best, tiledSeconds(device, type, shape, tiling));
      }
    }
  bool aligned = isAligned(shape, type, model.alignBytes);
  return best / (aligned ? 1.0 : model.misalignedFraction);
}

static bool isEmpty(const GemmShape &shape) {
  return shape.batch <= 0 || shape.m <= 0 || shape.n <= 0 || shape.k <= 0;
}

double gemmEfficiency(const Device &device, DType type,
                      const GemmShape &shape) {
  if (isEmpty(shape))
    return 0;
  return shape.flops() / device.peak(type) /
         arithmeticSeconds(device, type, shape);
}

double gemmSeconds(const Device &device, DType type, const GemmShape &shape) {
  const GemmTable &measured = device.gemm.measured;
  if (type == DType::F32 && !measured.empty() && shape.flops() > 0)
    return device.launchSeconds + shape.flops() / measured.rate(shape);
  if (isEmpty(shape))
    return 0;
  assert(device.peak(type) > 0 && "use computeType first");
  double memory = shape.bytes(type) / achievableBandwidth(device);
  return device.launchSeconds + device.gemm.rampSeconds +
         std::max(arithmeticSeconds(device, type, shape), memory);
}

double narrowGemmSeconds(const Device &device, DType wanted,
                         const GemmShape &shape) {
  DType type = computeType(device, wanted);
  double seconds = gemmSeconds(device, type, shape);
  bool isNarrow = bytesPerElement(wanted) < bytesPerElement(DType::F32);
  if (!isNarrow || isEmpty(shape))
    return seconds;
  double elements =
      shape.bytes(DType::F32) / double(bytesPerElement(DType::F32));
  return seconds + elements * device.narrowElementSeconds;
}

double streamSeconds(const Device &device, double bytes, double flops) {
  if (bytes <= 0 && flops <= 0)
    return 0;
  double memory = bytes / achievableBandwidth(device);
  double arithmetic = flops / device.scalarRate();
  return device.launchSeconds + std::max(memory, arithmetic);
}

/// Returns seconds of unfused attention (Software.h): GEMMs and row kernels.
static double unfusedSeconds(const Device &device, DType type,
                             const AttentionShape &shape,
                             const Software &software) {
  GemmShape scores{shape.batch, shape.queries, shape.keys, shape.depth};
  GemmShape values{shape.batch, shape.queries, shape.valueDepth, shape.keys};
  double products =
      gemmSeconds(device, type, scores) + gemmSeconds(device, type, values);
  double count =
      double(shape.batch) * double(shape.queries) * double(shape.keys);
  double rows = shape.backward ? 6 : shape.causal ? 3 : 4;
  double seconds =
      (shape.backward ? 2 : 1) * products + streamSeconds(device, rows * count);
  if (software.attentionDropout)
    seconds += streamSeconds(device, 5 * count);
  return seconds;
}

/// Returns the FLOP/s of fused attention.
static double fusedRate(const Device &device, DType type,
                        const AttentionShape &shape, const Software &software) {
  const AttentionRate &cudnn =
      shape.backward ? device.cudnnBackward : device.cudnnForward;
  bool isHalf = type == DType::BF16 || type == DType::F16;
  if (software.attention != AttentionKernels::FusedCudnn || !isHalf ||
      cudnn.flops == 0)
    return device.peak(type) * (shape.backward ? device.attentionBackward
                                               : device.attentionForward);
  // Without a mask all blocks of keys are whole, so that shorter sequences
  // reach the rate: about 250 keys for half of it (cuDNN's benchmark).
  constexpr double kWholeHalf = 250;
  double half =
      shape.causal ? cudnn.halfLength : std::min(cudnn.halfLength, kWholeHalf);
  // Kernels compute whole blocks of keys. A causal row of S / 2 keys on average
  // has one block that is masked in part, and a window of w keys has two, so
  // that the same share of the work is lost for S = w.
  auto keys = static_cast<double>(
      std::min(shape.keys, shape.window.value_or(shape.keys)));
  return cudnn.flops * keys / (keys + half);
}

double attentionSeconds(const Device &device, DType type,
                        const AttentionShape &shape, const Software &software) {
  assert(software.attention != AttentionKernels::Planned &&
         "the plan has these kernels");
  if (software.attention == AttentionKernels::Unfused)
    return unfusedSeconds(device, type, shape, software);
  assert(device.hasFusedAttention() && "checked by parseCluster");
  return device.launchSeconds +
         shape.flops / (fusedRate(device, type, shape, software) *
                        software.attentionRate);
}

DType computeType(const Device &device, DType wanted) {
  if (device.peak(wanted) > 0)
    return wanted;
  // bf16 and f16 have the same rate, so either can replace the other.
  if (wanted == DType::BF16 && device.peak(DType::F16) > 0)
    return DType::F16;
  if (wanted == DType::F16 && device.peak(DType::BF16) > 0)
    return DType::BF16;
  if (wanted == DType::FP8)
    return computeType(device, DType::F16);
  return DType::F32;
}

double achievableBandwidth(const Device &device) {
  return device.memoryBytesPerSecond * device.memoryFraction;
}

} // namespace dpc::cost
