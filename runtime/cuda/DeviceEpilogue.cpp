//===- DeviceEpilogue.cpp - epilogues by cuBLASLt or kernels --------------===//
#include "runtime/cuda/DeviceBlas.h"

namespace dpc::rt {

/// cuBLASLt's A is our B, and the rows of its D are our columns.
static cublasLtEpilogue_t epilogueOf(Epilogue epilogue) {
  switch (epilogue) {
  case Epilogue::None:
    return CUBLASLT_EPILOGUE_DEFAULT;
  case Epilogue::Bias:
    return CUBLASLT_EPILOGUE_BIAS;
  case Epilogue::Relu:
    return CUBLASLT_EPILOGUE_RELU;
  case Epilogue::ReluBias:
    return CUBLASLT_EPILOGUE_RELU_BIAS;
  case Epilogue::Gelu:
    return CUBLASLT_EPILOGUE_GELU;
  case Epilogue::GeluBias:
    return CUBLASLT_EPILOGUE_GELU_BIAS;
  case Epilogue::GeluAux:
    return CUBLASLT_EPILOGUE_GELU_AUX;
  case Epilogue::GeluAuxBias:
    return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  case Epilogue::GeluGrad:
    return CUBLASLT_EPILOGUE_DGELU;
  case Epilogue::GeluGradBias:
    return CUBLASLT_EPILOGUE_DGELU_BGRAD;
  case Epilogue::SumsOfA:
    return CUBLASLT_EPILOGUE_BGRADB;
  case Epilogue::SumsOfB:
    return CUBLASLT_EPILOGUE_BGRADA;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

static char *at(void *buffer, int64_t offset, DType type) {
  return static_cast<char *>(buffer) + offset * sizeOf(type);
}

Status DeviceBlas::describeEpilogue(const DeviceProduct &product,
                                    Routine &made) {
  const MatmulOp &op = *product.op;
  if (op.epilogue == Epilogue::None)
    return Status::success();
  DPC_TRY(set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE,
              static_cast<uint32_t>(epilogueOf(op.epilogue)), "epilogue"));
  return op.aux < 0 ? Status::success()
                    : set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
                          op.auxLd, "rows of the epilogue's matrix");
}

/// The addresses differ between micro-batches. cuBLASLt reads the pointers when
/// a GEMM is submitted, and also when it is queried for routines.
Status DeviceBlas::pointEpilogue(const DeviceProduct &product,
                                 const Routine &made) {
  const MatmulOp &op = *product.op;
  if (op.bias >= 0)
    DPC_TRY(
        set(made.what, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
            static_cast<void *>(at(product.bias, op.biasOffset, product.cType)),
            "the epilogue's vector"));
  if (op.aux >= 0)
    DPC_TRY(
        set(made.what, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
            static_cast<void *>(at(product.aux, op.auxOffset, product.cType)),
            "the epilogue's matrix"));
  return Status::success();
}

/// Applies a separate epilogue to the rounded result in C.
Status DeviceBlas::finish(const DeviceProduct &product,
                          cudaStream_t stream) const {
  const MatmulOp &op = *product.op;
  DType type = product.cType;
  void *bias = op.bias < 0 ? nullptr : at(product.bias, op.biasOffset, type);
  void *aux = op.aux < 0 ? nullptr : at(product.aux, op.auxOffset, type);
  char *c = at(product.c, op.cOffset, type);
  bool isOfA = op.epilogue == Epilogue::SumsOfA;
  if (isOfA || op.epilogue == Epilogue::SumsOfB) {
    DType from = isOfA ? product.aType : product.bType;
    const char *factor =
        static_cast<const char *>(isOfA ? product.a : product.b) +
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
