#include "runtime/io/StoredArray.h"

#include "runtime/base/HostTensor.h"

#include <vector>

namespace dpc::rt {

Status StoredArray::read(int64_t first, int64_t count, DType as,
                         void *to) const {
  int64_t width = sizeOf(dtype), offset = begin + first * width;
  if (dtype == as)
    return file.read(offset, count * width, to);
  std::vector<char> stored(count * width);
  DPC_TRY(file.read(offset, count * width, stored.data()));
  convertElements(stored.data(), dtype, to, as, count);
  return Status::success();
}

} // namespace dpc::rt
