#include "runtime/cuda/CudnnApi.h"
#include "runtime/cuda/DeviceCudnn.h"

#include <algorithm>
#include <map>
#include <vector>

namespace dpc::rt {

namespace {

constexpr size_t kMostWorkspace = size_t(256) << 20;
constexpr int kMostRoutines = 16;

/// The sizes of a convolution for cuDNN. cuDNN requires at least two spatial
/// dimensions, so a second one of extent 1 may be added.
struct CudnnShapes {
  std::vector<int> x, w, y, pads, strides, dilations;
  int groups = 1;

  explicit CudnnShapes(const ConvOp &op) {
    auto narrow = [](const std::vector<int64_t> &from, size_t count) {
      return std::vector<int>(from.begin(), from.begin() + count);
    };
    size_t spatial = op.xShape.size() - 2;
    x = narrow(op.xShape, spatial + 2);
    w = narrow(op.wShape, spatial + 2);
    y = narrow(op.yShape, spatial + 2);
    pads = narrow(op.pads, spatial);
    strides = narrow(op.strides, spatial);
    dilations = narrow(op.dilations, spatial);
    groups = x[1] / w[1];
    if (spatial > 1)
      return;
    for (auto *extents : {&x, &w, &y, &strides, &dilations})
      extents->push_back(1);
    pads.push_back(0);
  }
};

std::vector<int> denseStrides(const std::vector<int> &shape) {
  std::vector<int> strides(shape.size(), 1);
  for (size_t d = shape.size() - 1; d > 0; --d)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

cudnnDataType_t cudnnTypeOf(DType type) {
  switch (type) {
  case DType::F64:
    return CUDNN_DATA_DOUBLE;
  case DType::BF16:
    return CUDNN_DATA_BFLOAT16;
  case DType::F16:
    return CUDNN_DATA_HALF;
  default:
    return CUDNN_DATA_FLOAT;
  }
}

std::string describe(const ConvOp &op) {
  std::string text = "a convolution (" + std::string(nameOf(op.kind)) + ", " +
                     std::string(nameOf(op.compute)) + ") of";
  for (int64_t extent : op.xShape)
    text += " " + std::to_string(extent);
  text += " by";
  for (int64_t extent : op.wShape)
    text += " " + std::to_string(extent);
  return text;
}

class CudnnConvs : public DeviceConvs {
public:
  CudnnConvs(const CudaApi &cuda, const CudnnApi &cudnn)
      : cuda(cuda), cudnn(cudnn) {}
  ~CudnnConvs() override;

  Status open() { return check(cudnn.cudnnCreate(&handle), "cudnnCreate"); }
  Status prepare(const ConvOp &op) override;
  Status allocate() override;
  Status run(const ConvOp &op, void *x, void *w, void *y,
             cudaStream_t stream) override;

private:
  struct Routine {
    cudnnTensorDescriptor_t x = nullptr, y = nullptr;
    cudnnFilterDescriptor_t w = nullptr;
    cudnnConvolutionDescriptor_t how = nullptr;
    int algorithm = -1; ///< a value of cuDNN's enum for this kind of op
    size_t workspace = 0;
  };

  Status check(cudnnStatus_t status, const char *what) const {
    return status == CUDNN_STATUS_SUCCESS
               ? Status::success()
               : Status::io(std::string(what) +
                            ": cuDNN: " + cudnn.cudnnGetErrorString(status));
  }
  Status makeTensor(cudnnTensorDescriptor_t &tensor, DType type,
                    const std::vector<int> &shape) const;
  Status makeRoutine(const ConvOp &op, Routine &made) const;
  void forget(const Routine &made) const;
  Status describeFor(const ConvOp &op, Routine &made) const;
  template <typename Found, typename Ask, typename... Descriptors>
  Status choose(const ConvOp &op, Routine &made, Ask ask,
                Descriptors... descriptors) const;
  Status chooseRoutine(const ConvOp &op, Routine &made) const;

  const CudaApi &cuda;
  CudnnApi cudnn;
  cudnnHandle_t handle = nullptr;
  std::map<const ConvOp *, Routine> routines;
  void *workspace = nullptr;
};

CudnnConvs::~CudnnConvs() {
  for (auto &[op, routine] : routines)
    forget(routine);
  if (handle)
    cudnn.cudnnDestroy(handle);
  if (workspace)
    cuda.cudaFree(workspace);
}

void CudnnConvs::forget(const Routine &made) const {
  for (cudnnTensorDescriptor_t tensor : {made.x, made.y})
    if (tensor)
      cudnn.cudnnDestroyTensorDescriptor(tensor);
  if (made.w)
    cudnn.cudnnDestroyFilterDescriptor(made.w);
  if (made.how)
    cudnn.cudnnDestroyConvolutionDescriptor(made.how);
}

Status CudnnConvs::makeTensor(cudnnTensorDescriptor_t &tensor, DType type,
                              const std::vector<int> &shape) const {
  std::vector<int> strides = denseStrides(shape);
  DPC_TRY(check(cudnn.cudnnCreateTensorDescriptor(&tensor), "tensor"));
  return check(cudnn.cudnnSetTensorNdDescriptor(tensor, cudnnTypeOf(type),
                                                static_cast<int>(shape.size()),
                                                shape.data(), strides.data()),
               "tensor");
}

Status CudnnConvs::describeFor(const ConvOp &op, Routine &made) const {
  CudnnShapes shapes(op);
  DPC_TRY(makeTensor(made.x, op.compute, shapes.x));
  DPC_TRY(makeTensor(made.y, op.compute, shapes.y));
  DPC_TRY(check(cudnn.cudnnCreateFilterDescriptor(&made.w), "filter"));
  DPC_TRY(check(cudnn.cudnnSetFilterNdDescriptor(
                    made.w, cudnnTypeOf(op.compute), CUDNN_TENSOR_NCHW,
                    static_cast<int>(shapes.w.size()), shapes.w.data()),
                "filter"));
  DPC_TRY(
      check(cudnn.cudnnCreateConvolutionDescriptor(&made.how), "convolution"));
  DPC_TRY(check(
      cudnn.cudnnSetConvolutionNdDescriptor(
          made.how, static_cast<int>(shapes.pads.size()), shapes.pads.data(),
          shapes.strides.data(), shapes.dilations.data(),
          CUDNN_CROSS_CORRELATION,
          op.compute == DType::F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
      "convolution"));
  return check(cudnn.cudnnSetConvolutionGroupCount(made.how, shapes.groups),
               "groups");
}

/// Returns the permitted arithmetic, fastest first. f32 and f64 operands must
/// not be rounded to 16 bits.
std::vector<cudnnMathType_t> mathsFor(const ConvOp &op) {
  if (op.compute == DType::F32 || op.compute == DType::F64)
    return {CUDNN_FMA_MATH};
  return {CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
          CUDNN_FMA_MATH};
}

/// Returns the reason to reject a routine, or "".
template <typename Found>
std::string faultOf(const CudnnApi &cudnn, const Found &one, bool isWide) {
  bool rounds = one.mathType == CUDNN_TENSOR_OP_MATH ||
                one.mathType == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  if (one.status != CUDNN_STATUS_SUCCESS)
    return cudnn.cudnnGetErrorString(one.status);
  if (one.determinism != CUDNN_DETERMINISTIC)
    return "not deterministic";
  if (one.memory > kMostWorkspace)
    return "takes " + std::to_string(one.memory >> 20) + " MiB";
  return isWide && rounds ? "rounds to fewer bits" : "";
}

/// `ask` is the cuDNN function that lists routines, fastest first.
template <typename Found, typename Ask, typename... Descriptors>
Status CudnnConvs::choose(const ConvOp &op, Routine &made, Ask ask,
                          Descriptors... descriptors) const {
  bool isWide = op.compute == DType::F32 || op.compute == DType::F64;
  std::string faults;
  auto note = [&](const std::string &what, const std::string &fault) {
    faults += (faults.empty() ? " (" : ", ") + what + " " + fault;
  };
  for (cudnnMathType_t math : mathsFor(op)) {
    std::vector<Found> found(kMostRoutines);
    int count = 0;
    DPC_TRY(
        check(cudnn.cudnnSetConvolutionMathType(made.how, math), "math type"));
    std::string arithmetic = "arithmetic " + std::to_string(math);
    Status asked =
        check(ask(handle, descriptors..., kMostRoutines, &count, found.data()),
              "none");
    if (!asked.ok()) {
      note(arithmetic + ":", asked.message());
      continue;
    }
    for (int i = 0; i < count; ++i) {
      const Found &one = found[i];
      if (std::string fault = faultOf(cudnn, one, isWide); !fault.empty()) {
        note(arithmetic + " algorithm " + std::to_string(one.algo) + ":",
             fault);
        continue;
      }
      made.algorithm = static_cast<int>(one.algo);
      made.workspace = one.memory;
      return isWide ? Status::success()
                    : check(cudnn.cudnnSetConvolutionMathType(made.how,
                                                              one.mathType),
                            "math type");
    }
  }
  return Status::unsupported(
      "cuDNN has no deterministic routine within 256 MiB for " + describe(op) +
      (faults.empty() ? "" : faults + ")"));
}

Status CudnnConvs::chooseRoutine(const ConvOp &op, Routine &made) const {
  switch (op.kind) {
  case ConvKind::Forward:
    return choose<cudnnConvolutionFwdAlgoPerf_t>(
        op, made, cudnn.cudnnGetConvolutionForwardAlgorithm_v7, made.x, made.w,
        made.how, made.y);
  case ConvKind::GradInput:
    return choose<cudnnConvolutionBwdDataAlgoPerf_t>(
        op, made, cudnn.cudnnGetConvolutionBackwardDataAlgorithm_v7, made.w,
        made.y, made.how, made.x);
  case ConvKind::GradFilter:
    break;
  }
  return choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
      op, made, cudnn.cudnnGetConvolutionBackwardFilterAlgorithm_v7, made.x,
      made.y, made.how, made.w);
}

Status CudnnConvs::prepare(const ConvOp &op) {
  auto [it, isNew] = routines.try_emplace(&op);
  if (!isNew)
    return Status::success();
  Status status = makeRoutine(op, it->second);
  if (!status.ok()) {
    forget(it->second);
    routines.erase(it);
  }
  return status;
}

Status CudnnConvs::makeRoutine(const ConvOp &op, Routine &made) const {
  size_t spatial = op.xShape.size() - 2;
  bool isEven = std::equal(op.pads.begin(), op.pads.begin() + spatial,
                           op.pads.begin() + spatial);
  if (spatial > 3 || !isEven)
    return Status::unsupported(
        describe(op) +
        (isEven ? " has more than three spatial dimensions"
                : " has different pads before and after") +
        ", which cuDNN does not support; --device=cpu is accepted");
  if (op.xShape[0] == 0) // an empty batch
    return Status::success();
  DPC_TRY(describeFor(op, made));
  return chooseRoutine(op, made);
}

Status CudnnConvs::allocate() {
  size_t most = 0;
  for (auto &[op, routine] : routines)
    most = std::max(most, routine.workspace);
  return most == 0 ? Status::success()
                   : assign(workspace, cuda.allocate(static_cast<int64_t>(most),
                                                     "cuDNN's workspace"));
}

Status CudnnConvs::run(const ConvOp &op, void *x, void *w, void *y,
                       cudaStream_t stream) {
  const Routine &r = routines.at(&op);
  if (r.algorithm < 0)
    return op.kind != ConvKind::GradFilter
               ? Status::success()
               : cuda.set(w, 0, numElements(op.wShape) * sizeOf(op.compute),
                          stream);
  bool isDouble = op.compute == DType::F64;
  const double one = 1, zero = 0;
  const float oneFloat = 1, zeroFloat = 0;
  const void *alpha = isDouble ? static_cast<const void *>(&one) : &oneFloat;
  const void *beta = isDouble ? static_cast<const void *>(&zero) : &zeroFloat;
  DPC_TRY(check(cudnn.cudnnSetStream(handle, stream), "cudnnSetStream"));
  auto convolve = [&](auto function, auto algorithm, auto a, void *aData,
                      auto b, void *bData, auto c, void *cData) {
    return check(function(handle, alpha, a, aData, b, bData, r.how,
                          static_cast<decltype(algorithm)>(r.algorithm),
                          workspace, r.workspace, beta, c, cData),
                 "a convolution");
  };
  switch (op.kind) {
  case ConvKind::Forward:
    return convolve(cudnn.cudnnConvolutionForward, cudnnConvolutionFwdAlgo_t(),
                    r.x, x, r.w, w, r.y, y);
  case ConvKind::GradInput:
    return convolve(cudnn.cudnnConvolutionBackwardData,
                    cudnnConvolutionBwdDataAlgo_t(), r.w, w, r.y, y, r.x, x);
  case ConvKind::GradFilter:
    break;
  }
  return convolve(cudnn.cudnnConvolutionBackwardFilter,
                  cudnnConvolutionBwdFilterAlgo_t(), r.x, x, r.y, y, r.w, w);
}

} // namespace

Expected<std::unique_ptr<DeviceConvs>> makeCudnnConvs(const CudaApi &cuda,
                                                      const CudnnApi &cudnn) {
  auto made = std::make_unique<CudnnConvs>(cuda, cudnn);
  DPC_TRY(made->open());
  return std::unique_ptr<DeviceConvs>(std::move(made));
}

} // namespace dpc::rt
