#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/base/HostTensor.h"
#include "test/unit/runtime/SmallIntegers.h"

#include <gtest/gtest.h>
#include <random>

namespace dpc::rt {
namespace {

/// Ids from `low` to `high`.
HostTensor ids(int64_t count, DType type, int64_t low, int64_t high) {
  HostTensor tensor = HostTensor::zeros(type, {count});
  std::mt19937 random(7);
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i,
               static_cast<double>(low + int64_t(random() % (high - low + 1))));
  return tensor;
}

struct Case {
  ExpertMatmulOp op;
  int64_t first = 0, valid = 0;
  int64_t low = 0, high = 0; ///< of ids
  DType result = DType::F32, idType = DType::I64;
};

/// Compares runExpertMatmul with its definition. The numbers are small
/// integers, so that the order of sums does not matter.
void expectCase(const Case &c) {
  const ExpertMatmulOp &op = c.op;
  bool isForward = op.kind == ExpertMatmulKind::Forward;
  HostTensor x = smallIntegers(op.rows / op.sharesX * op.k, op.compute, 1),
             w = smallIntegers(op.experts * op.k * op.n,
                               isForward ? op.compute : c.result, 2),
             y = smallIntegers(op.rows / op.sharesY * op.n,
                               isForward ? c.result : op.compute, 3),
             id = ids(op.rows, c.idType, c.low, c.high);
  HostTensor want = HostTensor::zeros(
      DType::F64, {isForward ? op.rows * op.n : op.experts * op.k * op.n});
  for (int64_t r = 0; r < op.rows; ++r) {
    auto e = static_cast<int64_t>(id.at(r)) - c.first;
    if (e < 0 || e >= c.valid)
      continue;
    for (int64_t i = 0; i < op.k; ++i)
      for (int64_t j = 0; j < op.n; ++j) {
        double left = x.at(r / op.sharesX * op.k + i);
        int64_t at = e * op.k * op.n + i * op.n + j;
        if (isForward)
          want.set(
              r * op.n + j,
              want.at(r * op.n + j) +
                  left * w.at(op.transW ? e * op.k * op.n + j * op.k + i : at));
        else
          want.set(at, want.at(at) + left * y.at(r / op.sharesY * op.n + j));
      }
  }
  ExpertArrays arrays{x.data.data(), id.data.data(), w.data.data(),
                      y.data.data(), c.idType,       c.result,
                      c.first,       c.valid};
  ASSERT_EQ(runExpertMatmul(op, arrays).message(), "");
  HostTensor &got = isForward ? y : w;
  for (int64_t i = 0; i < numElements(want.shape); ++i)
    ASSERT_EQ(got.at(i), want.at(i)) << i;
}

Case small(ExpertMatmulKind kind) {
  Case c;
  c.op.kind = kind;
  c.op.rows = 24;
  c.op.experts = c.valid = 5;
  c.op.k = 3;
  c.op.n = 4;
  c.high = 4;
  return c;
}

TEST(ExpertMatmul, AgreesWithItsDefinition) {
  for (ExpertMatmulKind kind :
       {ExpertMatmulKind::Forward, ExpertMatmulKind::GradWeight})
    for (DType compute : {DType::F32, DType::F64, DType::BF16, DType::F16})
      for (DType idType : {DType::I64, DType::I32})
        for (int64_t shares : {1, 2, 4}) {
          Case c = small(kind);
          c.op.compute = c.result = compute;
          c.op.sharesX = shares;
          c.idType = idType;
          expectCase(c);
          if (kind == ExpertMatmulKind::GradWeight)
            c.op.sharesY = 2;
          else
            c.op.transW = true;
          if (compute == DType::BF16 || compute == DType::F16)
            c.result = DType::F32;
          expectCase(c);
        }
}

TEST(ExpertMatmul, SkipsRowsOfOtherExperts) {
  for (ExpertMatmulKind kind :
       {ExpertMatmulKind::Forward, ExpertMatmulKind::GradWeight}) {
    Case c = small(kind);
    c.first = 5; // the second of three shards of 14 experts
    c.low = -1;
    c.high = 14;
    expectCase(c);
    c.first = 10; // the last one has 4 experts, and padding that is not read
    c.valid = 4;
    expectCase(c);
  }
}

// A plan cannot make the rank read beyond its experts.
TEST(ExpertMatmul, ExpertsOfARankAreLimited) {
  Plan plan;
  plan.buffers.resize(1);
  ExpertMatmulOp op = small(ExpertMatmulKind::Forward).op;
  op.x = op.ids = op.w = op.y = 0;
  for (auto [valid, most] : {std::pair(9, 5), {-1, 0}, {4, 4}}) {
    auto arrays = expertArrays(
        plan, op, [valid = valid](const ScalarExpr &) { return valid; },
        [](int) { return static_cast<void *>(nullptr); });
    EXPECT_EQ(arrays.valid, most);
  }
}

TEST(ExpertMatmul, AllRowsOfOneExpertOrNone) {
  for (ExpertMatmulKind kind :
       {ExpertMatmulKind::Forward, ExpertMatmulKind::GradWeight})
    for (DType compute : {DType::F32, DType::BF16}) {
      Case c = small(kind);
      c.op.compute = compute;
      c.op.rows = 2 * kExpertTile + 10; // three tiles
      c.low = c.high = 3;
      expectCase(c);
      c.low = c.high = 9;
      expectCase(c);
      c.op.rows = 0;
      expectCase(c);
    }
}

} // namespace
} // namespace dpc::rt
