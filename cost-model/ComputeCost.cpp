//===- ComputeCost.cpp - Time of local work on one device -----------------===//

#include "cost-model/ComputeCost.h"

#include <algorithm>
#include <cmath>

namespace dpc::cost {

double GemmShape::flops() const {
  return 2.0 * static_cast<double>(batch) * static_cast<double>(m) *
         static_cast<double>(n) * static_cast<double>(k);
}

double GemmShape::bytes(DType type) const {
  double rows = static_cast<double>(m), columns = static_cast<double>(n);
  double depth = static_cast<double>(k);
  return static_cast<double>(batch) * bytesPerElement(type) *
         (rows * depth + depth * columns + rows * columns);
}

static double ceilDiv(double value, double divisor) {
  return std::ceil(value / divisor);
}

/// Share of the multiprocessors' slots that do real work with tiles tm x tn.
static double usefulShare(const Device &device, const GemmShape &shape,
                          double tm, double tn) {
  double batch = static_cast<double>(shape.batch);
  double m = static_cast<double>(shape.m), n = static_cast<double>(shape.n);
  double slots = static_cast<double>(device.multiprocessors);
  double tiles = batch * ceilDiv(m, tm) * ceilDiv(n, tn);
  return batch * m * n / (ceilDiv(tiles, slots) * slots * tm * tn);
}

static bool isAligned(int64_t elements, DType type, int64_t alignBytes) {
  return elements * bytesPerElement(type) % alignBytes == 0;
}

double gemmEfficiency(const Device &device, DType type,
                      const GemmShape &shape) {
  if (shape.batch <= 0 || shape.m <= 0 || shape.n <= 0 || shape.k <= 0)
    return 0;
  constexpr double ratePerHalving = 0.85;
  const GemmModel &model = device.gemm;
  double best = 0;
  for (int halveM = 0; halveM <= 2; ++halveM)
    for (int halveN = 0; halveN <= 2; ++halveN) {
      double tm =
          static_cast<double>(std::max<int64_t>(1, model.tileM >> halveM));
      double tn =
          static_cast<double>(std::max<int64_t>(1, model.tileN >> halveN));
      double share = usefulShare(device, shape, tm, tn) *
                     std::pow(ratePerHalving, halveM + halveN);
      best = std::max(best, share);
    }
  double k = static_cast<double>(shape.k);
  double depth = k / (k + model.halfK);
  bool aligned = isAligned(shape.k, type, model.alignBytes) &&
                 isAligned(shape.n, type, model.alignBytes);
  return model.peakFraction * best * depth *
         (aligned ? 1.0 : model.misalignedFraction);
}

double gemmSeconds(const Device &device, DType type, const GemmShape &shape) {
  const GemmTable &measured = device.gemm.measured;
  if (type == DType::F32 && !measured.empty() && shape.flops() > 0)
    return device.launchSeconds + shape.flops() / measured.rate(shape);
  double efficiency = gemmEfficiency(device, type, shape);
  if (efficiency <= 0)
    return 0;
  assert(device.peak(type) > 0 && "use computeType first");
  double arithmetic = shape.flops() / (device.peak(type) * efficiency);
  double memory = shape.bytes(type) / achievableBandwidth(device);
  return device.launchSeconds + std::max(arithmetic, memory);
}

double streamSeconds(const Device &device, double bytes, double flops) {
  if (bytes <= 0 && flops <= 0)
    return 0;
  double memory = bytes / achievableBandwidth(device);
  double arithmetic = flops / device.peak(DType::F32);
  return device.launchSeconds + std::max(memory, arithmetic);
}

DType computeType(const Device &device, DType wanted) {
  if (device.peak(wanted) > 0)
    return wanted;
  // 16-bit types stand in for each other: equal width, equal rate.
  if (wanted == DType::BF16 && device.peak(DType::F16) > 0)
    return DType::F16;
  if (wanted == DType::F16 && device.peak(DType::BF16) > 0)
    return DType::BF16;
  // Emulated by the next wider type that the device has.
  if (wanted == DType::FP8)
    return computeType(device, DType::F16);
  return DType::F32;
}

double achievableBandwidth(const Device &device) {
  return device.memoryBytesPerSecond * device.memoryFraction;
}

} // namespace dpc::cost
