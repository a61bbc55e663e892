#include "runtime/observe/NumberCheck.h"

#include <cmath>

namespace dpc::rt {

template <typename T> static int64_t firstNanOf(const T *data, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(data[i]))
      return i;
  return -1;
}

int64_t firstNan(const void *data, DType dtype, int64_t count) {
  if (dtype == DType::F32)
    return firstNanOf(static_cast<const float *>(data), count);
  if (dtype == DType::F64)
    return firstNanOf(static_cast<const double *>(data), count);
  if (!isFloat(dtype))
    return -1;
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(loadAsDouble(data, dtype, i)))
      return i;
  return -1;
}

int badness(double value) {
  if (std::isfinite(value))
    return 0;
  return std::isnan(value) ? 3 : value > 0 ? 2 : 1;
}

std::string faultOf(const Tensor &tensor, const void *data, int64_t count) {
  int accepted = tensor.role == TensorRole::State ? 0 : 1;
  for (int64_t i = 0; isFloat(tensor.dtype) && i < count; ++i) {
    double value = loadAsDouble(data, tensor.dtype, i);
    if (badness(value) <= accepted)
      continue;
    const char *spelled = std::isnan(value) ? "nan"
                          : value > 0       ? "inf"
                                            : "-inf";
    return concat(nameOf(tensor.role), " '", tensor.name, "', which held ",
                  spelled, " as the step began");
  }
  return "";
}

} // namespace dpc::rt
