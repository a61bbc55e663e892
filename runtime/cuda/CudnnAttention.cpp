//===- CudnnAttention.cpp - attention through cuDNN -----------------------===//
//
// NVIDIA's cudnn-frontend (headers only) builds the graph of an attention from
// operations of cuDNN's backend. cudnn-frontend looks up functions of cuDNN and
// of the CUDA runtime in libraries that this plugin has already opened.
//
//===----------------------------------------------------------------------===//
#include "runtime/cuda/DeviceCudnn.h"

#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>

namespace dpc::rt {

/// Replaces dlopen in cudnn-frontend. cudnn-frontend fails if it finds both a
/// CUDA 12 and a CUDA 13 runtime, so this function hides CUDA 12.
static void *openForFrontend(const char *name, int flags) {
  if (std::strcmp(name, "libcudart.so.12") == 0)
    return nullptr;
  return dlopen(name, flags);
}

} // namespace dpc::rt

#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define NV_CUDNN_FRONTEND_DISABLE_LOGGING
#define dlopen ::dpc::rt::openForFrontend
#include <cudnn_frontend.h>
#undef dlopen

namespace cudnn_frontend {
void *cudnn_dlhandle = nullptr; // NOLINT: declared by the headers
} // namespace cudnn_frontend

namespace dpc::rt {

namespace {

namespace fe = cudnn_frontend;
using Extents = std::vector<int64_t>;

/// Identifiers of the tensors in a graph.
enum Uid : int64_t { Q = 1, K, V, Out, Lse, DOut, DQ, DK, DV };

std::string describe(const AttentionShape &shape, bool isGradient) {
  auto list = [](std::initializer_list<int64_t> numbers) {
    std::string text;
    for (int64_t number : numbers)
      text += " " + std::to_string(number);
    return text;
  };
  return std::string(isGradient ? "the gradient of " : "") + "an attention (" +
         std::string(nameOf(shape.compute)) + (shape.causal ? ", causal" : "") +
         (shape.window ? ", window " + std::to_string(*shape.window) : "") +
         ") of queries" +
         list({shape.batch, shape.heads, shape.queries, shape.depth}) +
         " and values" +
         list({shape.batch, shape.groups, shape.keys, shape.valueDepth});
}

Status refused(const AttentionShape &shape, bool isGradient,
               const std::string &why) {
  std::string line = why.substr(0, why.find('\n'));
  return Status::unsupported("cuDNN does not support " +
                             describe(shape, isGradient) + ": " + line +
                             "; a plan of --attention=expanded is accepted");
}

/// Returns all four strides. The stride of a dimension of extent 1 has no
/// effect, but cuDNN checks it, so it is set above all other strides.
Extents stepsOf(const AttentionTensor &tensor, const Extents &extents) {
  Extents steps = tensor.strides;
  steps.push_back(1);
  int64_t most = 1;
  for (size_t d = 0; d < extents.size(); ++d)
    if (extents[d] > 1)
      most = std::max(most, extents[d] * steps[d]);
  for (size_t d = 0; d + 1 < extents.size(); ++d)
    if (extents[d] == 1)
      steps[d] = most;
  return steps;
}

class GraphWriter {
public:
  GraphWriter(fe::graph::Graph &graph, const AttentionShape &shape)
      : graph(graph), shape(shape) {
    graph
        .set_io_data_type(shape.compute == DType::BF16
                              ? fe::DataType_t::BFLOAT16
                              : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void write(const AttentionOp &op) {
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_attn_scale(static_cast<float>(shape.scale));
    setBand(options);
    auto [out, lse] = graph.sdpa(
        input(Q, op.q, queries(shape.depth)), input(K, op.k, keys(shape.depth)),
        input(V, op.v, keys(shape.valueDepth)), options);
    output(out, Out, op.out, queries(shape.valueDepth));
    lse->set_output(true)
        .set_uid(Lse)
        .set_data_type(fe::DataType_t::FLOAT)
        .set_dim(rows())
        .set_stride(rowSteps());
  }

  void write(const AttentionGradOp &op) {
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention gradient")
                       .set_attn_scale(static_cast<float>(shape.scale));
    setBand(options);
    auto lse = graph.tensor(fe::graph::Tensor_attributes()
                                .set_name("lse")
                                .set_uid(Lse)
                                .set_data_type(fe::DataType_t::FLOAT)
                                .set_dim(rows())
                                .set_stride(rowSteps()));
    auto [dq, dk, dv] = graph.sdpa_backward(
        input(Q, op.q, queries(shape.depth)), input(K, op.k, keys(shape.depth)),
        input(V, op.v, keys(shape.valueDepth)),
        input(Out, op.out, queries(shape.valueDepth)),
        input(DOut, op.dout, queries(shape.valueDepth)), lse, options);
    output(dq, DQ, op.dq, queries(shape.depth));
    output(dk, DK, op.dk, keys(shape.depth));
    output(dv, DV, op.dv, keys(shape.valueDepth));
  }

private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

  /// The left bound counts the keys up to that of the query.
  template <typename Options> void setBand(Options &options) const {
    options.set_causal_mask(shape.causal);
    if (shape.window)
      options.set_diagonal_band_left_bound(*shape.window);
  }

  Extents queries(int64_t depth) const {
    return {shape.batch, shape.heads, shape.queries, depth};
  }
  Extents keys(int64_t depth) const {
    return {shape.batch, shape.groups, shape.keys, depth};
  }
  Extents rows() const { return queries(1); }
  Extents rowSteps() const {
    return {shape.heads * shape.queries, shape.queries, 1, 1};
  }
  Tensor input(Uid uid, const AttentionTensor &tensor, const Extents &extents) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name("tensor" + std::to_string(uid))
                            .set_uid(uid)
                            .set_dim(extents)
                            .set_stride(stepsOf(tensor, extents)));
  }
  static void output(const Tensor &made, Uid uid, const AttentionTensor &tensor,
                     const Extents &extents) {
    made->set_output(true).set_uid(uid).set_dim(extents).set_stride(
        stepsOf(tensor, extents));
  }

  fe::graph::Graph &graph;
  const AttentionShape &shape;
};

/// The GPU for which graphs are compiled.
struct Target {
  int capability = 0;
  cudnnHandle_t handle = nullptr;                        ///< null without a GPU
  std::shared_ptr<fe::DeviceProperties> properties = {}; ///< null with a GPU
};

using Graph = std::shared_ptr<fe::graph::Graph>;

/// cudnn-frontend throws exceptions for unexpected errors.
template <typename Op>
Expected<Graph> compile(const Op &op, const Target &target) try {
  constexpr bool isGradient = std::is_same_v<Op, AttentionGradOp>;
  if (op.shape.compute != DType::BF16 && op.shape.compute != DType::F16)
    return refused(op.shape, isGradient, "its type does not have 16 bits");
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_sm_version(target.capability);
  if (target.properties)
    graph->set_device_properties(target.properties);
  GraphWriter(*graph, op.shape).write(op);
  fe::error_t error = graph->validate();
  if (error.is_good())
    error = target.handle ? graph->build_operation_graph(target.handle)
                          : graph->build_operation_graph();
  if (error.is_good())
    error = graph->create_execution_plans(
        {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (error.is_good())
    error = graph->check_support();
  if (error.is_good())
    error = graph->build_plans();
  if (error.is_bad())
    return refused(op.shape, isGradient, error.get_message());
  return graph;
} catch (const std::exception &error) {
  return refused(op.shape, std::is_same_v<Op, AttentionGradOp>, error.what());
}

/// Returns all properties of `op` that affect its graph.
template <typename Op> std::string keyOf(const Op &op) {
  const AttentionShape &s = op.shape;
  std::string key =
      std::is_same_v<Op, AttentionGradOp> ? "gradient" : "forward";
  for (int64_t number : {s.batch, s.heads, s.groups, s.queries, s.keys, s.depth,
                         s.valueDepth, int64_t(s.causal), s.window.value_or(0),
                         static_cast<int64_t>(s.compute)})
    key += " " + std::to_string(number);
  double scale = s.scale;
  key.append(reinterpret_cast<const char *>(&scale), sizeof scale);
  auto add = [&](const AttentionTensor &tensor) {
    for (int64_t stride : tensor.strides)
      key += " " + std::to_string(stride);
  };
  for (const AttentionTensor *tensor : {&op.q, &op.k, &op.v, &op.out})
    add(*tensor);
  if constexpr (std::is_same_v<Op, AttentionGradOp>)
    for (const AttentionTensor *tensor : {&op.dout, &op.dq, &op.dk, &op.dv})
      add(*tensor);
  return key;
}

/// cudnn-frontend has one library handle for the whole process.
void setLibrary(void *library) {
  static std::once_flag once;
  std::call_once(once, [&] { fe::cudnn_dlhandle = library; });
}

/// The alignment of workspaces in bytes. The plan aligns buffers to only 64.
constexpr int64_t kAlignment = 256;

class CudnnAttention : public DeviceAttention {
public:
  explicit CudnnAttention(const CudaApi &cuda) : cuda(cuda) {}
  ~CudnnAttention() override {
    graphs.clear();
    if (target.handle)
      fe::detail::destroy_handle(target.handle);
    if (workspace)
      cuda.cudaFree(workspace);
  }

  Status open(int device) try {
    DPC_TRY(assign(target.capability, cuda.computeCapability(device)));
    cudnnStatus_t status = fe::detail::create_handle(&target.handle);
    return status == CUDNN_STATUS_SUCCESS
               ? Status::success()
               : Status::io(std::string("cudnnCreate: cuDNN: ") +
                            fe::detail::get_error_string(status));
  } catch (const std::exception &error) {
    return Status::io(std::string("cuDNN: ") + error.what());
  }

  Status prepare(const AttentionOp &op) override { return prepareOne(op, 0); }
  Status prepare(const AttentionGradOp &op, int64_t bytes) override {
    return prepareOne(op, bytes);
  }

  Status allocate() override {
    return most == 0
               ? Status::success()
               : assign(workspace,
                        cuda.allocate(most, "cuDNN's workspace for attention"));
  }

  Status run(const AttentionOp &op, const AttentionData &data,
             cudaStream_t stream) override {
    std::unordered_map<int64_t, void *> places = common(op, data);
    return execute(op, places, nullptr, stream);
  }
  Status run(const AttentionGradOp &op, const AttentionData &data,
             cudaStream_t stream) override {
    std::unordered_map<int64_t, void *> places = common(op, data);
    auto put = [&](Uid uid, const AttentionTensor &tensor, const void *base) {
      places[uid] = placeOf(op.shape, tensor, base);
    };
    put(DOut, op.dout, data.dout);
    put(DQ, op.dq, data.dq);
    put(DK, op.dk, data.dk);
    put(DV, op.dv, data.dv);
    return execute(op, places, data.workspace, stream);
  }

private:
  /// `bytes` is the size of the op's workspace in the plan. If it is too small,
  /// the op uses the shared `workspace`.
  template <typename Op> Status prepareOne(const Op &op, int64_t bytes) {
    std::string key = keyOf(op);
    auto known = graphs.find(key);
    if (known == graphs.end()) {
      Graph made;
      DPC_TRY(assign(made, compile(op, target)));
      known = graphs.emplace(std::move(key), std::move(made)).first;
    }
    int64_t needed = known->second->get_workspace_size();
    bool isOwn = needed + kAlignment <= bytes;
    if (!isOwn)
      most = std::max(most, needed);
    runs[&op] = {known->second.get(), isOwn};
    return Status::success();
  }

  static void *placeOf(const AttentionShape &shape,
                       const AttentionTensor &tensor, const void *base) {
    return static_cast<char *>(const_cast<void *>(base)) +
           tensor.offset * sizeOf(shape.compute);
  }
  template <typename Op>
  static std::unordered_map<int64_t, void *> common(const Op &op,
                                                    const AttentionData &data) {
    return {{Q, placeOf(op.shape, op.q, data.q)},
            {K, placeOf(op.shape, op.k, data.k)},
            {V, placeOf(op.shape, op.v, data.v)},
            {Out, placeOf(op.shape, op.out, data.out)},
            {Lse, data.lse}};
  }

  template <typename Op>
  Status execute(const Op &op, std::unordered_map<int64_t, void *> &places,
                 void *own, cudaStream_t stream) try {
    cudnnStatus_t status = fe::detail::set_stream(target.handle, stream);
    if (status != CUDNN_STATUS_SUCCESS)
      return Status::io(std::string("cudnnSetStream: cuDNN: ") +
                        fe::detail::get_error_string(status));
    const Run &run = runs.at(&op);
    auto address = (reinterpret_cast<uintptr_t>(own) + kAlignment - 1) /
                   kAlignment * kAlignment;
    fe::error_t error = run.graph->execute(
        target.handle, places,
        run.isOwn ? reinterpret_cast<void *>(address) : workspace);
    return error.is_good() ? Status::success()
                           : Status::io("cuDNN: " + error.get_message());
  } catch (const std::exception &error) {
    return Status::io(std::string("cuDNN: ") + error.what());
  }

  const CudaApi &cuda;
  Target target;
  std::map<std::string, Graph> graphs; ///< by keyOf
  struct Run {
    fe::graph::Graph *graph = nullptr;
    bool isOwn = false; ///< uses the workspace in the plan
  };
  std::map<const void *, Run> runs; ///< by op
  int64_t most = 0;                 ///< the size of `workspace`
  void *workspace = nullptr;
};

template <typename Op>
Expected<int64_t> compileFor(const Op &op, void *library,
                             const std::string &device, int capability) {
  setLibrary(library);
  Target target;
  target.capability = capability;
  target.properties = std::make_shared<fe::DeviceProperties>();
  fe::error_t error = target.properties->deserialize(
      std::vector<uint8_t>(device.begin(), device.end()));
  if (error.is_bad())
    return Status::unsupported("cuDNN refuses the device's properties: " +
                               error.get_message());
  Graph graph;
  DPC_TRY(assign(graph, compile(op, target)));
  return graph->get_workspace_size();
}

} // namespace

Expected<std::unique_ptr<DeviceAttention>>
makeCudnnAttention(const CudaApi &cuda, void *library, int device) {
  setLibrary(library);
  auto made = std::make_unique<CudnnAttention>(cuda);
  DPC_TRY(made->open(device));
  return std::unique_ptr<DeviceAttention>(std::move(made));
}

Expected<int64_t> compileCudnnAttention(const AttentionOp &op, void *library,
                                        const std::string &device,
                                        int capability) {
  return compileFor(op, library, device, capability);
}
Expected<int64_t> compileCudnnAttention(const AttentionGradOp &op,
                                        void *library,
                                        const std::string &device,
                                        int capability) {
  return compileFor(op, library, device, capability);
}

} // namespace dpc::rt
