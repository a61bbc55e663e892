#include "runtime/cuda/DeviceKernels.h"

#include <algorithm>
#include <cstring>

namespace dpc::rt {

Status launchKernel(const CudaApi &cuda, cudaKernel_t kernel, dim3 blocks,
                    dim3 threads, size_t sharedBytes,
                    const std::vector<void *> &buffers,
                    const std::vector<int64_t> &scalars, cudaStream_t stream) {
  std::vector<void *> arguments;
  arguments.reserve(buffers.size() + scalars.size());
  for (const auto &buffer : buffers) // only read
    arguments.push_back(static_cast<void *>(const_cast<void **>(&buffer)));
  for (const int64_t &scalar : scalars)
    arguments.push_back(const_cast<int64_t *>(&scalar));
  return cuda.check(cuda.cudaLaunchKernel(kernel, blocks, threads,
                                          arguments.data(), sharedBytes,
                                          stream),
                    "launching a kernel");
}

Expected<std::unique_ptr<DeviceKernels>>
DeviceKernels::load(const CudaApi &cuda, const void *image) {
  std::unique_ptr<DeviceKernels> self(new DeviceKernels(cuda));
  DPC_TRY(cuda.check(cuda.cudaLibraryLoadData(&self->library, image, nullptr,
                                              nullptr, 0, nullptr, nullptr, 0),
                     "loading the runtime's kernels"));
  for (auto [name, kernel] :
       {std::pair("dpcReduce", &self->reduceKernel),
        std::pair("dpcFill", &self->fillKernel),
        std::pair("dpcEpilogue", &self->epilogueKernel),
        std::pair("dpcSumColumns", &self->sumColumnsKernel),
        std::pair("dpcFindNan", &self->findNanKernel),
        std::pair("dpcAmax", &self->amaxKernel),
        std::pair("dpcFp8", &self->fp8Kernel),
        std::pair("dpcFp8Transposed", &self->fp8TransposedKernel),
        std::pair("dpcExpertOrder", &self->expertOrderKernel),
        std::pair("dpcExpertForwardF32", &self->expertForward[DType::F32]),
        std::pair("dpcExpertForwardF64", &self->expertForward[DType::F64]),
        std::pair("dpcExpertForwardBF16", &self->expertForward[DType::BF16]),
        std::pair("dpcExpertForwardF16", &self->expertForward[DType::F16]),
        std::pair("dpcExpertGradientF32", &self->expertGradient[DType::F32]),
        std::pair("dpcExpertGradientF64", &self->expertGradient[DType::F64]),
        std::pair("dpcExpertGradientBF16", &self->expertGradient[DType::BF16]),
        std::pair("dpcExpertGradientF16", &self->expertGradient[DType::F16])})
    DPC_TRY(cuda.check(cuda.cudaLibraryGetKernel(kernel, self->library, name),
                       name));
  return self;
}

DeviceKernels::~DeviceKernels() {
  if (library)
    cuda.cudaLibraryUnload(library);
}

/// Launches one thread per element, but at most 4096 blocks.
Status DeviceKernels::launch(cudaKernel_t kernel, int64_t count,
                             std::vector<void *> buffers,
                             std::vector<int64_t> scalars,
                             cudaStream_t stream) const {
  constexpr int64_t threads = 256, mostBlocks = 4096;
  if (count == 0)
    return Status::success();
  auto blocks = static_cast<unsigned>(
      std::min((count + threads - 1) / threads, mostBlocks));
  return launchKernel(cuda, kernel, dim3(blocks), dim3(threads), 0, buffers,
                      scalars, stream);
}

Status DeviceKernels::reduce(const std::vector<const void *> &parts, void *out,
                             int64_t first, int64_t count, DType type,
                             ReduceKind kind, double scale,
                             cudaStream_t stream) const {
  std::vector<void *> buffers = {out};
  for (const void *part : parts)
    buffers.push_back(const_cast<void *>(part)); // only read
  buffers.resize(1 + kMostInProcess, nullptr);
  int64_t scaleBits = 0;
  std::memcpy(&scaleBits, &scale, sizeof scale);
  return launch(reduceKernel, count, std::move(buffers),
                {static_cast<int64_t>(parts.size()), first, count,
                 static_cast<int64_t>(type), static_cast<int64_t>(kind),
                 scaleBits},
                stream);
}

Status DeviceKernels::fill(void *to, int64_t count, int64_t width, int64_t bits,
                           cudaStream_t stream) const {
  return launch(fillKernel, count, {to}, {count, width, bits}, stream);
}

Status DeviceKernels::epilogue(const MatmulOp &op, void *c, void *bias,
                               void *aux, DType type,
                               cudaStream_t stream) const {
  return launch(epilogueKernel, op.m * op.n, {c, bias, aux},
                {op.m, op.n, op.ldc, op.auxLd, static_cast<int64_t>(type),
                 static_cast<int64_t>(op.epilogue)},
                stream);
}

Status DeviceKernels::findNan(const void *data, DType type, int64_t count,
                              bool infinitiesToo, void *flag,
                              cudaStream_t stream) const {
  return launch(
      findNanKernel, count, {const_cast<void *>(data), flag},
      {count, static_cast<int64_t>(type), static_cast<int64_t>(infinitiesToo)},
      stream); // data is only read
}

/// Each block sums 32 columns; each of its eight warps adds every eighth row.
Status DeviceKernels::sumColumns(const void *matrix, DType type, int64_t rows,
                                 int64_t columns, int64_t ld, void *to,
                                 DType toType, cudaStream_t stream) const {
  constexpr int64_t columnsOfBlock = 32, threads = 256;
  auto blocks =
      static_cast<unsigned>((columns + columnsOfBlock - 1) / columnsOfBlock);
  return launchKernel(cuda, sumColumnsKernel, dim3(blocks), dim3(threads), 0,
                      {const_cast<void *>(matrix), to}, // `matrix` is const
                      {rows, columns, ld, static_cast<int64_t>(type),
                       static_cast<int64_t>(toType)},
                      stream);
}

/// Each thread processes eight elements at a time.
Status DeviceKernels::amax(const void *matrix, int64_t rows, int64_t columns,
                           int64_t ld, void *bits, cudaStream_t stream) const {
  return launch(amaxKernel, rows * columns / 8,
                {const_cast<void *>(matrix), bits}, {rows, columns, ld},
                stream);
}

/// Each thread processes eight elements at a time, or each block transposes a
/// tile of 64 x 64 elements.
Status DeviceKernels::fp8Codes(const void *matrix, int64_t rows,
                               int64_t columns, int64_t ld,
                               const void *amaxBits, DType format,
                               bool transposes, void *codes, void *inverse,
                               cudaStream_t stream) const {
  constexpr int64_t tile = 64, threads = 256;
  std::vector<void *> buffers = {const_cast<void *>(matrix),
                                 const_cast<void *>(amaxBits), codes, inverse};
  std::vector<int64_t> scalars = {rows, columns, ld,
                                  static_cast<int64_t>(format)};
  if (!transposes)
    return launch(fp8Kernel, rows * columns / 8, std::move(buffers),
                  std::move(scalars), stream);
  int64_t blocks = ((rows + tile - 1) / tile) * ((columns + tile - 1) / tile);
  return launchKernel(cuda, fp8TransposedKernel,
                      dim3(static_cast<unsigned>(blocks)), dim3(threads), 0,
                      buffers, scalars, stream);
}

} // namespace dpc::rt
