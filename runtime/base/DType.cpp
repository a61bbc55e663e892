#include "runtime/base/DType.h"

#include <array>
#include <cassert>
#include <cmath>
#include <cstring>

namespace dpc::rt {

namespace {

struct DTypeInfo {
  DType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<DTypeInfo, 22> kTypes = {
    {{DType::F32, "f32", 4},
     {DType::F64, "f64", 8},
     {DType::BF16, "bf16", 2},
     {DType::F16, "f16", 2},
     {DType::I64, "i64", 8},
     {DType::I32, "i32", 4},
     {DType::I16, "i16", 2},
     {DType::I8, "i8", 1},
     {DType::U8, "u8", 1},
     {DType::Bool, "bool", 1},
     {DType::U64, "u64", 8},
     {DType::U32, "u32", 4},
     {DType::U16, "u16", 2},
     {DType::I4, "i4", 1},
     {DType::U4, "u4", 1},
     {DType::I2, "i2", 1},
     {DType::U2, "u2", 1},
     {DType::F8E4M3FN, "f8e4m3fn", 1},
     {DType::F8E4M3FNUZ, "f8e4m3fnuz", 1},
     {DType::F8E5M2, "f8e5m2", 1},
     {DType::F8E5M2FNUZ, "f8e5m2fnuz", 1},
     {DType::F4E2M1, "f4e2m1", 1}}};

const DTypeInfo &infoOf(DType type) {
  const DTypeInfo &info = kTypes[static_cast<size_t>(type)];
  assert(info.type == type && "table out of order");
  return info;
}

template <typename T> T loadAs(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T),
              sizeof(T));
  return value;
}

template <typename T> void storeAs(void *data, int64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

} // namespace

int64_t sizeOf(DType type) { return infoOf(type).bytes; }

std::string_view nameOf(DType type) { return infoOf(type).name; }

std::optional<DType> parseDType(std::string_view name) {
  for (const DTypeInfo &info : kTypes)
    if (info.name == name)
      return info.type;
  return std::nullopt;
}

bool isFloat(DType type) {
  return type == DType::F32 || type == DType::F64 || type == DType::BF16 ||
         type == DType::F16 || narrowFloatOf(type);
}

bool isInteger(DType type) { return !isFloat(type) && type != DType::Bool; }

bool widens(DType from, DType to) {
  return isInteger(from) && isInteger(to) && sizeOf(from) <= sizeOf(to) &&
         !(from == DType::U8 && to == DType::I8);
}

std::optional<NarrowFloat> narrowFloatOf(DType type) {
  switch (type) {
  case DType::F8E4M3FN:
    return NarrowFloat{3, 7, 0x7e, 0x7f, 0x7f, 0x80, true};
  case DType::F8E4M3FNUZ:
    return NarrowFloat{3, 8, 0x7f, 0x80, 0x80, 0x80, false};
  case DType::F8E5M2:
    return NarrowFloat{2, 15, 0x7b, 0x7c, 0x7e, 0x80, true};
  case DType::F8E5M2FNUZ:
    return NarrowFloat{2, 16, 0x7f, 0x80, 0x80, 0x80, false};
  case DType::F4E2M1: // has no NaN: NaN becomes -0, as in ONNX
    return NarrowFloat{1, 1, 0x7, 0x7, 0x8, 0x8, true};
  default:
    return std::nullopt;
  }
}

int64_t numElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

uint16_t floatToBf16(float value) {
  uint32_t bits = bitsOf(value);
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  // Rounds to nearest even by adding 0x7fff, or 0x8000 if bit 16 is 1.
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

float bf16ToFloat(uint16_t bits) {
  return floatOf(static_cast<uint32_t>(bits) << 16);
}

uint16_t floatToF16(float value) {
  uint32_t bits = bitsOf(value);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00; // NaN
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00; // rounds to infinity
  if (magnitude < 0x38800000) {
    // Subnormal result. The lowest mantissa bit of 0.5f is worth 2^-24, like
    // the lowest bit of an f16 subnormal, so the addition rounds correctly.
    float shifted = floatOf(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(bitsOf(shifted) - bitsOf(0.5f));
  }
  uint32_t odd = (magnitude >> 13) & 1;
  magnitude += 0xfff + odd;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000) >> 13);
}

float f16ToFloat(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f)
    return floatOf(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  return floatOf(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint8_t floatToNarrow(float value, const NarrowFloat &format) {
  uint32_t bits = bitsOf(value), magnitude = bits & 0x7fffffff;
  int shift = 23 - format.mantissaBits;
  if (magnitude > 0x7f800000)
    return static_cast<uint8_t>(format.nan);
  uint32_t code;
  if (magnitude < static_cast<uint32_t>(128 - format.bias) << 23) {
    // Subnormal result, rounded by an addition as in floatToF16.
    float unit = std::ldexp(1.0f, 24 - format.bias - format.mantissaBits);
    code = bitsOf(floatOf(magnitude) + unit) - bitsOf(unit);
  } else {
    uint32_t odd = (magnitude >> shift) & 1;
    code = ((magnitude + (1u << (shift - 1)) - 1 + odd) >> shift) -
           (static_cast<uint32_t>(127 - format.bias) << format.mantissaBits);
  }
  if (code > static_cast<uint32_t>(format.largest))
    code = format.beyond;
  if (code == 0 && !format.negativeZero)
    return 0;
  return static_cast<uint8_t>(code | (bits >> 31 ? format.signBit : 0));
}

float narrowToFloat(uint8_t code, const NarrowFloat &format) {
  bool isNegative = code & format.signBit;
  int magnitude = code & (format.signBit - 1);
  if (!format.negativeZero && code == format.nan)
    return floatOf(0x7fc00000);
  float value;
  if (magnitude > format.largest)
    value = floatOf(magnitude == format.beyond && format.beyond != format.nan
                        ? 0x7f800000
                        : 0x7fc00000);
  else
    value = std::ldexp(
        floatOf(static_cast<uint32_t>(magnitude) << (23 - format.mantissaBits)),
        127 - format.bias);
  return isNegative ? -value : value;
}

/// Returns use(T()) for the C++ type T of an element: uint16_t for bf16 and
/// f16. Narrow floats are not accepted.
template <typename F> static auto withStored(DType type, F &&use) {
  switch (type) {
  case DType::F32:
    return use(float());
  case DType::F64:
    return use(double());
  case DType::I64:
    return use(int64_t());
  case DType::I32:
    return use(int32_t());
  case DType::I16:
    return use(int16_t());
  case DType::I8:
  case DType::I4:
  case DType::I2:
    return use(int8_t());
  case DType::U64:
    return use(uint64_t());
  case DType::U32:
    return use(uint32_t());
  case DType::U16:
  case DType::BF16:
  case DType::F16:
    return use(uint16_t());
  default:
    return use(uint8_t());
  }
}

double loadAsDouble(const void *data, DType type, int64_t index) {
  if (std::optional<NarrowFloat> format = narrowFloatOf(type))
    return narrowToFloat(loadAs<uint8_t>(data, index), *format);
  if (type == DType::BF16)
    return bf16ToFloat(loadAs<uint16_t>(data, index));
  if (type == DType::F16)
    return f16ToFloat(loadAs<uint16_t>(data, index));
  return withStored(type, [&](auto zero) {
    return static_cast<double>(loadAs<decltype(zero)>(data, index));
  });
}

void storeFromDouble(void *data, DType type, int64_t index, double value) {
  auto narrow = static_cast<float>(value);
  if (std::optional<NarrowFloat> format = narrowFloatOf(type))
    return storeAs(data, index, floatToNarrow(narrow, *format));
  if (type == DType::BF16)
    return storeAs(data, index, floatToBf16(narrow));
  if (type == DType::F16)
    return storeAs(data, index, floatToF16(narrow));
  if (type == DType::Bool)
    return storeAs(data, index, static_cast<uint8_t>(value != 0));
  withStored(type, [&](auto zero) {
    storeAs(data, index, static_cast<decltype(zero)>(value));
  });
}

} // namespace dpc::rt
