//===- DType.h - element types ----------------------------------*- C++ -*-===//
#ifndef DPC_RUNTIME_BASE_DTYPE_H
#define DPC_RUNTIME_BASE_DTYPE_H

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// Element types of buffers, little-endian in memory. A bool is one byte, 0 or
/// 1. An element with fewer than 8 bits occupies a whole byte.
enum class DType {
  F32,
  F64,
  BF16,
  F16,
  I64,
  I32,
  I16,
  I8,
  U8,
  Bool,
  U64,
  U32,
  U16,
  I4,
  U4,
  I2,
  U2,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F4E2M1
};

/// Bytes of one element.
int64_t sizeOf(DType type);
/// "f32", "bf16", "bool", ...: the spelling of plans and messages.
std::string_view nameOf(DType type);
/// The inverse of nameOf(); nullopt for other names.
std::optional<DType> parseDType(std::string_view name);
bool isFloat(DType type);
/// Whether the type is neither a float nor bool.
bool isInteger(DType type);
/// Whether an input of integer type `from` is accepted where `to` is expected,
/// for example i32 labels for i64 labels.
bool widens(DType from, DType to);

/// The number of elements of a tensor with this shape (1 for a scalar).
int64_t numElements(const std::vector<int64_t> &shape);

/// Conversions between float and the bits of bf16 or f16. They round to nearest
/// even.
uint16_t floatToBf16(float value);
float bf16ToFloat(uint16_t bits);
uint16_t floatToF16(float value);
float f16ToFloat(uint16_t bits);

/// The encoding of a float type of at most 8 bits.
struct NarrowFloat {
  int mantissaBits;
  int bias;    ///< bias of the exponent
  int largest; ///< code of the largest finite number
  int beyond;  ///< code of values above the largest finite number, infinity
               ///< included
  int nan;     ///< code of NaN
  int signBit; ///< value of the sign bit
  bool negativeZero; ///< whether -0 has a code
};

/// Nullopt for types that are not narrow floats.
std::optional<NarrowFloat> narrowFloatOf(DType type);

/// Conversions between float and codes. They round to nearest even.
uint8_t floatToNarrow(float value, const NarrowFloat &format);
float narrowToFloat(uint8_t code, const NarrowFloat &format);

/// Load and store element `index` of an array as a double. The store rounds to
/// a float type and truncates to an integer type.
double loadAsDouble(const void *data, DType type, int64_t index);
void storeFromDouble(void *data, DType type, int64_t index, double value);

} // namespace dpc::rt

#endif // DPC_RUNTIME_BASE_DTYPE_H
