//===- KernelLinker.h - what makes kernels.so -------------------*- C++ -*-===//
#ifndef DPC_CODEGEN_CPU_KERNELLINKER_H
#define DPC_CODEGEN_CPU_KERNELLINKER_H

#include <optional>
#include <string>

namespace dpc::codegen {

/// The program that links kernels: lld of this LLVM, or another one in PATH.
std::optional<std::string> kernelLinker();

} // namespace dpc::codegen

#endif // DPC_CODEGEN_CPU_KERNELLINKER_H
