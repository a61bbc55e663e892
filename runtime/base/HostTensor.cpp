#include "runtime/base/HostTensor.h"

#include <cstring>

namespace dpc::rt {

HostTensor HostTensor::zeros(DType dtype, std::vector<int64_t> shape) {
  HostTensor tensor{dtype, std::move(shape), {}};
  tensor.data.resize(tensor.elements() * sizeOf(dtype));
  return tensor;
}

std::string describe(DType dtype, const std::vector<int64_t> &shape) {
  std::string text(nameOf(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ']';
}

/// Loads an I64 exactly; a double would keep only 53 bits.
static int64_t loadAsInteger(const void *data, DType type, int64_t index) {
  if (type != DType::I64)
    return static_cast<int64_t>(loadAsDouble(data, type, index));
  int64_t value;
  std::memcpy(&value, static_cast<const char *>(data) + index * 8, 8);
  return value;
}

void convertElements(const void *from, DType fromType, void *to, DType toType,
                     int64_t count) {
  if (fromType == toType) {
    std::memcpy(to, from, count * sizeOf(toType));
    return;
  }
  if (toType == DType::I64 && !isFloat(fromType)) {
    auto *out = static_cast<char *>(to);
    for (int64_t i = 0; i < count; ++i) {
      int64_t value = loadAsInteger(from, fromType, i);
      std::memcpy(out + i * 8, &value, 8);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    storeFromDouble(to, toType, i, loadAsDouble(from, fromType, i));
}

} // namespace dpc::rt
