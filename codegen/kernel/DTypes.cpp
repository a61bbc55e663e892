//===- DTypes.cpp - Element types of plans --------------------------------===//
#include "codegen/kernel/DTypes.h"

using namespace mlir;

namespace dpc::codegen {

static std::optional<rt::DType> integerDType(unsigned width, bool isUnsigned) {
  using rt::DType;
  switch (width) {
  case 2:
    return isUnsigned ? DType::U2 : DType::I2;
  case 4:
    return isUnsigned ? DType::U4 : DType::I4;
  case 8:
    return isUnsigned ? DType::U8 : DType::I8;
  case 16:
    return isUnsigned ? DType::U16 : DType::I16;
  case 32:
    return isUnsigned ? DType::U32 : DType::I32;
  case 64:
    return isUnsigned ? DType::U64 : DType::I64;
  default:
    return std::nullopt;
  }
}

std::optional<rt::DType> dtypeOf(Type type) {
  if (type.isF32())
    return rt::DType::F32;
  if (type.isF64())
    return rt::DType::F64;
  if (type.isBF16())
    return rt::DType::BF16;
  if (type.isF16())
    return rt::DType::F16;
  if (type.isInteger(1))
    return rt::DType::Bool;
  if (isa<IntegerType>(type))
    return integerDType(type.getIntOrFloatBitWidth(), type.isUnsignedInteger());
  if (isa<Float8E4M3FNType>(type))
    return rt::DType::F8E4M3FN;
  if (isa<Float8E4M3FNUZType>(type))
    return rt::DType::F8E4M3FNUZ;
  if (isa<Float8E5M2Type>(type))
    return rt::DType::F8E5M2;
  if (isa<Float8E5M2FNUZType>(type))
    return rt::DType::F8E5M2FNUZ;
  if (isa<Float4E2M1FNType>(type))
    return rt::DType::F4E2M1;
  return std::nullopt;
}

} // namespace dpc::codegen
