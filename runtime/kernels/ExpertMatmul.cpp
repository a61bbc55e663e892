#include "runtime/kernels/ExpertMatmul.h"

#include "runtime/base/HostTensor.h"
#include "runtime/kernels/Matmul.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace dpc::rt {

namespace {

/// The rows of each expert of the rank, in ascending order.
class RowsOfExperts {
public:
  RowsOfExperts(const ExpertMatmulOp &op, const ExpertArrays &arrays)
      : ends(op.experts + 1), local(op.rows) {
    for (int64_t r = 0; r < op.rows; ++r) {
      local[r] = localOf(arrays, r);
      if (local[r] >= 0)
        ++ends[local[r] + 1];
    }
    for (int64_t e = 0; e < op.experts; ++e)
      ends[e + 1] += ends[e];
    sorted.resize(ends.back());
    std::vector<int64_t> next(ends.begin(), ends.end() - 1);
    for (int64_t r = 0; r < op.rows; ++r)
      if (local[r] >= 0)
        sorted[next[local[r]]++] = r;
  }

  int64_t begin(int64_t expert) const { return ends[expert]; }
  int64_t end(int64_t expert) const { return ends[expert + 1]; }
  int64_t operator[](int64_t position) const { return sorted[position]; }
  bool isOnRank(int64_t row) const { return local[row] >= 0; }

private:
  /// Returns the position of a row's expert on this rank, or -1.
  static int64_t localOf(const ExpertArrays &arrays, int64_t row) {
    int64_t id = arrays.idType == DType::I64
                     ? static_cast<const int64_t *>(arrays.ids)[row]
                     : static_cast<const int32_t *>(arrays.ids)[row];
    return id >= arrays.first && id < arrays.first + arrays.valid
               ? id - arrays.first
               : -1;
  }

  std::vector<int64_t> ends;   ///< of the experts' ranges of `sorted`, after 0
  std::vector<int64_t> local;  ///< the expert of each row, or -1
  std::vector<int64_t> sorted; ///< rows
};

/// Rows of equal size in an array, of which several ids may share one.
struct Rows {
  char *data;
  int64_t bytes;
  int64_t shares;

  char *at(int64_t row) const { return data + row / shares * bytes; }
};

/// Copies the rows at the positions [begin, end) to `packed`.
void pack(const RowsOfExperts &order, int64_t begin, int64_t end,
          const Rows &rows, std::vector<char> &packed) {
  packed.resize((end - begin) * rows.bytes);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(packed.data() + (i - begin) * rows.bytes, rows.at(order[i]),
                rows.bytes);
}

class ExpertMatmul {
public:
  ExpertMatmul(const ExpertMatmulOp &op, const ExpertArrays &arrays)
      : op(op), arrays(arrays), order(op, arrays),
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
      pack(order, begin, end, x, left);
      right.resize((end - begin) * y.bytes);
      product.m = end - begin;
      DPC_TRY(runMatmul(product, left.data(), op.compute,
                        static_cast<char *>(arrays.w) + expert * matrix,
                        op.compute, right.data(), arrays.resultType));
      for (int64_t i = begin; i < end; ++i)
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
      if (order.begin(e) == order.end(e))
        std::memset(w + e * matrix, 0, matrix);
    return forEachTile([&](int64_t expert, int64_t begin, int64_t end) {
      pack(order, begin, end, x, left);
      pack(order, begin, end, y, right);
      product.k = end - begin;
      product.beta = begin == order.begin(expert) ? 0 : 1;
      char *target = w + expert * matrix;
      DPC_TRY(
          runMatmul(product, left.data(), op.compute, right.data(), op.compute,
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
