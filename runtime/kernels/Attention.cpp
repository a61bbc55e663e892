//===- Attention.cpp - attention on the CPU -------------------------------===//
//
// Each key head is processed separately. The head's k, the transpose of k, and
// v are copied as f32, so that the inner loops run over contiguous elements and
// are vectorized:
//
//   scores[s] += q[d] * k^T[d][s]      out[e] += p[s] * v[s][e]
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/Attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpc::rt {

namespace {

using Floats = std::vector<float>;

int64_t placeOf(const AttentionTensor &tensor, int64_t batch, int64_t head,
                int64_t position) {
  return tensor.offset + batch * tensor.strides[0] + head * tensor.strides[1] +
         position * tensor.strides[2];
}

void load(const void *data, DType type, int64_t at, int64_t count, float *out) {
  if (type == DType::F32) {
    std::copy_n(static_cast<const float *>(data) + at, count, out);
    return;
  }
  const auto *bits = static_cast<const uint16_t *>(data) + at;
  for (int64_t i = 0; i < count; ++i)
    out[i] = type == DType::BF16 ? bf16ToFloat(bits[i]) : f16ToFloat(bits[i]);
}

void store(const float *values, DType type, int64_t at, int64_t count,
           void *data) {
  if (type == DType::F32) {
    std::copy_n(values, count, static_cast<float *>(data) + at);
    return;
  }
  auto *bits = static_cast<uint16_t *>(data) + at;
  for (int64_t i = 0; i < count; ++i)
    bits[i] =
        type == DType::BF16 ? floatToBf16(values[i]) : floatToF16(values[i]);
}

Floats loadHead(const void *data, DType type, const AttentionTensor &tensor,
                int64_t batch, int64_t head, int64_t positions, int64_t depth) {
  Floats rows(positions * depth);
  for (int64_t p = 0; p < positions; ++p)
    load(data, type, placeOf(tensor, batch, head, p), depth, &rows[p * depth]);
  return rows;
}

void storeHead(const Floats &rows, void *data, DType type,
               const AttentionTensor &tensor, int64_t batch, int64_t head,
               int64_t depth) {
  int64_t positions = static_cast<int64_t>(rows.size()) / depth;
  for (int64_t p = 0; p < positions; ++p)
    store(&rows[p * depth], type, placeOf(tensor, batch, head, p), depth, data);
}

Floats transposed(const Floats &rows, int64_t depth) {
  int64_t count = static_cast<int64_t>(rows.size()) / depth;
  Floats columns(rows.size());
  for (int64_t i = 0; i < count; ++i)
    for (int64_t d = 0; d < depth; ++d)
      columns[d * count + i] = rows[i * depth + d];
  return columns;
}

/// out[i] += factor * x[i]
void addTimes(float factor, const float *x, int64_t count, float *out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] += factor * x[i];
}

/// The keys `first` to `last` - 1, to which a query attends.
struct Seen {
  int64_t first, last;
  int64_t count() const { return last - first; }
};

Seen keysOf(const AttentionShape &shape, int64_t t) {
  int64_t after = t + 1 + shape.keys - shape.queries;
  auto key = [&](int64_t s) { return std::clamp<int64_t>(s, 0, shape.keys); };
  Seen seen{shape.window ? key(after - *shape.window) : 0,
            shape.causal ? key(after) : shape.keys};
  return {std::min(seen.first, seen.last), seen.last};
}

/// Sets row[s] to factor * dot(x, column s) for the keys s of `seen`. `columns`
/// has `depth` rows of `keys` elements.
void dotColumns(const float *x, const Floats &columns, int64_t depth,
                int64_t keys, Seen seen, float factor, float *row) {
  std::fill_n(row + seen.first, seen.count(), 0.0F);
  for (int64_t d = 0; d < depth; ++d)
    addTimes(x[d], &columns[d * keys + seen.first], seen.count(),
             row + seen.first);
  for (int64_t s = seen.first; s < seen.last; ++s)
    row[s] *= factor;
}

/// Scores become exp(score - largest). Returns their sum and the largest.
std::pair<float, float> exponentials(float *row, Seen seen) {
  float most = *std::max_element(row + seen.first, row + seen.last), sum = 0;
  for (int64_t s = seen.first; s < seen.last; ++s) {
    row[s] = std::exp(row[s] - most);
    sum += row[s];
  }
  return {sum, most};
}

void runRow(const AttentionShape &shape, const float *q, const Floats &kColumns,
            const Floats &v, int64_t t, float *scores, float *out, float *lse) {
  Seen seen = keysOf(shape, t);
  std::fill_n(out, shape.valueDepth, 0.0F);
  *lse = -std::numeric_limits<float>::infinity();
  if (seen.count() == 0)
    return;
  dotColumns(q, kColumns, shape.depth, shape.keys, seen,
             static_cast<float>(shape.scale), scores);
  auto [sum, most] = exponentials(scores, seen);
  for (int64_t s = seen.first; s < seen.last; ++s)
    addTimes(scores[s], &v[s * shape.valueDepth], shape.valueDepth, out);
  for (int64_t e = 0; e < shape.valueDepth; ++e)
    out[e] /= sum;
  *lse = most + std::log(sum);
}

/// What the gradients of one key head's queries share.
struct GradHead {
  const AttentionShape &shape;
  Floats k, v, kColumns, vColumns, dk, dv, scores, dscores;

  /// Adds the terms of query t to dk and dv, and sets dq of query t.
  void runRow(int64_t t, const float *q, const float *out, const float *dout,
              float lse, float *dq) {
    Seen seen = keysOf(shape, t);
    int64_t depth = shape.depth, valueDepth = shape.valueDepth;
    auto scale = static_cast<float>(shape.scale);
    dotColumns(q, kColumns, depth, shape.keys, seen, scale, scores.data());
    dotColumns(dout, vColumns, valueDepth, shape.keys, seen, 1, dscores.data());
    float delta = 0;
    for (int64_t e = 0; e < valueDepth; ++e)
      delta += dout[e] * out[e];
    std::fill_n(dq, depth, 0.0F);
    for (int64_t s = seen.first; s < seen.last; ++s) {
      float p = std::exp(scores[s] - lse);
      float ds = scale * p * (dscores[s] - delta);
      addTimes(ds, &k[s * depth], depth, dq);
      addTimes(ds, q, depth, &dk[s * depth]);
      addTimes(p, dout, valueDepth, &dv[s * valueDepth]);
    }
  }
};

} // namespace

Status runAttention(const AttentionOp &op, const AttentionData &data) {
  const AttentionShape &s = op.shape;
  int64_t repeats = s.heads / s.groups;
  Floats scores(s.keys), q(s.depth), out(s.valueDepth);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g) {
      Floats columns = transposed(
          loadHead(data.k, s.compute, op.k, b, g, s.keys, s.depth), s.depth);
      Floats v = loadHead(data.v, s.compute, op.v, b, g, s.keys, s.valueDepth);
      for (int64_t h = g * repeats; h < (g + 1) * repeats; ++h)
        for (int64_t t = 0; t < s.queries; ++t) {
          load(data.q, s.compute, placeOf(op.q, b, h, t), s.depth, q.data());
          float *lse = static_cast<float *>(data.lse) +
                       (b * s.heads + h) * s.queries + t;
          runRow(s, q.data(), columns, v, t, scores.data(), out.data(), lse);
          store(out.data(), s.compute, placeOf(op.out, b, h, t), s.valueDepth,
                data.out);
        }
    }
  return Status::success();
}

Status runAttention(const AttentionGradOp &op, const AttentionData &data) {
  const AttentionShape &s = op.shape;
  int64_t repeats = s.heads / s.groups;
  Floats q(s.depth), dq(s.depth), out(s.valueDepth), dout(s.valueDepth);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g) {
      GradHead head{
          s,
          loadHead(data.k, s.compute, op.k, b, g, s.keys, s.depth),
          loadHead(data.v, s.compute, op.v, b, g, s.keys, s.valueDepth),
          {},
          {},
          Floats(s.keys * s.depth),
          Floats(s.keys * s.valueDepth),
          Floats(s.keys),
          Floats(s.keys)};
      head.kColumns = transposed(head.k, s.depth);
      head.vColumns = transposed(head.v, s.valueDepth);
      for (int64_t h = g * repeats; h < (g + 1) * repeats; ++h)
        for (int64_t t = 0; t < s.queries; ++t) {
          load(data.q, s.compute, placeOf(op.q, b, h, t), s.depth, q.data());
          load(data.out, s.compute, placeOf(op.out, b, h, t), s.valueDepth,
               out.data());
          load(data.dout, s.compute, placeOf(op.dout, b, h, t), s.valueDepth,
               dout.data());
          float lse = static_cast<const float *>(
              data.lse)[(b * s.heads + h) * s.queries + t];
          head.runRow(t, q.data(), out.data(), dout.data(), lse, dq.data());
          store(dq.data(), s.compute, placeOf(op.dq, b, h, t), s.depth,
                data.dq);
        }
      storeHead(head.dk, data.dk, s.compute, op.dk, b, g, s.depth);
      storeHead(head.dv, data.dv, s.compute, op.dv, b, g, s.valueDepth);
    }
  return Status::success();
}

} // namespace dpc::rt
