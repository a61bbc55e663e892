//===- CudnnApi.h - cuDNN through pointers ----------------------*- C++ -*-===//
#pragma once

#include "runtime/cuda/CudaApi.h"

#include <cudnn.h>

namespace dpc::rt {

#define DPC_CUDNN_FUNCTIONS(X)                                                 \
  X(cudnnConvolutionBackwardData)                                              \
  X(cudnnConvolutionBackwardFilter)                                            \
  X(cudnnConvolutionForward)                                                   \
  X(cudnnCreate)                                                               \
  X(cudnnCreateConvolutionDescriptor)                                          \
  X(cudnnCreateFilterDescriptor)                                               \
  X(cudnnCreateTensorDescriptor)                                               \
  X(cudnnDestroy)                                                              \
  X(cudnnDestroyConvolutionDescriptor)                                         \
  X(cudnnDestroyFilterDescriptor)                                              \
  X(cudnnDestroyTensorDescriptor)                                              \
  X(cudnnGetConvolutionBackwardDataAlgorithm_v7)                               \
  X(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                             \
  X(cudnnGetConvolutionForwardAlgorithm_v7)                                    \
  X(cudnnGetErrorString)                                                       \
  X(cudnnSetConvolutionGroupCount)                                             \
  X(cudnnSetConvolutionMathType)                                               \
  X(cudnnSetConvolutionNdDescriptor)                                           \
  X(cudnnSetFilterNdDescriptor)                                                \
  X(cudnnSetStream)                                                            \
  X(cudnnSetTensorNdDescriptor)

struct CudnnApi {
  DPC_POINTERS(DPC_CUDNN_FUNCTIONS)
};

} // namespace dpc::rt
