//===- NoOneDnn.cpp - stubs for a build without oneDNN --------------------===//
//
// Built with -DDPC_ENABLE_ONEDNN=OFF, for GPU machines without oneDNN.
//
//===----------------------------------------------------------------------===//
#include "runtime/kernels/Convolution.h"
#include "runtime/kernels/ExpertMatmul.h"
#include "runtime/kernels/Matmul.h"

namespace dpc::rt {

static Status refuse(const char *what) {
  return Status::unsupported(what,
                             " on CPUs need oneDNN, without which this dpc-run "
                             "was built; --device=cuda runs plans for GPUs");
}

Status runMatmul(const MatmulOp & /*op*/, const void * /*a*/, DType /*aType*/,
                 const void * /*b*/, DType /*bType*/, void * /*c*/,
                 DType /*cType*/, void * /*bias*/, void * /*aux*/) {
  return refuse("GEMMs");
}

void setMatmulThreads(int /*threads*/) {}

bool hasBf16Instructions() { return false; }

std::string gemmLibrary() { return ""; }

Status runConv(const ConvOp & /*op*/, void * /*x*/, void * /*w*/,
               void * /*y*/) {
  return refuse("convolutions");
}

Status runExpertMatmul(const ExpertMatmulOp & /*op*/,
                       const ExpertArrays & /*arrays*/) {
  return refuse("products of experts");
}

} // namespace dpc::rt
