#include "runtime/comm/Reduce.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace dpc::rt {

namespace {

/// Elements per block. A block fits into the L1 cache.
constexpr int64_t kBlock = 2048;

struct Sum {
  template <typename T> static T apply(T a, T b) { return a + b; }
};
struct Prod {
  template <typename T> static T apply(T a, T b) { return a * b; }
};
// The result is NaN if an operand is NaN.
struct Max {
  template <typename T> static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T> static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <typename Op, typename T>
void combine(T *__restrict acc, const T *__restrict part, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    acc[i] = Op::apply(acc[i], part[i]);
}

/// Types that are reduced without conversion.
template <typename T> struct Direct {
  using Stored = T;
  using Wide = T;
  static void load(const T *from, T *to, int64_t count) {
    std::memcpy(to, from, count * sizeof(T));
  }
  static void store(const T *from, T *to, int64_t count) {
    std::memcpy(to, from, count * sizeof(T));
  }
};
template <float (*Widen)(uint16_t), uint16_t (*Narrow)(float)> struct Half {
  using Stored = uint16_t;
  using Wide = float;
  static void load(const uint16_t *from, float *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = Widen(from[i]);
  }
  static void store(const float *from, uint16_t *to, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = Narrow(from[i]);
  }
};

template <typename Access, typename Op>
void reduceAs(const std::vector<const void *> &parts, void *out, int64_t first,
              int64_t count) {
  using Stored = typename Access::Stored;
  using Wide = typename Access::Wide;
  alignas(64) Wide acc[kBlock];
  alignas(64) Wide part[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t n = std::min(kBlock, count - begin);
    for (size_t p = 0; p < parts.size(); ++p) {
      const auto *from = static_cast<const Stored *>(parts[p]) + first + begin;
      if (p == 0) {
        Access::load(from, acc, n);
      } else if constexpr (std::is_same_v<Stored, Wide>) {
        combine<Op>(acc, from, n);
      } else {
        Access::load(from, part, n);
        combine<Op>(acc, part, n);
      }
    }
    Access::store(acc, static_cast<Stored *>(out) + begin, n);
  }
}

} // namespace

void reduceParts(const std::vector<const void *> &parts, void *out,
                 int64_t first, int64_t count, DType type, ReduceKind kind) {
  auto as = [&]<typename Access>(Access) {
    switch (kind) {
    case ReduceKind::Sum:
      return reduceAs<Access, Sum>(parts, out, first, count);
    case ReduceKind::Max:
      return reduceAs<Access, Max>(parts, out, first, count);
    case ReduceKind::Min:
      return reduceAs<Access, Min>(parts, out, first, count);
    case ReduceKind::Prod:
      return reduceAs<Access, Prod>(parts, out, first, count);
    }
  };
  switch (type) {
  case DType::F32:
    return as(Direct<float>());
  case DType::F64:
    return as(Direct<double>());
  case DType::I64:
    return as(Direct<int64_t>());
  case DType::I32:
    return as(Direct<int32_t>());
  case DType::I16:
    return as(Direct<int16_t>());
  case DType::I8:
  case DType::I4:
  case DType::I2:
    return as(Direct<int8_t>());
  case DType::U64:
    return as(Direct<uint64_t>());
  case DType::U32:
    return as(Direct<uint32_t>());
  case DType::U16:
    return as(Direct<uint16_t>());
  case DType::U8:
  case DType::U4:
  case DType::U2:
  case DType::Bool:
    return as(Direct<uint8_t>());
  case DType::BF16:
    return as(Half<bf16ToFloat, floatToBf16>());
  case DType::F16:
    return as(Half<f16ToFloat, floatToF16>());
  default:
    assert(false && "type cannot be reduced");
  }
}

} // namespace dpc::rt
