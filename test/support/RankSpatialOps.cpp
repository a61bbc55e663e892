//===- RankSpatialOps.cpp - Convolution, pooling, batch norm --------------===//
#include "test/support/RankRowOps.h"

#include <cmath>

using namespace mlir;

namespace dpc::test {

/// Calls body(in, tap, out) for every multiplication of a convolution. The
/// arguments are offsets into x, w and y, which have these shapes.
template <typename Op, typename Body>
static void forEachProduct(Op op, const std::vector<int64_t> &x,
                           const std::vector<int64_t> &w,
                           const std::vector<int64_t> &y, Body body) {
  HostArray xs(x), ws(w), ys(y);
  auto sx = xs.strides(), sw = ws.strides(), sy = ys.strides();
  int64_t groups = x[1] / w[1], perGroup = groups ? w[0] / groups : 0;
  size_t spatial = x.size() - 2;
  forEachIndex(y, [&](const std::vector<int64_t> &o) {
    forEachIndex({w.begin() + 1, w.end()}, [&](const std::vector<int64_t> &j) {
      int64_t from = o[0] * sx[0] + (o[1] / perGroup * w[1] + j[0]) * sx[1];
      int64_t by = o[1] * sw[0] + j[0] * sw[1],
              to = o[0] * sy[0] + o[1] * sy[1];
      for (size_t d = 0; d < spatial; ++d) {
        int64_t at = o[d + 2] * op.getStrides()[d] - op.getPads()[d] +
                     j[d + 1] * op.getDilations()[d];
        if (at < 0 || at >= x[d + 2])
          return;
        from += at * sx[d + 2];
        by += j[d + 1] * sw[d + 2];
        to += o[d + 2] * sy[d + 2];
      }
      body(from, by, to);
    });
  });
}

static void evalConv(Evaluation &e) {
  const HostArray &x = *e.operands[0], &w = *e.operands[1];
  HostArray &y = e.results[0];
  forEachProduct(cast<ConvOp>(e.op), x.shape, w.shape, y.shape,
                 [&](int64_t a, int64_t b, int64_t c) { y[c] += x[a] * w[b]; });
}

static void evalConvGradInput(Evaluation &e) {
  const HostArray &dy = *e.operands[0], &w = *e.operands[1];
  HostArray &dx = e.results[0];
  forEachProduct(
      cast<ConvGradInputOp>(e.op), dx.shape, w.shape, dy.shape,
      [&](int64_t a, int64_t b, int64_t c) { dx[a] += dy[c] * w[b]; });
}

static void evalConvGradFilter(Evaluation &e) {
  const HostArray &dy = *e.operands[0], &x = *e.operands[1];
  HostArray &dw = e.results[0];
  forEachProduct(
      cast<ConvGradFilterOp>(e.op), x.shape, dw.shape, dy.shape,
      [&](int64_t a, int64_t b, int64_t c) { dw[b] += dy[c] * x[a]; });
}

static void evalMaxPool(Evaluation &e) {
  auto op = cast<MaxPoolOp>(e.op);
  const HostArray &x = *e.operands[0];
  std::vector<int64_t> strides = x.strides();
  std::vector<int64_t> kernel(op.getKernel().begin(), op.getKernel().end());
  int64_t i = 0;
  forEachIndex(e.results[0].shape, [&](const std::vector<int64_t> &o) {
    int64_t plane = o[0] * strides[0] + o[1] * strides[1], best = -1;
    forEachIndex(kernel, [&](const std::vector<int64_t> &j) {
      int64_t position = 0;
      for (size_t d = 0; d < j.size(); ++d) {
        int64_t at = o[d + 2] * op.getStrides()[d] - op.getPads()[d] +
                     j[d] * op.getDilations()[d];
        if (at < 0 || at >= x.shape[d + 2])
          return;
        position += at * strides[d + 2];
      }
      if (best < 0 || x[plane + position] > x[plane + best] ||
          std::isnan(x[plane + position]))
        best = position;
    });
    e.results[0][i] = x[plane + best];
    e.results[1][i++] = static_cast<double>(best);
  });
}

static void evalMaxPoolGrad(Evaluation &e) {
  const HostArray &dy = *e.operands[0], &index = *e.operands[1];
  HostArray &dx = e.results[0];
  int64_t planes = dx.shape[0] * dx.shape[1];
  for (int64_t i = 0; i < dy.size(); ++i) {
    int64_t plane = i / (dy.size() / planes);
    // The index of a window that contains only padding is NaN.
    if (!std::isnan(index[i]))
      dx[plane * (dx.size() / planes) + static_cast<int64_t>(index[i])] +=
          dy[i];
  }
}

template <typename Body>
static void forEachChannel(const HostArray &x, Body body) {
  int64_t channels = x.shape[1], inner = x.strides()[1];
  for (int64_t i = 0; i < x.size(); ++i)
    body(i, i / inner % channels);
}

static void evalBatchNorm(Evaluation &e) {
  const HostArray &x = *e.operands[0];
  HostArray &y = e.results[0], &mean = e.results[1], &var = e.results[2];
  double count = static_cast<double>(x.size()) / mean.size();
  double eps = cast<BatchNormOp>(e.op).getEps().convertToDouble();
  forEachChannel(x, [&](int64_t i, int64_t c) { mean[c] += x[i] / count; });
  forEachChannel(x, [&](int64_t i, int64_t c) {
    var[c] += (x[i] - mean[c]) * (x[i] - mean[c]) / count;
  });
  forEachChannel(x, [&](int64_t i, int64_t c) {
    y[i] = (x[i] - mean[c]) / std::sqrt(var[c] + eps) * (*e.operands[1])[c] +
           (*e.operands[2])[c];
  });
}

static void evalBatchNormGrad(Evaluation &e) {
  const HostArray &x = *e.operands[0], &mean = *e.operands[1],
                  &var = *e.operands[2], &dy = *e.operands[3];
  HostArray &dx = e.results[0], &dscale = e.results[1], &dbias = e.results[2];
  double count = static_cast<double>(x.size()) / mean.size();
  double eps = cast<BatchNormGradOp>(e.op).getEps().convertToDouble();
  auto z = [&](int64_t i, int64_t c) {
    return (x[i] - mean[c]) / std::sqrt(var[c] + eps);
  };
  forEachChannel(x, [&](int64_t i, int64_t c) {
    dbias[c] += dy[i];
    dscale[c] += dy[i] * z(i, c);
  });
  forEachChannel(x, [&](int64_t i, int64_t c) {
    dx[i] = (*e.operands[4])[c] / std::sqrt(var[c] + eps) *
            (dy[i] - dbias[c] / count - z(i, c) * dscale[c] / count);
  });
}

void addSpatialOps(std::map<std::string, Handler> &table) {
  table["dpc.conv"] = evalConv;
  table["dpc.conv_grad_input"] = evalConvGradInput;
  table["dpc.conv_grad_filter"] = evalConvGradFilter;
  table["dpc.max_pool"] = evalMaxPool;
  table["dpc.max_pool_grad"] = evalMaxPoolGrad;
  table["dpc.batch_norm"] = evalBatchNorm;
  table["dpc.batch_norm_grad"] = evalBatchNormGrad;
}

} // namespace dpc::test
