//===- DeviceEpilogue.cpp - epilogues by cuBLASLt or kernels --------------===//
#include "runtime/cuda/DeviceBlas.h"

#include <algorithm>
#include <cassert>

namespace dpc::rt {

/// cuBLASLt's A is our B, so SumsOfA is cuBLASLt's BGRADB.
static cublasLtEpilogue_t epilogueOf(Epilogue epilogue) {
  static constexpr std::pair<Epilogue, cublasLtEpilogue_t> all[] = {
      {Epilogue::None, CUBLASLT_EPILOGUE_DEFAULT},
      {Epilogue::Bias, CUBLASLT_EPILOGUE_BIAS},
      {Epilogue::Relu, CUBLASLT_EPILOGUE_RELU},
      {Epilogue::ReluBias, CUBLASLT_EPILOGUE_RELU_BIAS},
      {Epilogue::Gelu, CUBLASLT_EPILOGUE_GELU},
      {Epilogue::GeluBias, CUBLASLT_EPILOGUE_GELU_BIAS},
      {Epilogue::GeluAux, CUBLASLT_EPILOGUE_GELU_AUX},
      {Epilogue::GeluAuxBias, CUBLASLT_EPILOGUE_GELU_AUX_BIAS},
      {Epilogue::GeluGrad, CUBLASLT_EPILOGUE_DGELU},
      {Epilogue::GeluGradBias, CUBLASLT_EPILOGUE_DGELU_BGRAD},
      {Epilogue::SumsOfA, CUBLASLT_EPILOGUE_BGRADB},
      {Epilogue::SumsOfB, CUBLASLT_EPILOGUE_BGRADA}};
  const auto *it = std::ranges::find(
      all, epilogue, &std::pair<Epilogue, cublasLtEpilogue_t>::first);
  assert(it != std::end(all) && "unknown epilogue");
  return it->second;
}

static char *at(void *buffer, int64_t offset, DType type) {
  return static_cast<char *>(buffer) + offset * sizeOf(type);
}

Status DeviceBlas::describeEpilogue(const DeviceGemm &gemm, Routine &made) {
  const MatmulOp &op = *gemm.op;
  if (op.epilogue == Epilogue::None)
    return Status::success();
  DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE,
              static_cast<uint32_t>(epilogueOf(op.epilogue)), "epilogue"));
  return op.aux < 0 ? Status::success()
                    : set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                          op.auxLd, "rows of the epilogue's matrix");
}

/// Sets addresses that differ between micro-batches. cuBLASLt reads them when
/// it runs a GEMM and when it lists routines.
Status DeviceBlas::pointEpilogue(const DeviceGemm &gemm, const Routine &made) {
  const MatmulOp &op = *gemm.op;
  if (op.bias >= 0)
    DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                static_cast<void *>(at(gemm.bias, op.biasOffset, gemm.cType)),
                "the epilogue's vector"));
  if (op.aux >= 0)
    DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                static_cast<void *>(at(gemm.aux, op.auxOffset, gemm.cType)),
                "the epilogue's matrix"));
  return Status::success();
}

/// Computes a separate epilogue from C, which is already rounded.
Status DeviceBlas::finish(const DeviceGemm &gemm, cudaStream_t stream) const {
  const MatmulOp &op = *gemm.op;
  DType type = gemm.cType;
  void *bias = op.bias < 0 ? nullptr : at(gemm.bias, op.biasOffset, type);
  void *aux = op.aux < 0 ? nullptr : at(gemm.aux, op.auxOffset, type);
  char *c = at(gemm.c, op.cOffset, type);
  bool isOfA = op.epilogue == Epilogue::SumsOfA;
  if (isOfA || op.epilogue == Epilogue::SumsOfB) {
    DType from = isOfA ? gemm.aType : gemm.bType;
    const char *factor = static_cast<const char *>(isOfA ? gemm.a : gemm.b) +
                         (isOfA ? op.aOffset : op.bOffset) * sizeOf(from);
    return own.sumColumns(factor, from, op.k, isOfA ? op.m : op.n,
                          isOfA ? op.lda : op.ldb, bias, type, stream);
  }
  DPC_TRY(own.epilogue(op, c, bias, aux, type, stream));
  return op.epilogue == Epilogue::GeluGradBias
             ? own.sumColumns(c, type, op.m, op.n, op.ldc, bias, type, stream)
             : Status::success();
}

} // namespace dpc::rt
