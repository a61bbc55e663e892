#include "test/unit/cuda/FakeCudnn.h"

#include "runtime/cuda/CudnnApi.h"
#include "runtime/kernels/Convolution.h"
#include "test/unit/cuda/FakeCuda.h"

#include <atomic>

namespace dpc::rt::test {

namespace {

constexpr size_t kWorkspace = 4096;
constexpr int kGood = 3;

struct FakeTensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> shape;
};
struct FakeConv {
  std::vector<int64_t> pads, strides, dilations;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  int groups = 1;
};
struct FakeCudnnHandle {
  cudaStream_t stream = nullptr;
};
std::atomic<bool> refuses = false, refusesTensorCores = false;

template <typename T, typename Handle> cudnnStatus_t create(Handle *handle) {
  make<T>(handle);
  return CUDNN_STATUS_SUCCESS;
}
template <typename T, typename Handle> cudnnStatus_t remove(Handle handle) {
  destroy<T>(handle);
  return CUDNN_STATUS_SUCCESS;
}

DType typeOf(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE     ? DType::F64
         : type == CUDNN_DATA_BFLOAT16 ? DType::BF16
         : type == CUDNN_DATA_HALF     ? DType::F16
                                       : DType::F32;
}

/// Only the last of four routines is acceptable: the first is not
/// deterministic, the second needs too much memory, and the third rounds f32 or
/// is not supported.
template <typename Found>
cudnnStatus_t list(const FakeConv &conv, int most, int *count, Found *found) {
  bool isWide =
      conv.compute == CUDNN_DATA_DOUBLE || conv.math == CUDNN_FMA_MATH;
  for (int i = 0; i < std::min(most, 4); ++i) {
    found[i] = {};
    found[i].algo = static_cast<decltype(found[i].algo)>(i);
    found[i].memory = kWorkspace;
    found[i].determinism = CUDNN_DETERMINISTIC;
    found[i].mathType = conv.math;
  }
  found[0].determinism = CUDNN_NON_DETERMINISTIC;
  found[1].memory = size_t(1) << 40;
  if (isWide && !refusesTensorCores)
    found[2].mathType = CUDNN_TENSOR_OP_MATH;
  else
    found[2].status = CUDNN_STATUS_NOT_SUPPORTED;
  bool isTensor = conv.math == CUDNN_TENSOR_OP_MATH ||
                  conv.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  *count = refuses || (refusesTensorCores && isTensor) ? kGood : kGood + 1;
  return CUDNN_STATUS_SUCCESS;
}

struct Arrays {
  void *x, *w, *y;
};

cudnnStatus_t run(cudnnHandle_t handle, ConvKind kind, const FakeTensor &x,
                  const FakeTensor &w, const FakeTensor &y,
                  const FakeConv &conv, int algorithm, const void *workspace,
                  size_t bytes, const Arrays &arrays) {
  size_t spatial = x.shape.size() - 2;
  if (algorithm != kGood || !workspace || bytes != kWorkspace ||
      x.shape.size() < 4 || conv.pads.size() != spatial ||
      x.shape[1] != w.shape[1] * conv.groups)
    return CUDNN_STATUS_BAD_PARAM;
  ConvOp op;
  op.kind = kind;
  op.xShape = x.shape;
  op.wShape = w.shape;
  op.yShape = y.shape;
  op.strides = conv.strides;
  op.dilations = conv.dilations;
  op.pads = conv.pads;
  op.pads.insert(op.pads.end(), conv.pads.begin(), conv.pads.end());
  op.compute = typeOf(x.type);
  enqueueOn(as<FakeCudnnHandle>(handle).stream,
            [=] { (void)runConv(op, arrays.x, arrays.w, arrays.y).ok(); });
  return CUDNN_STATUS_SUCCESS;
}

/// Inputs are only read.
void *plain(const void *array) { return const_cast<void *>(array); }

} // namespace

void refuseFakeRoutines(bool refuse) { refuses = refuse; }
void refuseFakeTensorCores(bool refuse) { refusesTensorCores = refuse; }

Expected<std::unique_ptr<DeviceConvs>> openFakeCudnn(const CudaApi &cuda) {
  CudnnApi api;
  api.link();
  return makeCudnnConvs(cuda, api);
}

} // namespace dpc::rt::test

using namespace dpc::rt::test;
using dpc::rt::ConvKind;

// NOLINTBEGIN(readability-identifier-naming): cuDNN's names
extern "C" {

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  return create<FakeCudnnHandle>(handle);
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return remove<FakeCudnnHandle>(handle);
}
const char *cudnnGetErrorString(cudnnStatus_t) {
  return "an error of the fake";
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  as<FakeCudnnHandle>(handle).stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *tensor) {
  return create<FakeTensor>(tensor);
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return remove<FakeTensor>(tensor);
}
/// Accepts only dense tensors of four or five dimensions.
cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor,
                                         cudnnDataType_t type, int dims,
                                         const int shape[],
                                         const int strides[]) {
  int64_t stride = 1;
  for (int d = dims; d-- > 0; stride *= shape[d])
    if (strides[d] != stride)
      return CUDNN_STATUS_BAD_PARAM;
  if (dims < 4 || dims > 5)
    return CUDNN_STATUS_BAD_PARAM;
  as<FakeTensor>(tensor) = {type, {shape, shape + dims}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *filter) {
  return create<FakeTensor>(filter);
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return remove<FakeTensor>(filter);
}
cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter,
                                         cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int dims,
                                         const int shape[]) {
  if (format != CUDNN_TENSOR_NCHW || dims < 4 || dims > 5)
    return CUDNN_STATUS_BAD_PARAM;
  as<FakeTensor>(filter) = {type, {shape, shape + dims}};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t
cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *conv) {
  return create<FakeConv>(conv);
}
cudnnStatus_t
cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  return remove<FakeConv>(conv);
}
cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv,
                                              int dims, const int pads[],
                                              const int strides[],
                                              const int dilations[],
                                              cudnnConvolutionMode_t mode,
                                              cudnnDataType_t compute) {
  if (mode != CUDNN_CROSS_CORRELATION)
    return CUDNN_STATUS_BAD_PARAM;
  auto &own = as<FakeConv>(conv);
  own.pads.assign(pads, pads + dims);
  own.strides.assign(strides, strides + dims);
  own.dilations.assign(dilations, dilations + dims);
  own.compute = compute;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv,
                                            int groups) {
  as<FakeConv>(conv).groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                          cudnnMathType_t math) {
  as<FakeConv>(conv).math = math;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t, int most,
    int *count, cudnnConvolutionFwdAlgoPerf_t *found) {
  return list(as<FakeConv>(conv), most, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t, int most,
    int *count, cudnnConvolutionBwdDataAlgoPerf_t *found) {
  return list(as<FakeConv>(conv), most, count, found);
}
cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t, cudnnTensorDescriptor_t, cudnnTensorDescriptor_t,
    cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t, int most,
    int *count, cudnnConvolutionBwdFilterAlgoPerf_t *found) {
  return list(as<FakeConv>(conv), most, count, found);
}

cudnnStatus_t cudnnConvolutionForward(
    cudnnHandle_t handle, const void *, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnFilterDescriptor_t wDesc, const void *w,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionFwdAlgo_t algorithm,
    void *workspace, size_t bytes, const void *, cudnnTensorDescriptor_t yDesc,
    void *y) {
  return run(handle, ConvKind::Forward, as<FakeTensor>(xDesc),
             as<FakeTensor>(wDesc), as<FakeTensor>(yDesc), as<FakeConv>(conv),
             algorithm, workspace, bytes, {plain(x), plain(w), y});
}
cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void *, cudnnFilterDescriptor_t wDesc,
    const void *w, cudnnTensorDescriptor_t yDesc, const void *y,
    cudnnConvolutionDescriptor_t conv, cudnnConvolutionBwdDataAlgo_t algorithm,
    void *workspace, size_t bytes, const void *, cudnnTensorDescriptor_t xDesc,
    void *x) {
  return run(handle, ConvKind::GradInput, as<FakeTensor>(xDesc),
             as<FakeTensor>(wDesc), as<FakeTensor>(yDesc), as<FakeConv>(conv),
             algorithm, workspace, bytes, {x, plain(w), plain(y)});
}
cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void *, cudnnTensorDescriptor_t xDesc,
    const void *x, cudnnTensorDescriptor_t yDesc, const void *y,
    cudnnConvolutionDescriptor_t conv,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void *workspace, size_t bytes,
    const void *, cudnnFilterDescriptor_t wDesc, void *w) {
  return run(handle, ConvKind::GradFilter, as<FakeTensor>(xDesc),
             as<FakeTensor>(wDesc), as<FakeTensor>(yDesc), as<FakeConv>(conv),
             algorithm, workspace, bytes, {plain(x), w, plain(y)});
}
}
// NOLINTEND(readability-identifier-naming)
