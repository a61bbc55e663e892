//===- DTypes.cpp - Element types of plans --------------------------------===//
#include "codegen/kernel/DTypes.h"

using namespace mlir;

namespace dpc::codegen {

std::optional<rt::DType> dtypeOf(Type type) {
  using rt::DType;
  if (auto integer = dyn_cast<IntegerType>(type)) {
    unsigned width = integer.getWidth();
    if (width == 1)
      return DType::Bool;
    return rt::parseDType((integer.isUnsigned() ? "u" : "i") +
                          std::to_string(width));
  }
  return TypeSwitch<Type, std::optional<DType>>(type)
      .Case([](Float32Type) { return DType::F32; })
      .Case([](Float64Type) { return DType::F64; })
      .Case([](BFloat16Type) { return DType::BF16; })
      .Case([](Float16Type) { return DType::F16; })
      .Case([](Float8E4M3FNType) { return DType::F8E4M3FN; })
      .Case([](Float8E4M3FNUZType) { return DType::F8E4M3FNUZ; })
      .Case([](Float8E5M2Type) { return DType::F8E5M2; })
      .Case([](Float8E5M2FNUZType) { return DType::F8E5M2FNUZ; })
      .Case([](Float4E2M1FNType) { return DType::F4E2M1; })
      .Default([](Type) { return std::nullopt; });
}

} // namespace dpc::codegen
