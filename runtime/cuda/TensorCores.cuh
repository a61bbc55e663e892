// Instructions of a warp for products of 16-bit matrices (sm_80 and later).
// ExpertKernelTest.cpp defines the same functions for the host.
#ifndef DPC_RUNTIME_CUDA_TENSORCORES_CUH
#define DPC_RUNTIME_CUDA_TENSORCORES_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

__device__ unsigned sharedAddress(const void *shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Begins to copy 16 bytes. Writes zeros if `isValid` is false.
__device__ void copyAsync(void *shared, const void *global, bool isValid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   sharedAddress(shared)),
               "l"(global), "r"(isValid ? 16 : 0)
               : "memory");
}

// Ends a group of copies, which may be empty.
__device__ void commitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `kPending` of this thread's groups are not finished.
template <int kPending> __device__ void waitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// Loads four 8 x 8 matrices of 16-bit elements. Lane 8 i + j passes row j of
// matrix i. Lane 4 r + c gets elements 2 c and 2 c + 1 of row r of each matrix,
// or with `kTransposes` of column r.
template <bool kTransposes>
__device__ void loadMatrices(unsigned (&to)[4], const void *row) {
  if constexpr (kTransposes)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
                 "{%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(sharedAddress(row))
                 : "memory");
}

// Adds a 16 x 16 matrix times a 16 x 8 matrix to a 16 x 8 matrix, with the
// elements of each lane as in the PTX ISA's m16n8k16.
template <typename T>
__device__ void multiplyAdd(float (&sums)[4], const unsigned (&a)[4],
                            unsigned b0, unsigned b1);

#define DPC_MULTIPLY_ADD(T, name)                                              \
  template <>                                                                  \
  __device__ void multiplyAdd<T>(float (&sums)[4], const unsigned (&a)[4],     \
                                 unsigned b0, unsigned b1) {                   \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." name "." name        \
                 ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "         \
                 "{%0, %1, %2, %3};"                                           \
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0),        \
                   "r"(b1));                                                   \
  }
DPC_MULTIPLY_ADD(__nv_bfloat16, "bf16")
DPC_MULTIPLY_ADD(__half, "f16")
#undef DPC_MULTIPLY_ADD

} // namespace

#endif // DPC_RUNTIME_CUDA_TENSORCORES_CUH
