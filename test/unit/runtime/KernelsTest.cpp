#include "runtime/base/HostTensor.h"
#include "runtime/base/Wait.h"
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/KernelLibrary.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/plan/PlanJson.h"
#include "test/unit/runtime/Expect.h"
#include "test/unit/runtime/TestPlans.h"

#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

namespace dpc::rt {
namespace {

/// Computes MatmulOp by its definition, in double.
HostTensor expected(const MatmulOp &op, const HostTensor &a,
                    const HostTensor &b, HostTensor c) {
  for (int64_t i = 0; i < op.batch; ++i)
    for (int64_t j = 0; j < op.batch2; ++j)
      for (int64_t r = 0; r < op.m; ++r)
        for (int64_t n = 0; n < op.n; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < op.k; ++k)
            sum += a.at(op.aOffset + i * op.strideA + j * op.stride2A +
                        (op.transA ? k * op.lda + r : r * op.lda + k)) *
                   b.at(op.bOffset + i * op.strideB + j * op.stride2B +
                        (op.transB ? n * op.ldb + k : k * op.ldb + n));
          int64_t at =
              op.cOffset + i * op.strideC + j * op.stride2C + r * op.ldc + n;
          c.set(at, op.alpha * sum + (op.beta == 0 ? 0 : op.beta * c.at(at)));
        }
  return c;
}

HostTensor numbers(int64_t count, DType type) {
  HostTensor tensor = HostTensor::zeros(type, {count});
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, static_cast<double>(i * 7 % 9) - 4);
  return tensor;
}

void expectProduct(const MatmulOp &op, DType inputs, DType output) {
  HostTensor a = numbers(400, inputs), b = numbers(500, inputs),
             c = numbers(600, output);
  HostTensor want = expected(op, a, b, c);
  Status status = runMatmul(op, a.data.data(), inputs, b.data.data(), inputs,
                            c.data.data(), output);
  ASSERT_EQ(status.message(), "");
  for (int64_t i = 0; i < 600; ++i)
    ASSERT_EQ(c.at(i), want.at(i)) << i;
}

MatmulOp small(bool transA, bool transB) {
  MatmulOp op;
  op.m = 5;
  op.n = 7;
  op.k = 3;
  op.transA = transA;
  op.transB = transB;
  op.lda = transA ? 6 : 4;
  op.ldb = transB ? 4 : 8;
  op.ldc = 9;
  op.aOffset = 2;
  op.bOffset = 1;
  op.cOffset = 3;
  return op;
}

TEST(Matmul, AllTransposesTypesAndOffsets) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (double beta : {0.0, 1.0, 2.0}) {
        MatmulOp op = small(transA, transB);
        op.alpha = 2;
        op.beta = beta;
        op.compute = DType::F32;
        expectProduct(op, DType::F32, DType::F32);
        op.compute = DType::F64;
        expectProduct(op, DType::F64, DType::F64);
        op.compute = DType::BF16;
        expectProduct(op, DType::BF16, DType::F32);
        expectProduct(op, DType::F32, DType::F32);
      }
}

TEST(Matmul, TwoBatchLevelsReadHeadsInPlace) {
  // q and k are [batch 2, time 4, heads 3, head_dim 5]; the scores are [2, 3,
  // 4, 4].
  MatmulOp op;
  op.m = op.n = 4;
  op.k = 5;
  op.transB = true;
  op.lda = op.ldb = 15;
  op.ldc = 4;
  op.batch = 2;
  op.strideA = op.strideB = 60;
  op.strideC = 48;
  op.batch2 = 3;
  op.stride2A = op.stride2B = 5;
  op.stride2C = 16;
  expectProduct(op, DType::F32, DType::F32);
}

TEST(Matmul, BetaZeroDoesNotReadTheResult) {
  MatmulOp op = small(false, false);
  HostTensor a = numbers(400, DType::F32), b = numbers(500, DType::F32);
  HostTensor c = HostTensor::zeros(DType::F32, {600});
  for (int64_t i = 0; i < 600; ++i)
    c.set(i, NAN);
  ASSERT_TRUE(runMatmul(op, a.data.data(), DType::F32, b.data.data(),
                        DType::F32, c.data.data(), DType::F32)
                  .ok());
  EXPECT_FALSE(std::isnan(c.at(3)));
  EXPECT_TRUE(std::isnan(c.at(2)));
}

TEST(Matmul, PanelsOfManyRowsAreAdded) {
  for (bool transB : {false, true}) {
    MatmulOp op;
    op.m = 3;
    op.n = 64;
    op.k = 4096 + 64;
    op.transA = true;
    op.transB = transB;
    op.lda = 1024;
    op.ldb = transB ? op.k : op.n;
    op.ldc = 64;
    HostTensor a = HostTensor::zeros(DType::F32, {op.k * 1024});
    HostTensor b = HostTensor::zeros(DType::F32, {op.k * 64});
    HostTensor c = HostTensor::zeros(DType::F32, {3 * 64});
    for (int64_t k = 0; k < op.k; ++k)
      a.set(k * 1024 + 1, k < 4096 ? 1 : 2);
    for (int64_t i = 0; i < op.k * 64; ++i)
      b.set(i, 1);
    for (int64_t i = 0; i < 3 * 64; ++i)
      c.set(i, 5);
    op.beta = 2;
    ASSERT_TRUE(runMatmul(op, a.data.data(), DType::F32, b.data.data(),
                          DType::F32, c.data.data(), DType::F32)
                    .ok());
    EXPECT_EQ(c.at(7), 10);
    EXPECT_EQ(c.at(64 + 7), 10 + 4096 + 2 * 64);
  }
}

TEST(Matmul, TransposedRowsAPageApartUsePanels) {
  // A row of 1024 floats is a page. 700 columns are a panel and a remainder.
  MatmulOp op;
  op.m = 700;
  op.n = op.k = 64;
  op.transA = true;
  op.lda = 1024;
  op.ldb = op.ldc = 64;
  op.aOffset = 3;
  op.beta = 1;
  HostTensor a = numbers(1024 * 64, DType::F32),
             b = numbers(64 * 64, DType::F32),
             c = numbers(700 * 64, DType::F32);
  HostTensor want = expected(op, a, b, c);
  ASSERT_TRUE(runMatmul(op, a.data.data(), DType::F32, b.data.data(),
                        DType::F32, c.data.data(), DType::F32)
                  .ok());
  for (int64_t i = 0; i < c.elements(); ++i)
    ASSERT_EQ(c.at(i), want.at(i)) << i;
}

TEST(Matmul, EmptySums) {
  MatmulOp op = small(false, false);
  op.k = 0;
  op.beta = 2;
  expectProduct(op, DType::F32, DType::F32);
  op.m = 0;
  expectProduct(op, DType::F32, DType::F32);
}

double geluOf(double x) {
  return x / 2 *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// Computes an epilogue by its definition in PlanEpilogue.h.
struct EpilogueCase {
  MatmulOp op = small(false, false);
  HostTensor a, b, c, bias, aux;

  EpilogueCase(Epilogue epilogue, DType type)
      : a(numbers(400, type)), b(numbers(500, type)), c(numbers(600, type)),
        bias(numbers(20, type)), aux(numbers(100, type)) {
    op = small(epilogue == Epilogue::SumsOfA, false);
    op.compute = type;
    op.epilogue = epilogue;
    op.biasOffset = 2;
    op.auxOffset = 1;
    op.auxLd = 8;
  }
  double sum(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < op.k; ++k)
      sum += a.at(op.aOffset + (op.transA ? k * op.lda + i : i * op.lda + k)) *
             b.at(op.bOffset + k * op.ldb + j);
    return sum + (readsBias(op.epilogue) ? bias.at(2 + j) : 0);
  }
  double value(int64_t i, int64_t j) const {
    double s = sum(i, j), x = aux.at(1 + i * 8 + j), d = 1e-5;
    switch (op.epilogue) {
    case Epilogue::Relu:
    case Epilogue::ReluBias:
      return std::max(s, 0.0);
    case Epilogue::Gelu:
    case Epilogue::GeluBias:
    case Epilogue::GeluAux:
    case Epilogue::GeluAuxBias:
      return geluOf(s);
    case Epilogue::GeluGrad:
    case Epilogue::GeluGradBias:
      return s * (geluOf(x + d) - geluOf(x - d)) / (2 * d);
    default:
      return s;
    }
  }
};

void expectEpilogue(Epilogue epilogue, DType type) {
  SCOPED_TRACE(std::string(nameOf(epilogue)) + " of " +
               std::string(nameOf(type)));
  EpilogueCase before(epilogue, type), after(epilogue, type);
  Status status = runMatmul(
      after.op, after.a.data.data(), type, after.b.data.data(), type,
      after.c.data.data(), type, after.bias.data.data(), after.aux.data.data());
  ASSERT_EQ(status.message(), "");
  double relative = type == DType::F32 ? 1e-6 : 1.0 / 256;
  auto near = [&](double one, double other) {
    EXPECT_NEAR(one, other, relative * (1 + std::abs(other)));
  };
  const MatmulOp &op = before.op;
  std::vector<double> sums(op.n);
  for (int64_t i = 0; i < op.m; ++i)
    for (int64_t j = 0; j < op.n; ++j) {
      near(after.c.at(op.cOffset + i * op.ldc + j), before.value(i, j));
      sums[j] += before.value(i, j);
      int64_t aux = 1 + i * 8 + j;
      near(after.aux.at(aux),
           writesAux(epilogue) ? before.sum(i, j) : before.aux.at(aux));
    }
  for (int64_t i = 0; i < 20; ++i) {
    double want = before.bias.at(i);
    bool isSum = writesBias(epilogue) && i >= 2;
    if (isSum && epilogue == Epilogue::GeluGradBias && i < 2 + op.n)
      want = sums[i - 2];
    for (int64_t k = 0; isSum && k < op.k; ++k) {
      want = k == 0 && epilogue != Epilogue::GeluGradBias ? 0 : want;
      if (epilogue == Epilogue::SumsOfA)
        want = i < 2 + op.m
                   ? want + before.a.at(op.aOffset + k * op.lda + i - 2)
                   : before.bias.at(i);
      if (epilogue == Epilogue::SumsOfB)
        want = i < 2 + op.n
                   ? want + before.b.at(op.bOffset + k * op.ldb + i - 2)
                   : before.bias.at(i);
    }
    near(after.bias.at(i), want);
  }
}

TEST(Matmul, EpiloguesMatchTheirDefinition) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (int e = 1; e <= static_cast<int>(Epilogue::SumsOfB); ++e)
      expectEpilogue(static_cast<Epilogue>(e), type);
}

TEST(KernelLibrary, LoadsChecksAndCalls) {
  namespace fs = std::filesystem;
  fs::path dir =
      fs::temp_directory_path() / ("dpc-kernels-" + std::to_string(getpid()));
  fs::create_directories(dir / "kernels");
  fs::copy_file(DPC_TEST_KERNELS, dir / "kernels/kernels.so",
                fs::copy_options::overwrite_existing);
  Plan plan;
  plan.kernelFile = "kernels.so";
  plan.kernelHash = *hashFile(DPC_TEST_KERNELS);
  plan.phases["forward"] = {
      {Queue::Compute, {}, -1, "", 0, KernelOp{"testAdd", {}, {}, {}}}};
  Expected<KernelLibrary> library = KernelLibrary::load(plan, dir);
  ASSERT_TRUE(library.ok()) << library.status().message();
  float in[3] = {1, 2, 3}, out[3];
  void *buffers[] = {in, out};
  int64_t scalars[] = {3, 10};
  library->find("testAdd")(buffers, scalars);
  EXPECT_EQ(out[2], 13);
  EXPECT_EQ(library->find("other"), nullptr);

  auto errorOf = [&](const Plan &p) {
    return KernelLibrary::load(p, dir).status().message();
  };
  Plan wrong = plan;
  wrong.kernelHash = "0000000000000000";
  EXPECT_HAS(errorOf(wrong), "hash");
  wrong = plan;
  std::get<KernelOp>(wrong.phases["forward"][0].op).symbol = "gone";
  EXPECT_HAS(errorOf(wrong), "symbol gone");
  wrong = plan;
  wrong.kernelFile = "missing.so";
  EXPECT_HAS(errorOf(wrong), "missing.so");
  wrong = plan;
  wrong.targetGpu = "sm_90";
  EXPECT_HAS(errorOf(wrong), "the plan is for GPUs (sm_90), its kernels do "
                             "not run on a CPU; run it with --device=cuda");
  wrong = plan;
  wrong.targetCpu = "zeta";
  wrong.cpuFeatures = {"avx2000"};
  EXPECT_HAS(errorOf(wrong), "the plan needs avx2000 (compiled for zeta), "
                             "this machine lacks it");
  fs::remove_all(dir);
}

TEST(KernelLibrary, FeatureNamesOfLlvmAreFoundInLinuxFlags) {
  std::string flags = "lm pni sse4_1 avx512f avx512_vnni abm bmi1 amx_tile";
  for (const char *name : {"64bit", "sse3", "sse4.1", "avx512f", "avx512vnni",
                           "lzcnt", "bmi", "amx-tile", "+avx512f", "shstk"})
    EXPECT_TRUE(hasCpuFeature(name, flags)) << name;
  for (const char *name : {"avx2", "avx512bf16", "bmi2", "amx-int8"})
    EXPECT_FALSE(hasCpuFeature(name, flags)) << name;
}

TEST(Conv, SmallExample) {
  // Two samples with one channel. The filters are a difference and a sum of
  // three elements.
  ConvOp op;
  op.xShape = {2, 1, 3};
  op.wShape = {2, 1, 3};
  op.yShape = {2, 2, 2};
  op.strides = {2};
  op.dilations = {1};
  op.pads = {1, 1};
  op.compute = DType::F64;
  std::vector<double> x = {1, 2, 3, 4, 5, 6}, w = {-1, 0, 1, 1, 1, 1}, y(8);
  ASSERT_TRUE(runConv(op, x.data(), w.data(), y.data()).ok());
  EXPECT_EQ(y, (std::vector<double>{2, -2, 3, 5, 5, -5, 9, 11}));
  op.kind = ConvKind::GradInput;
  y = {1, 0, 0, 1, 0, 0, 2, 0};
  ASSERT_TRUE(runConv(op, x.data(), w.data(), y.data()).ok());
  EXPECT_EQ(x, (std::vector<double>{0, 2, 1, 2, 2, 0}));
  op.kind = ConvKind::GradFilter;
  x = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(runConv(op, x.data(), w.data(), y.data()).ok());
  EXPECT_EQ(w, (std::vector<double>{0, 1, 2, 2, 11, 10}));
}

/// Expects equal results of oneDNN (f32) and plain loops (f64) for integers.
void expectConv(ConvOp op) {
  op.yShape = {op.xShape[0], op.wShape[0]};
  size_t spatial = op.strides.size();
  for (size_t d = 0; d < spatial; ++d)
    op.yShape.push_back((op.xShape[d + 2] + op.pads[d] + op.pads[d + spatial] -
                         op.dilations[d] * (op.wShape[d + 2] - 1) - 1) /
                            op.strides[d] +
                        1);
  for (ConvKind kind :
       {ConvKind::Forward, ConvKind::GradInput, ConvKind::GradFilter}) {
    std::vector<HostTensor> arrays[2];
    for (DType type : {DType::F32, DType::F64}) {
      op.kind = kind;
      op.compute = type;
      auto &set = arrays[type == DType::F64];
      for (const auto &shape : {op.xShape, op.wShape, op.yShape})
        set.push_back(numbers(numElements(shape), type));
      Status status = runConv(op, set[0].data.data(), set[1].data.data(),
                              set[2].data.data());
      ASSERT_EQ(status.message(), "");
    }
    for (int i = 0; i < 3; ++i)
      for (int64_t j = 0; j < arrays[0][i].elements(); ++j)
        ASSERT_EQ(arrays[0][i].at(j), arrays[1][i].at(j))
            << nameOf(kind) << " array " << i << " element " << j;
  }
}

TEST(Conv, OneDnnAgreesWithPlainLoops) {
  ConvOp op;
  op.xShape = {2, 4, 9};
  op.wShape = {6, 4, 3};
  op.strides = {1};
  op.dilations = {1};
  op.pads = {1, 1};
  expectConv(op);
  op.xShape = {2, 6, 8, 7}; // three groups, different extents
  op.wShape = {9, 2, 3, 2};
  op.strides = {2, 1};
  op.dilations = {1, 3};
  op.pads = {1, 0, 2, 1};
  expectConv(op);
  op.xShape = {3, 5, 6, 6}; // one channel per group
  op.wShape = {5, 1, 2, 2};
  op.strides = {2, 2};
  op.dilations = {1, 1};
  op.pads = {0, 0, 0, 0};
  expectConv(op);
  op.xShape = {2, 32, 6, 5}; // oneDNN uses blocked layouts
  op.wShape = {48, 16, 3, 3};
  op.strides = {2, 1};
  op.pads = {1, 1, 1, 1};
  expectConv(op);
  op.xShape = {3, 20, 4, 4};
  op.wShape = {17, 20, 1, 1};
  op.strides = {1, 1};
  op.pads = {0, 0, 0, 0};
  expectConv(op);
  op.xShape = {1, 2, 3, 5, 4};
  op.wShape = {3, 2, 1, 2, 2};
  op.strides = {1, 2, 2};
  op.dilations = {1, 1, 1};
  op.pads = {0, 0, 0, 0, 1, 0};
  expectConv(op);
  op.xShape = {1, 2, 2, 3, 2, 3}; // too many dimensions for oneDNN
  op.wShape = {2, 2, 1, 2, 1, 2};
  op.strides = op.dilations = {1, 1, 1, 1};
  op.pads.assign(8, 0);
  expectConv(op);
}

/// Numbers with 8 bits of mantissa. Sums of products need more bits.
HostTensor fractions(int64_t count, DType type, int seed) {
  HostTensor tensor = HostTensor::zeros(type, {count});
  for (int64_t i = 0; i < count; ++i)
    tensor.set(i, static_cast<double>((i + seed) * 37 % 101 - 50) / 64);
  return tensor;
}

/// Expects that a 16-bit convolution equals plain loops in f64 after one
/// rounding, because all sums are exact.
void expectHalfConv(ConvOp op, DType half) {
  const std::vector<int64_t> *const shapes[] = {&op.xShape, &op.wShape,
                                                &op.yShape};
  std::vector<HostTensor> narrow, wide;
  for (int i = 0; i < 3; ++i) {
    narrow.push_back(fractions(numElements(*shapes[i]), half, i));
    wide.push_back(fractions(numElements(*shapes[i]), DType::F64, i));
  }
  op.compute = half;
  ASSERT_EQ(runConv(op, narrow[0].data.data(), narrow[1].data.data(),
                    narrow[2].data.data())
                .message(),
            "");
  op.compute = DType::F64;
  ASSERT_EQ(
      runConv(op, wide[0].data.data(), wide[1].data.data(), wide[2].data.data())
          .message(),
      "");
  int64_t rounded = 0;
  for (int i = 0; i < 3; ++i) {
    HostTensor want = HostTensor::zeros(half, {wide[i].elements()});
    for (int64_t j = 0; j < wide[i].elements(); ++j) {
      want.set(j, wide[i].at(j));
      rounded += want.at(j) != wide[i].at(j);
      ASSERT_EQ(narrow[i].at(j), want.at(j))
          << nameOf(half) << " " << nameOf(op.kind) << " array " << i
          << " element " << j;
    }
  }
  EXPECT_GT(rounded, 0) << "nothing to round";
}

TEST(Conv, HalvesAreRoundedOnce) {
  ConvOp op;
  op.xShape = {2, 32, 6, 5}; // oneDNN uses blocked layouts
  op.wShape = {48, 16, 3, 3};
  op.yShape = {2, 48, 3, 5};
  op.strides = {2, 1};
  op.dilations = {1, 1};
  op.pads = {1, 1, 1, 1};
  ConvOp small = op; // oneDNN uses plain layouts
  small.xShape = {2, 4, 6, 5};
  small.wShape = {6, 2, 3, 3};
  small.yShape = {2, 6, 3, 5};
  for (DType half : {DType::BF16, DType::F16})
    for (ConvKind kind :
         {ConvKind::Forward, ConvKind::GradInput, ConvKind::GradFilter}) {
      op.kind = small.kind = kind;
      expectHalfConv(op, half);
      expectHalfConv(small, half);
    }
}

TEST(Conv, EmptyArrays) {
  ConvOp op;
  op.xShape = {0, 2, 3};
  op.wShape = {2, 2, 3};
  op.yShape = {0, 2, 1};
  op.strides = op.dilations = {1};
  op.pads = {0, 0};
  op.kind = ConvKind::GradFilter;
  std::vector<float> w(12, 7);
  ASSERT_TRUE(runConv(op, nullptr, w.data(), nullptr).ok());
  EXPECT_EQ(w, std::vector<float>(12, 0)); // the sum over 0 samples
}

} // namespace
} // namespace dpc::rt
