#include "runtime/kernels/Convolution.h"

#include "runtime/base/Layout.h"

#include <algorithm>
#include <dnnl.hpp>
#include <functional>
#include <unordered_map>

namespace dpc::rt {

namespace {

using Shape = std::vector<int64_t>;

using dnnl::memory;

const dnnl::engine &cpu() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

memory::desc dense(const Shape &shape) {
  memory::dims strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return memory::desc(shape, memory::data_type::f32, strides);
}

/// With fewer channels per group, blocked layouts save less than copies cost.
constexpr int64_t kMinBlockedChannels = 16;

/// Runs one convolution with oneDNN. With many channels, copies the arrays to
/// the blocked layouts that oneDNN prefers.
class Primitives {
public:
  explicit Primitives(const ConvOp &op)
      : x(dense(op.xShape)), y(dense(op.yShape)), w(filter(op)),
        strides(op.strides), dilations(op.dilations),
        before(op.pads.begin(), op.pads.begin() + op.strides.size()),
        behind(op.pads.begin() + op.strides.size(), op.pads.end()) {
    // For oneDNN, dilation 0 means no skipped elements.
    for (int64_t &dilation : dilations)
      --dilation;
    int64_t groups = op.xShape[1] / op.wShape[1];
    isBlocked =
        std::min(op.wShape[1], op.wShape[0] / groups) >= kMinBlockedChannels;
  }

  void run(ConvKind kind, void *xData, void *wData, void *yData) {
    memory xs(x, cpu(), xData), ws(w, cpu(), wData), ys(y, cpu(), yData);
    auto forward = forwardDesc();
    switch (kind) {
    case ConvKind::Forward: {
      read(DNNL_ARG_SRC, xs, forward.src_desc());
      read(DNNL_ARG_WEIGHTS, ws, forward.weights_desc());
      write(DNNL_ARG_DST, ys, forward.dst_desc(),
            dnnl::convolution_forward(forward));
      break;
    }
    case ConvKind::GradInput: {
      dnnl::convolution_backward_data::primitive_desc desc(
          {dnnl::algorithm::convolution_direct, layout(x), layout(w), layout(y),
           strides, dilations, before, behind},
          cpu(), forward);
      read(DNNL_ARG_DIFF_DST, ys, desc.diff_dst_desc());
      read(DNNL_ARG_WEIGHTS, ws, desc.weights_desc());
      write(DNNL_ARG_DIFF_SRC, xs, desc.diff_src_desc(),
            dnnl::convolution_backward_data(desc));
      break;
    }
    case ConvKind::GradFilter: {
      dnnl::convolution_backward_weights::primitive_desc desc(
          {dnnl::algorithm::convolution_direct, layout(x), layout(w), layout(y),
           strides, dilations, before, behind},
          cpu(), forward);
      read(DNNL_ARG_DIFF_DST, ys, desc.diff_dst_desc());
      read(DNNL_ARG_SRC, xs, desc.src_desc());
      write(DNNL_ARG_DIFF_WEIGHTS, ws, desc.diff_weights_desc(),
            dnnl::convolution_backward_weights(desc));
      break;
    }
    }
  }

private:
  /// With many channels, oneDNN chooses the layout.
  memory::desc layout(const memory::desc &array) const {
    return isBlocked ? memory::desc(array.dims(), array.data_type(),
                                    memory::format_tag::any)
                     : array;
  }
  /// Each thread keeps its scratch memory for later convolutions.
  memory scratch(const memory::desc &desc) {
    static thread_local std::vector<char> kept[3];
    std::vector<char> &bytes = kept[arguments.size()];
    bytes.resize(std::max(bytes.size(), desc.get_size()));
    return memory(desc, cpu(), bytes.data());
  }
  void read(int argument, memory &array, const memory::desc &wanted) {
    if (array.get_desc() == wanted) {
      arguments[argument] = array;
      return;
    }
    memory copy = scratch(wanted);
    dnnl::reorder(array, copy).execute(queue, array, copy);
    arguments[argument] = copy;
  }
  void write(int argument, memory &array, const memory::desc &made,
             const dnnl::primitive &primitive) {
    memory result = array.get_desc() == made ? array : scratch(made);
    arguments[argument] = result;
    primitive.execute(queue, arguments);
    if (array.get_desc() != made)
      dnnl::reorder(result, array).execute(queue, result, array);
    queue.wait();
  }

  dnnl::convolution_forward::primitive_desc forwardDesc() {
    return {{dnnl::prop_kind::forward_training,
             dnnl::algorithm::convolution_direct, layout(x), layout(w),
             layout(y), strides, dilations, before, behind},
            cpu()};
  }
  /// Adds a dimension for groups: [groups, K / groups, C / groups, taps..].
  static memory::desc filter(const ConvOp &op) {
    int64_t groups = op.xShape[1] / op.wShape[1];
    Shape shape = op.wShape;
    if (groups > 1) {
      shape[0] /= groups;
      shape.insert(shape.begin(), groups);
    }
    return dense(shape);
  }

  memory::desc x, y, w;
  memory::dims strides, dilations, before, behind;
  bool isBlocked;
  dnnl::stream queue{cpu()};
  std::unordered_map<int, memory> arguments;
};

void forEachIndex(const Shape &shape,
                  const std::function<void(const Shape &)> &body) {
  Shape index(shape.size(), 0);
  for (int64_t left = numElements(shape); left > 0; --left) {
    body(index);
    for (size_t d = shape.size(); d-- > 0; index[d] = 0)
      if (++index[d] < shape[d])
        break;
  }
}

int64_t offsetIn(const Shape &shape, const Shape &index) {
  int64_t offset = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    offset = offset * shape[d] + index[d];
  return offset;
}

/// Adds all products to the result of `op`, which must be zero before.
template <typename T> void plainConv(const ConvOp &op, T *x, T *w, T *y) {
  int64_t groups = op.xShape[1] / op.wShape[1];
  int64_t filters = op.wShape[0] / groups;
  size_t spatial = op.strides.size();
  Shape from(op.xShape.size()), by(op.wShape.size());
  forEachIndex(op.yShape, [&](const Shape &to) {
    T &out = y[offsetIn(op.yShape, to)];
    forEachIndex({op.wShape.begin() + 1, op.wShape.end()},
                 [&](const Shape &tap) {
                   from[0] = to[0];
                   from[1] = to[1] / filters * op.wShape[1] + tap[0];
                   by[0] = to[1];
                   std::copy(tap.begin(), tap.end(), by.begin() + 1);
                   for (size_t d = 0; d < spatial; ++d) {
                     int64_t at = to[d + 2] * op.strides[d] - op.pads[d] +
                                  tap[d + 1] * op.dilations[d];
                     if (at < 0 || at >= op.xShape[d + 2])
                       return;
                     from[d + 2] = at;
                   }
                   T &in = x[offsetIn(op.xShape, from)],
                     &weight = w[offsetIn(op.wShape, by)];
                   if (op.kind == ConvKind::Forward)
                     out += in * weight;
                   else if (op.kind == ConvKind::GradInput)
                     in += out * weight;
                   else
                     weight += out * in;
                 });
  });
}

template <typename T>
void clearThenConv(const ConvOp &op, void *x, void *w, void *y) {
  auto clear = [](void *data, const Shape &shape) {
    std::fill_n(static_cast<T *>(data), numElements(shape), T(0));
  };
  if (op.kind == ConvKind::Forward)
    clear(y, op.yShape);
  else if (op.kind == ConvKind::GradInput)
    clear(x, op.xShape);
  else
    clear(w, op.wShape);
  plainConv(op, static_cast<T *>(x), static_cast<T *>(w), static_cast<T *>(y));
}

Status runWideConv(const ConvOp &op, void *x, void *w, void *y) {
  bool isEmpty = numElements(op.xShape) == 0 || numElements(op.wShape) == 0 ||
                 numElements(op.yShape) == 0;
  if (op.compute == DType::F64) {
    clearThenConv<double>(op, x, w, y);
    return Status::success();
  }
  if (isEmpty || op.strides.size() > 3) {
    clearThenConv<float>(op, x, w, y);
    return Status::success();
  }
  try {
    Primitives(op).run(op.kind, x, w, y);
    return Status::success();
  } catch (const dnnl::error &error) {
    return Status::unsupported("oneDNN refused a convolution (",
                               nameOf(op.kind), "): ", error.message);
  }
}

template <float (*Widen)(uint16_t)>
void widen(const void *from, std::vector<float> &to) {
  const auto *bits = static_cast<const uint16_t *>(from);
  std::transform(bits, bits + to.size(), to.begin(), Widen);
}

template <uint16_t (*Narrow)(float)>
void narrow(const std::vector<float> &from, void *to) {
  std::transform(from.begin(), from.end(), static_cast<uint16_t *>(to), Narrow);
}

/// Computes on f32 copies in thread-local memory and rounds once.
template <float (*Widen)(uint16_t), uint16_t (*Narrow)(float)>
Status runHalfConv(const ConvOp &op, void *x, void *w, void *y) {
  static thread_local std::vector<float> wide[3];
  void *const arrays[] = {x, w, y};
  const Shape *const shapes[] = {&op.xShape, &op.wShape, &op.yShape};
  int written = op.kind == ConvKind::GradInput    ? 0
                : op.kind == ConvKind::GradFilter ? 1
                                                  : 2;
  for (int i = 0; i < 3; ++i) {
    wide[i].resize(numElements(*shapes[i]));
    if (i != written)
      widen<Widen>(arrays[i], wide[i]);
  }
  ConvOp dense = op;
  dense.compute = DType::F32;
  DPC_TRY(runWideConv(dense, wide[0].data(), wide[1].data(), wide[2].data()));
  narrow<Narrow>(wide[written], arrays[written]);
  return Status::success();
}

} // namespace

Status runConv(const ConvOp &op, void *x, void *w, void *y) {
  if (op.compute == DType::BF16)
    return runHalfConv<bf16ToFloat, floatToBf16>(op, x, w, y);
  if (op.compute == DType::F16)
    return runHalfConv<f16ToFloat, floatToF16>(op, x, w, y);
  return runWideConv(op, x, w, y);
}

} // namespace dpc::rt
