// An NCCL library whose version is too old.
#include "runtime/cuda/NcclApi.h"

// NOLINTNEXTLINE(readability-identifier-naming): NCCL's name
extern "C" ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION(2, 18, 5);
  return ncclSuccess;
}
