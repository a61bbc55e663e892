//===- ImageChecks.cpp - the order of the numbers of images ---------------===//
#include "runtime/base/HostTensor.h"
#include "runtime/base/OneLine.h"
#include "runtime/facts/Checks.h"

#include <algorithm>
#include <cmath>

namespace dpc::rt {

namespace {

/// Says that images [C, H, W] have the order of [H, W, C]: along the last
/// dimension, a number resembles the one C places on (the next pixel) more than
/// the next one (another channel), and than the one 2 C places on (the pixel
/// after the next). A season does not fade so.
class InterleavedChannels : public SampleCheck {
public:
  InterleavedChannels(const SampleShape &shape, size_t input)
      : type(shape.ports[input].dtype),
        channels(shape.ports[input].globalShape[1]),
        width(shape.ports[input].globalShape.back()),
        count(shape.elements[input]), name(shape.nameOf(input)), input(input) {}

  void add(const SampleArrays &sample) override {
    constexpr int64_t kMostSamples = 1024, kMostElements = int64_t(1) << 16;
    if (added++ >= kMostSamples)
      return;
    const int64_t most = std::min(count, kMostElements) / width * width;
    double mean = 0;
    for (int64_t i = 0; i < most; ++i)
      mean += loadAsDouble(sample[input], type, i) / static_cast<double>(most);
    for (int64_t i = 0; i < most; ++i) {
      if (i % width + 2 * channels >= width)
        continue;
      auto at = [&](int64_t k) {
        return loadAsDouble(sample[input], type, k) - mean;
      };
      const double own = at(i);
      squares += own * own;
      next += own * at(i + 1);
      pixel += own * at(i + channels);
      farther += own * at(i + 2 * channels);
    }
  }
  std::vector<std::string> texts() const override {
    constexpr int64_t kLeastSamples = 16;
    constexpr double kAlike = 0.5, kMargin = 0.02; // correlations
    constexpr double kFades = 1.2;
    if (added < kLeastSamples || !(squares > 0) || pixel < kAlike * squares ||
        pixel - next < kMargin * squares ||
        squares - farther < kFades * (squares - pixel))
      return {};
    return {concat(name,
                   ": along its last dimension, a number resembles the "
                   "one ",
                   channels,
                   " places on more than the next one: were images of shape "
                   "[height, width, channels] reshaped to [channels, height, "
                   "width] without a transpose?")};
  }

private:
  DType type;
  int64_t channels, width, count;
  std::string name;
  size_t input;
  int64_t added = 0;
  double squares = 0, next = 0, pixel = 0, farther = 0;
};

} // namespace

void addImageChecks(const SampleShape &shape, SampleChecks &checks) {
  constexpr int64_t kLeastSize = 8; // of an image
  for (size_t i = 0; i < shape.ports.size(); ++i) {
    const Port &port = shape.ports[i];
    const std::vector<int64_t> &dims = port.globalShape;
    if (port.use == InputUse::Data && dims.size() == 4 &&
        (dims[1] == 3 || dims[1] == 4) && dims[2] >= kLeastSize &&
        dims[3] >= kLeastSize &&
        shape.elements[i] == dims[1] * dims[2] * dims[3])
      checks.push_back(std::make_unique<InterleavedChannels>(shape, i));
  }
}

} // namespace dpc::rt
