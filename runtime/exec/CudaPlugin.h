//===- CudaPlugin.h - where the plugin for GPUs lies ------------*- C++ -*-===//
#ifndef DPC_RUNTIME_EXEC_CUDAPLUGIN_H
#define DPC_RUNTIME_EXEC_CUDAPLUGIN_H

#include <string>

namespace dpc::rt {

/// libdpc_cuda.so: $DPC_CUDA_PLUGIN, or in ../lib of the program's folder, or
/// beside it; "" where it is in none of these.
std::string cudaPluginFile();

} // namespace dpc::rt

#endif // DPC_RUNTIME_EXEC_CUDAPLUGIN_H
