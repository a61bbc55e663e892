#include "runtime/kernels/Matmul.h"

#include "runtime/kernels/Epilogue.h"
#include "runtime/kernels/Fp8.h"

#include <algorithm>
#include <dlfcn.h>
#include <dnnl.hpp>
#include <optional>
#include <vector>

namespace dpc::rt {

namespace {

/// Where a matrix of each operand begins in its buffer, in elements.
struct Offsets {
  int64_t a, b, c;
};
Offsets offsetsOf(const MatmulOp &op, int64_t i, int64_t j) {
  return {op.aOffset + i * op.strideA + j * op.stride2A,
          op.bOffset + i * op.strideB + j * op.stride2B,
          op.cOffset + i * op.strideC + j * op.stride2C};
}

template <typename F> Status forEachMatrix(const MatmulOp &op, F &&run) {
  for (int64_t i = 0; i < op.batch; ++i)
    for (int64_t j = 0; j < op.batch2; ++j)
      DPC_TRY(run(offsetsOf(op, i, j)));
  return Status::success();
}

Status failed(const MatmulOp &op, const std::string &why) {
  return Status::unsupported("oneDNN refused a GEMM of ", op.m, " x ", op.k,
                             " by ", op.k, " x ", op.n, ": ", why);
}

dnnl_status_t sgemm(const MatmulOp &op, int64_t m, const float *a, int64_t lda,
                    const float *b, float *c) {
  return dnnl_sgemm(op.transA ? 'T' : 'N', op.transB ? 'T' : 'N', m, op.n, op.k,
                    static_cast<float>(op.alpha), a, lda, b, op.ldb,
                    static_cast<float>(op.beta), c, op.ldc);
}

/// Returns whether the stored rows of a transposed A are a multiple of a page
/// apart. The rows then share a few cache sets, which halves the speed of sgemm
/// (38 instead of 80 GFLOP/s at 8192 x 256 x 1024 on a Zen 3 core).
bool rowsCollide(const MatmulOp &op) {
  constexpr int64_t kPageFloats = 4096 / sizeof(float);
  return op.transA && op.lda % kPageFloats == 0 && op.k >= 64 && op.n >= 64;
}

/// Multiplies a transposed A in panels of columns. Each panel is copied so that
/// its rows are not a multiple of a page apart. Memory estimates ignore the
/// copy (at most 8 MiB).
dnnl_status_t sgemmByPanels(const MatmulOp &op, const float *a, const float *b,
                            float *c) {
  constexpr int64_t kColumns = 512, kPadding = 16, kRows = 4096;
  thread_local std::vector<float> panel;
  int64_t ld = kColumns + kPadding;
  panel.resize(std::min(kRows, op.k) * ld);
  for (int64_t top = 0; top < op.k; top += kRows) {
    MatmulOp part = op;
    part.k = std::min(kRows, op.k - top);
    part.beta = top == 0 ? op.beta : 1;
    const float *rest = b + top * (op.transB ? 1 : op.ldb);
    for (int64_t first = 0; first < op.m; first += kColumns) {
      int64_t columns = std::min(kColumns, op.m - first);
      for (int64_t row = 0; row < part.k; ++row)
        std::copy_n(a + (top + row) * op.lda + first, columns,
                    panel.data() + row * ld);
      dnnl_status_t status =
          sgemm(part, columns, panel.data(), ld, rest, c + first * op.ldc);
      if (status != dnnl_success)
        return status;
    }
  }
  return dnnl_success;
}

Status matmulF32(const MatmulOp &op, const float *a, const float *b, float *c) {
  bool panels = rowsCollide(op);
  return forEachMatrix(op, [&](Offsets at) {
    dnnl_status_t status =
        panels ? sgemmByPanels(op, a + at.a, b + at.b, c + at.c)
               : sgemm(op, op.m, a + at.a, op.lda, b + at.b, c + at.c);
    return status == dnnl_success
               ? Status::success()
               : failed(op, "status " + std::to_string(status));
  });
}

Status matmulF64(const MatmulOp &op, const double *a, const double *b,
                 double *c) {
  return forEachMatrix(op, [&](Offsets at) {
    for (int64_t i = 0; i < op.m; ++i)
      for (int64_t j = 0; j < op.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < op.k; ++k)
          sum += a[at.a + (op.transA ? k * op.lda + i : i * op.lda + k)] *
                 b[at.b + (op.transB ? j * op.ldb + k : k * op.ldb + j)];
        double &out = c[at.c + i * op.ldc + j];
        out = op.alpha * sum + (op.beta == 0 ? 0 : op.beta * out);
      }
    return Status::success();
  });
}

/// Returns a dense copy of a matrix. element(i) is element i of the buffer.
template <typename T, typename F>
std::vector<T> densely(int64_t offset, int64_t rows, int64_t cols, int64_t ld,
                       F &&element) {
  std::vector<T> out(rows * cols);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out[r * cols + c] = element(offset + r * ld + c);
  return out;
}

/// Returns dense copies of A and B. toElement(data, type, i) reads element i.
template <typename T, typename F>
std::pair<std::vector<T>, std::vector<T>>
denseFactors(const MatmulOp &op, Offsets at, const void *a, DType aType,
             const void *b, DType bType, F &&toElement) {
  auto [aRows, aCols] =
      op.transA ? std::pair(op.k, op.m) : std::pair(op.m, op.k);
  auto [bRows, bCols] =
      op.transB ? std::pair(op.n, op.k) : std::pair(op.k, op.n);
  return {densely<T>(at.a, aRows, aCols, op.lda,
                     [&](int64_t i) { return toElement(a, aType, i); }),
          densely<T>(at.b, bRows, bCols, op.ldb,
                     [&](int64_t i) { return toElement(b, bType, i); })};
}

/// Returns `op` for dense matrices, with alpha 1 and beta 0.
MatmulOp denseOp(const MatmulOp &op) {
  MatmulOp dense = op;
  dense.lda = op.transA ? op.m : op.k;
  dense.ldb = op.transB ? op.k : op.n;
  dense.ldc = op.n;
  dense.aOffset = dense.bOffset = dense.cOffset = 0;
  dense.batch = dense.batch2 = 1;
  dense.alpha = 1;
  dense.beta = 0;
  return dense;
}

/// Computes op(left) * op(right) of dense bf16 matrices, with sums in f32.
class Bf16Gemm {
public:
  explicit Bf16Gemm(const MatmulOp &op)
      : op(op), aDesc({op.m, op.k}, memory::data_type::bf16,
                      strides(op.transA, op.m, op.k)),
        bDesc({op.k, op.n}, memory::data_type::bf16,
              strides(op.transB, op.k, op.n)),
        cDesc({op.m, op.n}, memory::data_type::f32, memory::dims{op.n, 1}) {
    // With AVX-512 alone, oneDNN emulates the instructions, which takes longer
    // than sgemm. With less, it has no bf16 GEMMs.
    if (!hasBf16Instructions())
      return;
    try {
      primitive.emplace(dnnl::matmul::primitive_desc(
          dnnl::matmul::desc(aDesc, bDesc, cDesc), cpu()));
    } catch (const dnnl::error &) {
      primitive.reset();
    }
  }

  Status run(std::vector<uint16_t> &left, std::vector<uint16_t> &right,
             float *out) {
    if (!primitive)
      return runWidened(left, right, out);
    try {
      dnnl::stream queue(cpu());
      primitive->execute(
          queue, {{DNNL_ARG_SRC, memory(aDesc, cpu(), left.data())},
                  {DNNL_ARG_WEIGHTS, memory(bDesc, cpu(), right.data())},
                  {DNNL_ARG_DST, memory(cDesc, cpu(), out)}});
      queue.wait();
      return Status::success();
    } catch (const dnnl::error &error) {
      return failed(op, error.message);
    }
  }

private:
  using memory = dnnl::memory;

  static const dnnl::engine &cpu() {
    static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    return engine;
  }
  static memory::dims strides(bool trans, int64_t rows, int64_t cols) {
    return trans ? memory::dims{1, rows} : memory::dims{cols, 1};
  }
  static std::vector<float> widened(const std::vector<uint16_t> &values) {
    std::vector<float> wide(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      wide[i] = bf16ToFloat(values[i]);
    return wide;
  }
  Status runWidened(const std::vector<uint16_t> &left,
                    const std::vector<uint16_t> &right, float *out) const {
    return matmulF32(denseOp(op), widened(left).data(), widened(right).data(),
                     out);
  }

  const MatmulOp &op;
  memory::desc aDesc, bDesc, cDesc;
  std::optional<dnnl::matmul> primitive;
};

void storeSums(const MatmulOp &op, Offsets at, const std::vector<float> &sum,
               void *c, DType cType) {
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      int64_t out = at.c + i * op.ldc + j;
      double old = op.beta == 0 ? 0 : op.beta * loadAsDouble(c, cType, out);
      storeFromDouble(c, cType, out, op.alpha * sum[i * op.n + j] + old);
    }
}

/// Computes sums in f32, so that alpha and beta are applied before rounding.
Status matmulBf16(const MatmulOp &op, const void *a, DType aType, const void *b,
                  DType bType, void *c, DType cType) {
  Bf16Gemm gemm(op);
  std::vector<float> sum(op.m * op.n);
  return forEachMatrix(op, [&](Offsets at) -> Status {
    auto [left, right] = denseFactors<uint16_t>(
        op, at, a, aType, b, bType,
        [](const void *data, DType type, int64_t i) {
          return type == DType::BF16
                     ? static_cast<const uint16_t *>(data)[i]
                     : floatToBf16(static_cast<const float *>(data)[i]);
        });
    DPC_TRY(gemm.run(left, right, sum.data()));
    storeSums(op, at, sum, c, cType);
    return Status::success();
  });
}

/// CPUs cannot multiply f16, so the operands are copied as f32.
Status matmulF16(const MatmulOp &op, const void *a, DType aType, const void *b,
                 DType bType, void *c, DType cType) {
  MatmulOp dense = denseOp(op);
  std::vector<float> sum(op.m * op.n);
  return forEachMatrix(op, [&](Offsets at) -> Status {
    auto [left, right] = denseFactors<float>(
        op, at, a, aType, b, bType,
        [](const void *data, DType type, int64_t i) {
          return type == DType::F16
                     ? f16ToFloat(static_cast<const uint16_t *>(data)[i])
                     : static_cast<const float *>(data)[i];
        });
    DPC_TRY(matmulF32(dense, left.data(), right.data(), sum.data()));
    storeSums(op, at, sum, c, cType);
    return Status::success();
  });
}

/// The result of a GEMM with k = 0 is beta * C.
void scaleOnly(const MatmulOp &op, void *c, DType cType) {
  (void)forEachMatrix(op, [&](Offsets at) {
    for (int64_t i = 0; i < op.m; ++i)
      for (int64_t j = 0; j < op.n; ++j) {
        int64_t out = at.c + i * op.ldc + j;
        double old = op.beta == 0 ? 0 : loadAsDouble(c, cType, out);
        storeFromDouble(c, cType, out, op.beta * old);
      }
    return Status::success();
  });
}

} // namespace

Status runMatmul(const MatmulOp &op, const void *a, DType aType, const void *b,
                 DType bType, void *c, DType cType, void *bias, void *aux) {
  if (op.epilogue != Epilogue::None)
    return runWithEpilogue(op, a, aType, b, bType, {c, bias, aux, cType});
  if (op.m == 0 || op.n == 0)
    return Status::success();
  if (op.k == 0) {
    scaleOnly(op, c, cType);
    return Status::success();
  }
  if (op.fp8)
    return runFp8Matmul(op, a, b, c, cType);
  switch (op.compute) {
  case DType::F32:
    return matmulF32(op, static_cast<const float *>(a),
                     static_cast<const float *>(b), static_cast<float *>(c));
  case DType::F64:
    return matmulF64(op, static_cast<const double *>(a),
                     static_cast<const double *>(b), static_cast<double *>(c));
  case DType::F16:
    return matmulF16(op, a, aType, b, bType, c, cType);
  default:
    return matmulBf16(op, a, aType, b, bType, c, cType);
  }
}

void setMatmulThreads(int threads) {
  // oneDNN uses libgomp's threads. dlsym avoids linking another OpenMP runtime.
  using SetThreads = void (*)(int);
  static auto set =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set)
    set(threads);
}

bool hasBf16Instructions() {
  constexpr auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
  // Each set of instructions contains the bits of the sets that it includes.
  return (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) ==
         wanted;
}

std::string gemmLibrary() {
  const dnnl_version_t *version = dnnl_version();
  return concat(version->major, ".", version->minor, ".", version->patch);
}

} // namespace dpc::rt
