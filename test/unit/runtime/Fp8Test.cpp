#include "runtime/kernels/Fp8.h"
#include "runtime/base/HostTensor.h"
#include "runtime/kernels/Matmul.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <map>

namespace dpc::rt {
namespace {

constexpr DType kFormats[] = {DType::F8E4M3FN, DType::F8E5M2};
constexpr float kInf = std::numeric_limits<float>::infinity();

/// Returns the finite non-negative numbers of a format and their codes, as
/// defined in OCP 8-bit floating point.
std::map<double, uint8_t> numbersOf(DType format) {
  bool isE4 = format == DType::F8E4M3FN;
  int mantissa = isE4 ? 3 : 2, bias = isE4 ? 7 : 15, count = isE4 ? 0x7f : 0x7c;
  std::map<double, uint8_t> numbers;
  for (int code = 0; code < count; ++code) {
    int exponent = code >> mantissa, rest = code & ((1 << mantissa) - 1);
    double value = exponent == 0 ? std::ldexp(rest, 1 - bias - mantissa)
                                 : std::ldexp(rest + (1 << mantissa),
                                              exponent - bias - mantissa);
    numbers[value] = static_cast<uint8_t>(code);
  }
  return numbers;
}

/// Returns the code of the nearest number; on ties, the even code.
uint8_t nearest(const std::map<double, uint8_t> &numbers, double value) {
  auto above = numbers.lower_bound(std::abs(value));
  uint8_t code = 0;
  if (above == numbers.end()) {
    code = numbers.rbegin()->second;
  } else if (above == numbers.begin()) {
    code = above->second;
  } else {
    auto below = std::prev(above);
    double up = above->first - std::abs(value),
           down = std::abs(value) - below->first;
    bool isUp = up < down || (up == down && above->second % 2 == 0);
    code = isUp ? above->second : below->second;
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

TEST(Fp8, AllBf16NumbersRoundToTheNearestCode) {
  for (DType format : kFormats) {
    auto numbers = numbersOf(format);
    for (float scale : {1.0f, 448.0f / 3.0f, 0x1p-100f, 7.3e11f})
      for (int bits = 0; bits < 0x10000; ++bits) {
        float scaled = bf16ToFloat(static_cast<uint16_t>(bits)) * scale;
        if (!std::isfinite(scaled))
          continue;
        ASSERT_EQ(fp8Code(scaled, format), nearest(numbers, scaled))
            << scaled << " " << nameOf(format);
      }
  }
}

TEST(Fp8, ValuesOfCodesMatchTheFormats) {
  for (DType format : kFormats)
    for (auto [value, code] : numbersOf(format)) {
      uint8_t both[] = {code, static_cast<uint8_t>(code | 0x80)};
      EXPECT_EQ(fp8Values(both, 2, format),
                (std::vector<float>{static_cast<float>(value),
                                    static_cast<float>(-value)}));
    }
}

/// The table is from casts by ml_dtypes 0.6. These casts do not saturate, so
/// the table has no numbers above the largest fp8 number.
TEST(Fp8, CodesMatchMlDtypes) {
  struct {
    float value;
    int e4m3, e5m2;
  } const recorded[] = {
      {0.0f, 0x00, 0x00},           {-0.0f, 0x80, 0x80},
      {1.0f, 0x38, 0x3c},           {448.0f, 0x7e, 0x5f},
      {464.0f, 0x7e, 0x5f},         {0x1p-6f, 0x08, 0x24},
      {0x1p-9f, 0x01, 0x18},        {0x1p-10f, 0x00, 0x14},
      {0x1.8p-10f, 0x01, 0x16},     {0x1.00068ep-10f, 0x01, 0x14},
      {0x1.8p-9f, 0x02, 0x1a},      {-0.3f, 0xaa, 0xb5},
      {1.0625f, 0x38, 0x3c},        {1.1875f, 0x3a, 0x3d},
      {17.5f, 0x59, 0x4c},          {-240.1f, 0xf7, 0xdc},
      {0x1p-16f, 0x00, 0x01},       {0x1p-17f, 0x00, 0x00},
      {0x1.19999ap-17f, 0x00, 0x01}};
  for (auto [value, e4m3, e5m2] : recorded) {
    EXPECT_EQ(fp8Code(value, DType::F8E4M3FN), e4m3) << value;
    EXPECT_EQ(fp8Code(value, DType::F8E5M2), e5m2) << value;
  }
  EXPECT_EQ(fp8Code(61439.0f, DType::F8E5M2), 0x7b);
}

TEST(Fp8, FiniteNumbersSaturate) {
  EXPECT_EQ(fp8Code(464.1f, DType::F8E4M3FN), 0x7e);
  EXPECT_EQ(fp8Code(-3e38f, DType::F8E4M3FN), 0xfe);
  EXPECT_EQ(fp8Code(-61440.0f, DType::F8E5M2), 0xfb);
  EXPECT_EQ(fp8Code(kInf, DType::F8E4M3FN), 0x7f); // NaN
  EXPECT_EQ(fp8Code(-kInf, DType::F8E5M2), 0xfc);
  for (DType format : kFormats) {
    uint8_t code = fp8Code(std::nanf(""), format);
    EXPECT_TRUE(std::isnan(fp8Values(&code, 1, format)[0]));
  }
}

uint32_t bitsOf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

TEST(Fp8, ScalesMapAmaxToTheLargestNumber) {
  EXPECT_EQ(fp8Scale(bitsOf(1.0f), DType::F8E4M3FN), 448);
  EXPECT_EQ(fp8Scale(bitsOf(3.0f), DType::F8E4M3FN), 448.0f / 3.0f);
  EXPECT_EQ(fp8Scale(bitsOf(1.0f), DType::F8E5M2), 57344);
  EXPECT_EQ(fp8Scale(bitsOf(3.3e38f), DType::F8E5M2), 57344 / 3.3e38f);
  EXPECT_EQ(fp8Scale(bitsOf(0x1p-133f), DType::F8E4M3FN), 0x1p126f);
  for (float none : {0.0f, kInf, std::nanf("")})
    EXPECT_EQ(fp8Scale(bitsOf(none), DType::F8E4M3FN), 1) << none;
}

TEST(Fp8, AmaxAndCodesIgnoreOtherColumns) {
  std::vector<uint16_t> values;
  for (float value : {1.0f, -3.0f, 9.0f, 2.0f, 0.5f, kInf})
    values.push_back(floatToBf16(value));
  StoredMatrix matrix{values.data(), 2, 2, 3};
  EXPECT_EQ(amaxBits(matrix), bitsOf(3.0f));
  std::vector<uint8_t> codes(4), turned(4);
  fp8Codes(matrix, 1, DType::F8E5M2, false, codes.data());
  fp8Codes(matrix, 1, DType::F8E5M2, true, turned.data());
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x3c, 0xc2, 0x40, 0x38}));
  EXPECT_EQ(turned, (std::vector<uint8_t>{0x3c, 0x40, 0xc2, 0x38}));
  values[1] = floatToBf16(-kInf);
  EXPECT_EQ(amaxBits(matrix), bitsOf(kInf));
  values[4] = floatToBf16(std::nanf(""));
  EXPECT_GT(amaxBits(matrix), bitsOf(kInf));
}

/// An operand as the GEMM reads it.
struct Seen {
  const HostTensor &tensor;
  int64_t offset, ld;
  bool transposed;
  DType format;
  double amax = 0;

  double raw(int64_t row, int64_t col) const {
    return tensor.at(offset + (transposed ? col * ld + row : row * ld + col));
  }
  double coded(int64_t row, int64_t col) const {
    float largest = format == DType::F8E4M3FN ? 448.0f : 57344.0f,
          scale = largest / static_cast<float>(amax);
    uint8_t code =
        nearest(numbersOf(format), static_cast<float>(raw(row, col)) * scale);
    return fp8Values(&code, 1, format)[0] / double(scale);
  }
};

HostTensor spread(int64_t count, double factor) {
  HostTensor tensor = HostTensor::zeros(DType::BF16, {count});
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, factor * std::sin(static_cast<double>(i * i % 1009)));
  return tensor;
}

void expectProduct(MatmulOp op, DType cType) {
  HostTensor a = spread(1000, 0.01), b = spread(1500, 300),
             c = HostTensor::zeros(cType, {16 * 40});
  for (int64_t i = 0; i < c.elements(); ++i)
    c.set(i, static_cast<double>(i % 5));
  HostTensor before = c;
  Seen left{a, op.aOffset, op.lda, op.transA, op.fp8->a},
      right{b, op.bOffset, op.ldb, op.transB, op.fp8->b};
  for (int64_t k = 0; k < op.k; ++k) {
    for (int64_t i = 0; i < op.m; ++i)
      left.amax = std::max(left.amax, std::abs(left.raw(i, k)));
    for (int64_t j = 0; j < op.n; ++j)
      right.amax = std::max(right.amax, std::abs(right.raw(k, j)));
  }
  ASSERT_EQ(runMatmul(op, a.data.data(), DType::BF16, b.data.data(),
                      DType::BF16, c.data.data(), cType)
                .message(),
            "");
  double most = 0;
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      double sum = 0, exact = 0;
      for (int64_t k = 0; k < op.k; ++k) {
        sum += left.coded(i, k) * right.coded(k, j);
        exact += left.raw(i, k) * right.raw(k, j);
      }
      int64_t at = op.cOffset + i * op.ldc + j;
      double want = op.alpha * sum + op.beta * before.at(at);
      double share = cType == DType::F32 ? 1e-5 : 0x1p-8;
      EXPECT_NEAR(c.at(at), want, share * std::abs(want) + 1e-4);
      most = std::max(most, std::abs(op.alpha * (sum - exact)));
    }
  EXPECT_GT(most, 0.01) << "no code was rounded";
}

TEST(Fp8, GemmsMultiplyTheCodes) {
  for (int trans = 0; trans < 4; ++trans)
    for (auto [a, b] : {std::pair(DType::F8E4M3FN, DType::F8E4M3FN),
                        {DType::F8E5M2, DType::F8E4M3FN},
                        {DType::F8E4M3FN, DType::F8E5M2}}) {
      MatmulOp op;
      op.compute = DType::BF16;
      op.m = 16;
      op.n = 32;
      op.k = 16;
      op.transA = trans & 1;
      op.transB = trans & 2;
      op.lda = 24;
      op.ldb = 40;
      op.ldc = 40;
      op.aOffset = 3;
      op.bOffset = 5;
      op.cOffset = 8;
      op.alpha = 0.5;
      op.beta = trans == 0 ? 2 : 0;
      op.fp8 = Fp8Factors{a, b, 0};
      expectProduct(op, DType::F32);
      expectProduct(op, DType::BF16);
    }
}

TEST(Fp8, ResultsOfInfinityAndNanAreNotFinite) {
  MatmulOp op;
  op.compute = DType::BF16;
  op.m = op.n = op.k = op.lda = op.ldb = op.ldc = 16;
  for (DType format : kFormats)
    for (float bad : {kInf, std::nanf("")}) {
      op.fp8 = Fp8Factors{format, DType::F8E4M3FN, 0};
      HostTensor a = spread(256, 1), b = spread(256, 1),
                 c = HostTensor::zeros(DType::BF16, {256});
      a.set(5 * 16 + 3, bad);
      ASSERT_TRUE(runMatmul(op, a.data.data(), DType::BF16, b.data.data(),
                            DType::BF16, c.data.data(), DType::BF16)
                      .ok());
      EXPECT_FALSE(std::isfinite(c.at(5 * 16 + 7)));
      EXPECT_TRUE(std::isfinite(c.at(6 * 16 + 7)));
    }
}

} // namespace
} // namespace dpc::rt
