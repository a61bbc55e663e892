#include "test/unit/cuda/FakeBlas.h"

#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/plan/PlanExperts.h"
#include "test/unit/cuda/FakeCuda.h"

#include <cstring>

namespace dpc::rt::test {

namespace {

/// The arrays of a workspace (PlanExperts.h).
struct Order {
  ExpertTile *tiles;
  ExpertGroup *groups;
  int32_t *rows;
};

Order orderIn(void *workspace, int64_t rows, int64_t experts) {
  auto *at = static_cast<char *>(workspace);
  return {
      reinterpret_cast<ExpertTile *>(at),
      reinterpret_cast<ExpertGroup *>(at + expertGroupsOffset(rows, experts)),
      reinterpret_cast<int32_t *>(at + expertOrderOffset(rows, experts))};
}

/// Buffers: ids, workspace. Does not write the tiles, which the products of
/// this file do not read.
void orderKernel(void *const *buffers, const int64_t *scalars) {
  int64_t rows = scalars[0], experts = scalars[1], first = scalars[2],
          valid = scalars[3];
  bool isLong = static_cast<DType>(scalars[4]) == DType::I64;
  auto groupOf = [&](int64_t row) {
    int64_t id = isLong ? static_cast<const int64_t *>(buffers[0])[row]
                        : static_cast<const int32_t *>(buffers[0])[row];
    return id >= first && id < first + valid ? id - first : experts;
  };
  Order order = orderIn(buffers[1], rows, experts);
  int32_t next = 0;
  for (int64_t g = 0; g <= experts; ++g) {
    order.groups[g].begin = next;
    for (int64_t row = 0; row < rows; ++row)
      if (groupOf(row) == g)
        order.rows[next++] = static_cast<int32_t>(row);
    order.groups[g].end = next;
  }
}

/// Computes a product with the kernel for CPUs.
void runProduct(ExpertMatmulOp &op, ExpertArrays arrays, void *workspace,
                bool isWide) {
  Order order = orderIn(workspace, op.rows, op.experts);
  std::vector<int64_t> ids(op.rows);
  for (int64_t g = 0; g <= op.experts; ++g)
    for (int32_t i = order.groups[g].begin; i < order.groups[g].end; ++i)
      ids[order.rows[i]] = g;
  arrays.ids = ids.data();
  arrays.valid = op.experts;
  arrays.resultType = isWide ? DType::F32 : op.compute;
  (void)runExpertMatmul(op, arrays).ok();
}

/// Buffers: x, w, y, workspace.
template <DType type>
void forwardKernel(void *const *buffers, const int64_t *scalars) {
  ExpertMatmulOp op;
  op.compute = type;
  op.rows = scalars[0];
  op.sharesX = scalars[1];
  op.experts = scalars[2];
  op.k = scalars[3];
  op.n = scalars[4];
  op.transW = scalars[5] != 0;
  runProduct(op, {.x = buffers[0], .w = buffers[1], .y = buffers[2]},
             buffers[3], scalars[6] != 0);
}

/// Buffers: x, y, w, workspace.
template <DType type>
void gradientKernel(void *const *buffers, const int64_t *scalars) {
  ExpertMatmulOp op;
  op.kind = ExpertMatmulKind::GradWeight;
  op.compute = type;
  op.rows = scalars[0];
  op.sharesX = scalars[1];
  op.sharesY = scalars[2];
  op.experts = scalars[3];
  op.k = scalars[4];
  op.n = scalars[5];
  runProduct(op, {.x = buffers[0], .w = buffers[2], .y = buffers[1]},
             buffers[3], scalars[6] != 0);
}

template <DType type> void addProducts(const std::string &name) {
  addFakeKernel("dpcExpertForward" + name, forwardKernel<type>, 4, 7);
  addFakeKernel("dpcExpertGradient" + name, gradientKernel<type>, 4, 7);
}

} // namespace

void addExpertKernels() {
  addFakeKernel("dpcExpertOrder", orderKernel, 2, 5);
  addProducts<DType::F32>("F32");
  addProducts<DType::F64>("F64");
  addProducts<DType::BF16>("BF16");
  addProducts<DType::F16>("F16");
}

} // namespace dpc::rt::test
