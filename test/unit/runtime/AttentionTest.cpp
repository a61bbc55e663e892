#include "runtime/kernels/Attention.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace dpc::rt {
namespace {

using Doubles = std::vector<double>;

/// An operand and its place in memory, in elements.
struct Operand {
  AttentionTensor tensor;
  std::vector<int64_t> extents; ///< batch, heads, time and head_dim
  std::vector<char> memory;
  DType type = DType::F32;

  int64_t at(int64_t b, int64_t h, int64_t t, int64_t d) const {
    return tensor.offset + b * tensor.strides[0] + h * tensor.strides[1] +
           t * tensor.strides[2] + d;
  }
  double get(int64_t b, int64_t h, int64_t t, int64_t d) const {
    return loadAsDouble(memory.data(), type, at(b, h, t, d));
  }
};

/// Returns a random operand. With `isSplit`, the memory is [B, T, H, D], as in
/// models, and gaps are NaN. Otherwise it is [B, H, T, D] without gaps.
Operand operand(std::vector<int64_t> extents, DType type, bool isSplit,
                unsigned seed) {
  Operand made;
  made.extents = extents;
  made.type = type;
  int64_t b = extents[0], h = extents[1], t = extents[2], d = extents[3];
  int64_t row = h * d + 3;
  made.tensor.offset = isSplit ? 2 : 0;
  made.tensor.strides = isSplit ? std::vector<int64_t>{t * row, d, row}
                                : std::vector<int64_t>{h * t * d, t * d, d};
  int64_t count = isSplit ? b * t * row + 2 : b * h * t * d;
  made.memory.resize(count * sizeOf(type));
  for (int64_t i = 0; i < count; ++i)
    storeFromDouble(made.memory.data(), type, i, NAN);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> values(-1.5, 1.5);
  for (int64_t i = 0; i < b; ++i)
    for (int64_t j = 0; j < h; ++j)
      for (int64_t k = 0; k < t; ++k)
        for (int64_t l = 0; l < d; ++l)
          storeFromDouble(made.memory.data(), type, made.at(i, j, k, l),
                          values(random));
  return made;
}

struct Case {
  AttentionShape shape;
  Operand q, k, v, out, dout, dq, dk, dv;
  std::vector<float> lse;

  Case(AttentionShape given, bool isSplit) : shape(given) {
    DType type = shape.compute;
    auto make = [&](int64_t heads, int64_t positions, int64_t depth,
                    unsigned seed) {
      return operand({shape.batch, heads, positions, depth}, type, isSplit,
                     seed);
    };
    q = make(shape.heads, shape.queries, shape.depth, 1);
    k = make(shape.groups, shape.keys, shape.depth, 2);
    v = make(shape.groups, shape.keys, shape.valueDepth, 3);
    out = make(shape.heads, shape.queries, shape.valueDepth, 4);
    dout = make(shape.heads, shape.queries, shape.valueDepth, 5);
    dq = make(shape.heads, shape.queries, shape.depth, 6);
    dk = make(shape.groups, shape.keys, shape.depth, 7);
    dv = make(shape.groups, shape.keys, shape.valueDepth, 8);
    lse.assign(shape.batch * shape.heads * shape.queries, NAN);
  }

  Status run() {
    AttentionOp op{shape, q.tensor, k.tensor, v.tensor, out.tensor, 0};
    AttentionData data;
    data.q = q.memory.data();
    data.k = k.memory.data();
    data.v = v.memory.data();
    data.out = out.memory.data();
    data.lse = lse.data();
    data.dout = dout.memory.data();
    data.dq = dq.memory.data();
    data.dk = dk.memory.data();
    data.dv = dv.memory.data();
    DPC_TRY(runAttention(op, data));
    AttentionGradOp grad{shape,      q.tensor,    k.tensor, v.tensor,
                         out.tensor, dout.tensor, 0,        dq.tensor,
                         dk.tensor,  dv.tensor};
    return runAttention(grad, data);
  }
};

/// The probabilities for one query, and their gradients.
struct Row {
  Doubles p, dp;
  double lse = 0;
};

Row rowOf(const Case &c, int64_t b, int64_t h, int64_t t) {
  const AttentionShape &s = c.shape;
  int64_t g = h / (s.heads / s.groups);
  Row row;
  double sum = 0;
  for (int64_t j = 0; j < s.keys; ++j) {
    double score = 0, dp = 0;
    for (int64_t d = 0; d < s.depth; ++d)
      score += c.q.get(b, h, t, d) * c.k.get(b, g, j, d);
    for (int64_t e = 0; e < s.valueDepth; ++e)
      dp += c.dout.get(b, h, t, e) * c.v.get(b, g, j, e);
    int64_t distance = t + s.keys - s.queries - j;
    bool isSeen =
        (!s.causal || distance >= 0) && (!s.window || distance < *s.window);
    row.p.push_back(isSeen ? std::exp(s.scale * score) : 0);
    row.dp.push_back(dp);
    sum += row.p.back();
  }
  for (double &p : row.p)
    p /= sum;
  row.lse = std::log(sum);
  return row;
}

void expectNear(double actual, double expected, double tolerance,
                const char *what) {
  ASSERT_LE(std::abs(actual - expected), tolerance * (1 + std::abs(expected)))
      << what << ": " << actual << " is not " << expected;
}

/// Compares all results with a reference in double.
void expectRight(const Case &c, double tolerance) {
  const AttentionShape &s = c.shape;
  int64_t repeats = s.heads / s.groups;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g) {
      Doubles dk(s.keys * s.depth), dv(s.keys * s.valueDepth);
      for (int64_t h = g * repeats; h < (g + 1) * repeats; ++h)
        for (int64_t t = 0; t < s.queries; ++t) {
          Row row = rowOf(c, b, h, t);
          double delta = 0;
          for (int64_t e = 0; e < s.valueDepth; ++e) {
            double out = 0;
            for (int64_t j = 0; j < s.keys; ++j) {
              out += row.p[j] * c.v.get(b, g, j, e);
              dv[j * s.valueDepth + e] += row.p[j] * c.dout.get(b, h, t, e);
            }
            delta += c.dout.get(b, h, t, e) * c.out.get(b, h, t, e);
            expectNear(c.out.get(b, h, t, e), out, tolerance, "out");
          }
          expectNear(c.lse[(b * s.heads + h) * s.queries + t], row.lse,
                     tolerance, "lse");
          for (int64_t d = 0; d < s.depth; ++d) {
            double dq = 0;
            for (int64_t j = 0; j < s.keys; ++j) {
              double ds = s.scale * row.p[j] * (row.dp[j] - delta);
              dq += ds * c.k.get(b, g, j, d);
              dk[j * s.depth + d] += ds * c.q.get(b, h, t, d);
            }
            expectNear(c.dq.get(b, h, t, d), dq, tolerance, "dq");
          }
        }
      for (int64_t j = 0; j < s.keys; ++j) {
        for (int64_t d = 0; d < s.depth; ++d)
          expectNear(c.dk.get(b, g, j, d), dk[j * s.depth + d], tolerance,
                     "dk");
        for (int64_t e = 0; e < s.valueDepth; ++e)
          expectNear(c.dv.get(b, g, j, e), dv[j * s.valueDepth + e], tolerance,
                     "dv");
      }
    }
}

AttentionShape shapeOf(int64_t heads, int64_t groups, int64_t queries,
                       int64_t keys, bool causal, DType type) {
  return {2, heads, groups, queries, keys, 5, 7, 0.4, causal, type};
}

TEST(Attention, MatchesSumsInDouble) {
  for (bool isSplit : {false, true})
    for (bool causal : {false, true})
      for (auto [heads, groups] : {std::pair(3, 3), {4, 2}, {4, 1}}) {
        Case c(shapeOf(heads, groups, 6, 6, causal, DType::F32), isSplit);
        ASSERT_EQ(c.run().message(), "");
        expectRight(c, 2e-6);
      }
}

/// The error is at most that of one rounding.
TEST(Attention, RoundsResults) {
  for (auto [type, tolerance] :
       {std::pair(DType::BF16, 1.0 / 128), {DType::F16, 1.0 / 1024}}) {
    Case c(shapeOf(4, 2, 6, 6, true, type), true);
    ASSERT_EQ(c.run().message(), "");
    expectRight(c, tolerance);
  }
}

TEST(Attention, TheLastQueryIsAtTheLastKey) {
  Case c(shapeOf(2, 2, 3, 8, true, DType::F32), true);
  ASSERT_EQ(c.run().message(), "");
  expectRight(c, 2e-6);
}

TEST(Attention, WindowsHideDistantKeys) {
  for (auto [queries, keys] : {std::pair(6, 6), {3, 8}})
    for (bool causal : {false, true})
      for (int64_t window : {1, 3, 7}) {
        AttentionShape shape = shapeOf(4, 2, queries, keys, causal, DType::F32);
        shape.window = window;
        Case c(shape, true);
        ASSERT_EQ(c.run().message(), "");
        expectRight(c, 2e-6);
      }
}

TEST(Attention, QueriesWithoutKeysGiveZero) {
  Case c(shapeOf(2, 1, 5, 3, true, DType::F32), false);
  ASSERT_EQ(c.run().message(), "");
  for (int64_t t = 0; t < 2; ++t) {
    EXPECT_EQ(c.lse[t], -INFINITY);
    EXPECT_EQ(c.out.get(0, 0, t, 3), 0);
    EXPECT_EQ(c.dq.get(0, 0, t, 3), 0);
  }
  EXPECT_TRUE(std::isfinite(c.dk.get(0, 0, 2, 0)));
  EXPECT_TRUE(std::isfinite(c.lse[2]));
}

/// exp(200) overflows in f32.
TEST(Attention, LargeScoresDoNotOverflow) {
  AttentionShape shape = shapeOf(2, 2, 6, 6, true, DType::F32);
  shape.scale = 60;
  Case c(shape, true);
  ASSERT_EQ(c.run().message(), "");
  expectRight(c, 1e-4);
}

} // namespace
} // namespace dpc::rt
