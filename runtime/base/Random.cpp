#include "runtime/base/Random.h"

#include <cmath>

namespace dpc::rt {

/// The finalizer of splitmix64: every input bit affects every output bit.
static uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

RandomStream::RandomStream(uint64_t seed, const std::string &name)
    : key(mix(seed)) {
  for (unsigned char c : name)
    key = mix(key ^ c);
}

uint64_t RandomStream::bits(uint64_t index) const {
  return mix(mix(key ^ index) + key);
}

double RandomStream::normal(uint64_t index) const {
  // Box-Muller transform of `u` in (0, 1] and `v` in [0, 1).
  constexpr double scale = 1.0 / 9007199254740992.0; // 2^-53
  double u = static_cast<double>((bits(2 * index) >> 11) + 1) * scale;
  double v = static_cast<double>(bits(2 * index + 1) >> 11) * scale;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * v);
}

void fillRandom(HostTensor &tensor, const RandomStream &stream,
                double deviation, int64_t limit, int64_t first) {
  uint64_t range = limit > 0 ? static_cast<uint64_t>(limit) : 2;
  if (tensor.dtype == DType::Bool)
    range = 2;
  int64_t count = tensor.elements();
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, isFloat(tensor.dtype)
                      ? stream.normal(first + i) * deviation
                      : static_cast<double>(stream.bits(first + i) % range));
}

} // namespace dpc::rt
