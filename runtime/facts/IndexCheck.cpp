#include "runtime/facts/IndexCheck.h"

#include "runtime/base/HostTensor.h"

#include <cstring>
#include <utility>

namespace dpc::rt {

bool isIndex(const Port &port) {
  return port.limit > port.first && isInteger(port.dtype);
}

template <typename T> static bool accepts(const Port &port, T value) {
  return (std::cmp_greater_equal(value, port.first) &&
          std::cmp_less(value, port.limit)) ||
         (port.ignored && std::cmp_equal(value, *port.ignored));
}

bool acceptsIndex(const Port &port, int64_t value) {
  return !isIndex(port) || accepts(port, value);
}

template <typename T>
static std::optional<InvalidIndex> find(const Port &port, const void *data,
                                        int64_t count) {
  const char *bytes = static_cast<const char *>(data);
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof value, sizeof value);
    if (!accepts(port, value))
      return InvalidIndex{i, std::to_string(value)};
  }
  return std::nullopt;
}

std::optional<InvalidIndex> findInvalidIndex(const Port &port, DType dtype,
                                             const void *data, int64_t count) {
  if (!isIndex(port))
    return std::nullopt;
  switch (dtype) {
  case DType::I64:
    return find<int64_t>(port, data, count);
  case DType::I32:
    return find<int32_t>(port, data, count);
  case DType::U64:
    return find<uint64_t>(port, data, count);
  default:
    // A double represents all values of the other integer types.
    for (int64_t i = 0; i < count; ++i) {
      auto value = static_cast<int64_t>(loadAsDouble(data, dtype, i));
      if (!accepts(port, value))
        return InvalidIndex{i, std::to_string(value)};
    }
    return std::nullopt;
  }
}

std::string expectedIndexes(const Port &port) {
  std::string text =
      std::to_string(port.first) + " to " + std::to_string(port.limit - 1);
  if (port.ignored)
    text += ", or " + std::to_string(*port.ignored) + " (ignored)";
  return text;
}

std::optional<int64_t> wrapped(int64_t value, DType dtype) {
  bool isUnsigned =
      dtype == DType::U8 || dtype == DType::U16 || dtype == DType::U32;
  if (!isUnsigned || value >= 0)
    return std::nullopt;
  return value + (int64_t(1) << (8 * sizeOf(dtype)));
}

/// Returns "; as u8, -100 becomes 156" if that explains `value`, or "".
static std::string wrappedText(const Port &port, const std::string &value) {
  for (DType dtype : {DType::U8, DType::U16, DType::U32})
    if (auto label = wrapped(port.ignored.value_or(0), dtype);
        label && std::to_string(*label) == value)
      return concat("; as ", nameOf(dtype), ", ", *port.ignored, " becomes ",
                    value);
  return "";
}

Status checkIndexes(const Port &port, DType dtype, const void *data,
                    int64_t count, const std::string &place) {
  auto bad = findInvalidIndex(port, dtype, data, count);
  if (!bad)
    return Status::success();
  return Status::invalid(place, ": element ", bad->position, " of input '",
                         port.name, "' is ", bad->value, ", expected ",
                         expectedIndexes(port), wrappedText(port, bad->value));
}

} // namespace dpc::rt
