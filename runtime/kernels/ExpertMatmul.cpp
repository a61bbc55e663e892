#include "runtime/kernels/ExpertMatmul.h"

#include "runtime/base/HostTensor.h"
#include "runtime/kernels/ExpertRows.h"
#include "runtime/kernels/Matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dpc::rt {

namespace {

/// Rows of equal size in an array, of which several ids may share one.
struct Rows {
  char *data;
  int64_t bytes;
  int64_t shares;

  char *at(int64_t row) const { return data + row / shares * bytes; }
};

/// Returns whether the rows at the positions [begin, end) follow each other in
/// the array. Positions of one expert ascend.
bool areAdjacent(const RowsOfExperts &order, int64_t begin, int64_t end,
                 const Rows &rows) {
  return rows.shares == 1 && order[end - 1] - order[begin] == end - 1 - begin;
}

/// Returns the rows at the positions [begin, end) without gaps: their place in
/// the array, or a copy in `packed`.
char *pack(const RowsOfExperts &order, int64_t begin, int64_t end,
           const Rows &rows, std::vector<char> &packed) {
  if (areAdjacent(order, begin, end, rows))
    return rows.at(order[begin]);
  packed.resize((end - begin) * rows.bytes);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(packed.data() + (i - begin) * rows.bytes, rows.at(order[i]),
                rows.bytes);
  return packed.data();
}

class ExpertMatmul {
public:
  ExpertMatmul(const ExpertMatmulOp &op, const ExpertArrays &arrays)
      : op(op), arrays(arrays),
        order({arrays.ids, arrays.idType, arrays.first, arrays.valid}, op.rows,
              op.experts),
        x(rowsOf(arrays.x, op.k, op.compute, op.sharesX)) {}

  Status forward() {
    Rows y = rowsOf(arrays.y, op.n, arrays.resultType, 1);
    for (int64_t r = 0; r < op.rows; ++r)
      if (!order.isOnRank(r))
        std::memset(y.at(r), 0, y.bytes);
    const int64_t matrix = op.k * op.n * sizeOf(op.compute);
    MatmulOp product = gemm();
    product.n = op.n;
    product.k = op.k;
    product.transB = op.transW;
    product.lda = op.k;
    product.ldb = op.transW ? op.k : op.n;
    product.ldc = op.n;
    return forEachTile([&](int64_t expert, int64_t begin, int64_t end) {
      char *rows = pack(order, begin, end, x, left);
      const bool isInPlace = areAdjacent(order, begin, end, y);
      if (!isInPlace)
        right.resize((end - begin) * y.bytes);
      product.m = end - begin;
      DPC_TRY(runMatmul(
          product, rows, op.compute,
          static_cast<char *>(arrays.w) + expert * matrix, op.compute,
          isInPlace ? y.at(order[begin]) : right.data(), arrays.resultType));
      for (int64_t i = begin; i < end && !isInPlace; ++i)
        std::memcpy(y.at(order[i]), right.data() + (i - begin) * y.bytes,
                    y.bytes);
      return Status::success();
    });
  }

  Status gradWeight() {
    const Rows y = rowsOf(arrays.y, op.n, op.compute, op.sharesY);
    const int64_t elements = op.k * op.n;
    const int64_t matrix = elements * sizeOf(arrays.resultType);
    const bool isRounded =
        arrays.resultType == DType::BF16 || arrays.resultType == DType::F16;
    std::vector<float> sums(isRounded ? elements : 0);
    MatmulOp product = gemm();
    product.m = op.k;
    product.n = op.n;
    product.transA = true;
    product.lda = op.k;
    product.ldb = product.ldc = op.n;
    char *w = static_cast<char *>(arrays.w);
    for (int64_t e = 0; e < op.experts; ++e)
      if (order.begin(e) == order.end(e) && !op.accumulates)
        std::memset(w + e * matrix, 0, matrix);
    return forEachTile([&](int64_t expert, int64_t begin, int64_t end) {
      char *xRows = pack(order, begin, end, x, left);
      char *yRows = pack(order, begin, end, y, right);
      product.k = end - begin;
      product.beta = begin == order.begin(expert) && !op.accumulates ? 0 : 1;
      char *target = w + expert * matrix;
      DPC_TRY(
          runMatmul(product, xRows, op.compute, yRows, op.compute,
                    isRounded ? reinterpret_cast<char *>(sums.data()) : target,
                    isRounded ? DType::F32 : arrays.resultType));
      if (isRounded && end == order.end(expert))
        for (int64_t i = 0; i < elements; ++i)
          storeFromDouble(target, arrays.resultType, i, sums[i]);
      return Status::success();
    });
  }

private:
  static Rows rowsOf(const void *data, int64_t columns, DType type,
                     int64_t shares) {
    return {static_cast<char *>(const_cast<void *>(data)),
            columns * sizeOf(type), shares};
  }

  MatmulOp gemm() const {
    MatmulOp product;
    product.compute = op.compute;
    return product;
  }

  /// Calls run(expert, begin, end) for all positions, at most kExpertTile of
  /// one expert at a time.
  template <typename F> Status forEachTile(F &&run) {
    for (int64_t e = 0; e < op.experts; ++e)
      for (int64_t i = order.begin(e); i < order.end(e); i += kExpertTile)
        DPC_TRY(run(e, i, std::min(i + kExpertTile, order.end(e))));
    return Status::success();
  }

  const ExpertMatmulOp &op;
  const ExpertArrays &arrays;
  RowsOfExperts order;
  Rows x;
  std::vector<char> left, right;
};

} // namespace

Status runExpertMatmul(const ExpertMatmulOp &op, const ExpertArrays &arrays) {
  ExpertMatmul product(op, arrays);
  return op.kind == ExpertMatmulKind::Forward ? product.forward()
                                              : product.gradWeight();
}

} // namespace dpc::rt
