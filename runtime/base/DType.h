//===- DType.h - element types ----------------------------------*- C++ -*-===//
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace dpc::rt {

/// The types of tensor elements. Elements are little-endian in memory. A bool
/// is one byte, 0 or 1. A type with fewer than 8 bits occupies a whole byte.
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
/// Returns the name that plans and messages use: "f32", "bf16", "bool", ...
std::string_view nameOf(DType type);
std::optional<DType> parseDType(std::string_view name);
bool isFloat(DType type);
bool isInteger(DType type);
/// Returns whether an input of integer type `from` is accepted where `to` is
/// expected, for example i32 labels for i64 labels.
bool widens(DType from, DType to);

/// Returns the number of elements of a tensor with this shape (1 for a scalar).
int64_t numElements(const std::vector<int64_t> &shape);

/// Conversions between float and the bits of bf16 or f16. Round to even.
uint16_t floatToBf16(float value);
float bf16ToFloat(uint16_t bits);
uint16_t floatToF16(float value);
float f16ToFloat(uint16_t bits);

/// How a float type with at most 8 bits is encoded.
struct NarrowFloat {
  int mantissaBits;
  int bias;
  int largest;       ///< code of the largest finite number
  int beyond;        ///< code of infinity and of numbers above `largest`
  int nan;           ///< code of NaN
  int signBit;       ///< code with only the sign bit set
  bool negativeZero; ///< whether -0 has a code
};

/// Returns nullopt for floats with more than 8 bits and for other types.
std::optional<NarrowFloat> narrowFloatOf(DType type);

/// Conversions between float and the codes of `format`. Round to even.
uint8_t floatToNarrow(float value, const NarrowFloat &format);
float narrowToFloat(uint8_t code, const NarrowFloat &format);

/// Load and store element `index` of an array as a double. A store to an
/// integer type truncates; a store to a float type rounds.
double loadAsDouble(const void *data, DType type, int64_t index);
void storeFromDouble(void *data, DType type, int64_t index, double value);

} // namespace dpc::rt
