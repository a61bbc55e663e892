#include "runtime/facts/NearSamples.h"

#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/base/Percent.h"
#include "runtime/base/Random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::rt {

/// Samples with fewer numbers have near neighbors by chance.
static constexpr int64_t kLeastNumbers = 4;

/// The most numbers of an input that are projected, evenly spaced.
static constexpr int64_t kMostPerSample = 512;

NearSamples::NearSamples(const SampleShape &shape) : shape(shape) {
  constexpr int64_t kMostNumbers = int64_t(1) << 20;
  int64_t numbers = 0;
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    if (!isFloat(port.dtype) || port.use != InputUse::Data ||
        port.dependence.isTarget)
      continue;
    numbers += shape.elements[i];
    inputs.push_back(i);
  }
  if (numbers < kLeastNumbers || numbers > kMostNumbers)
    inputs.clear();
  const RandomStream stream(1, "projections");
  for (size_t input : inputs)
    for (int64_t k = 0; k < std::min(shape.elements[input], kMostPerSample);
         ++k)
      signsOf.push_back(stream.bits(signsOf.size()));
}

void NearSamples::add(const SampleArrays &sample) {
  constexpr size_t kMostPoints = size_t(1) << 17;
  if (inputs.empty() || points.size() >= kMostPoints)
    return;
  Point point{};
  size_t place = 0;
  for (size_t input : inputs) {
    const int64_t count = std::min(shape.elements[input], kMostPerSample);
    for (int64_t k = 0; k < count; ++k) {
      const auto value = static_cast<float>(
          loadAsDouble(sample[input], shape.ports[input].dtype,
                       k * shape.elements[input] / count));
      const uint64_t signs = signsOf[place++];
      for (size_t i = 0; i < kProjections; ++i)
        point[i] += (signs >> i & 1) == 0 ? value : -value;
    }
  }
  if (std::ranges::all_of(point, [](float x) { return std::isfinite(x); }))
    points.push_back(point);
}

bool NearSamples::isComparable(const NearSamples &other) const {
  constexpr size_t kLeastPoints = 32;
  bool isSame = inputs == other.inputs && !inputs.empty() &&
                std::min(points.size(), other.points.size()) >= kLeastPoints;
  for (size_t i = 0; isSame && i < inputs.size(); ++i)
    isSame = shape.ports[inputs[i]].name == other.shape.ports[inputs[i]].name &&
             shape.elements[inputs[i]] == other.shape.elements[inputs[i]];
  return isSame;
}

/// Returns the distances of some points, evenly spaced, to the nearest point of
/// `training` that does not equal them, in ascending order.
std::vector<double>
NearSamples::distancesTo(const NearSamples &training) const {
  constexpr size_t kMost = 256;
  const size_t count = std::min(points.size(), kMost);
  std::vector<double> distances;
  distances.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Point &own = points[i * points.size() / count];
    float nearest = std::numeric_limits<float>::infinity();
    for (const Point &other : training.points) {
      float distance = 0;
      for (size_t k = 0; k < kProjections; ++k)
        distance += (own[k] - other[k]) * (own[k] - other[k]);
      if (distance > 0)
        nearest = std::min(nearest, distance);
    }
    distances.push_back(std::sqrt(nearest));
  }
  std::ranges::sort(distances);
  return distances;
}

std::string NearSamples::text(const NearSamples &training,
                              const std::string &source,
                              const NearSamples &heldOut) {
  constexpr double kNear = 0.1; // of the usual distance
  constexpr int64_t kLeastShare = 10, kMoreOften = 3;
  if (!heldOut.isComparable(training))
    return "";
  const std::vector<double> usual = training.distancesTo(training);
  const std::vector<double> found = heldOut.distancesTo(training);
  const double limit = kNear * usual[usual.size() / 2];
  if (!(limit > 0) || !std::isfinite(limit))
    return "";
  auto nearIn = [&](const std::vector<double> &distances) {
    return std::ranges::lower_bound(distances, limit) - distances.begin();
  };
  const auto count = static_cast<int64_t>(found.size());
  const int64_t near = nearIn(found);
  // Samples of one kind are as near to each other within either part.
  auto isUsual = [&](const std::vector<double> &others) {
    return near * static_cast<int64_t>(others.size()) <
           kMoreOften * nearIn(others) * count;
  };
  if (kLeastShare * near < count || isUsual(usual) ||
      isUsual(heldOut.distancesTo(heldOut)))
    return "";
  return concat(
      percent(near, count),
      " of the samples of --eval-data are nearly equal to samples of ", source,
      ": were augmented or noisy copies split?");
}

} // namespace dpc::rt
