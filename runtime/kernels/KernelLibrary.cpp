#include "runtime/kernels/KernelLibrary.h"

#include "runtime/plan/PlanJson.h"

#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <set>
#include <sstream>

namespace dpc::rt {

namespace {

/// Features whose names in LLVM and Linux differ in more than punctuation.
const std::map<std::string, std::string> &linuxNames() {
  static const std::map<std::string, std::string> names = {
      {"64bit", "lm"},     {"sse3", "pni"},
      {"cx16", "cx16"},    {"sahf", "lahflm"},
      {"lzcnt", "abm"},    {"bmi", "bmi1"},
      {"sha", "shani"},    {"prfchw", "3dnowprefetch"},
      {"rdrnd", "rdrand"}, {"pclmul", "pclmulqdq"},
      {"crc32", "sse42"}};
  return names;
}

/// Compiled loops never use these features. Virtual machines may hide them from
/// Linux although LLVM detects them.
const std::set<std::string> &ignoredFeatures() {
  static const std::set<std::string> names = {
      "shstk",   "ptwrite", "pku",     "uintr",     "tsxldtrk", "invpcid",
      "enqcmd",  "hreset",  "kl",      "widekl",    "wbnoinvd", "waitpkg",
      "rdpid",   "sgx",     "pconfig", "prefetchi", "cldemote", "serialize",
      "usermsr", "x87",     "mwaitx",  "clzero",    "rdpru",    "xsave",
      "xsavec",  "xsaves",  "xsaveopt"};
  return names;
}

std::string plain(const std::string &name) {
  std::string text;
  for (char c : name)
    if (c != '_' && c != '-' && c != '.' && c != '+')
      text += c;
  return text;
}

/// Returns whether the library itself defines `symbol`. dlsym also finds
/// symbols of its dependencies, which a plan must not call.
bool isOwn(void *library, void *symbol) {
  link_map *map = nullptr;
  Dl_info info;
  return dlinfo(library, RTLD_DI_LINKMAP, static_cast<void *>(&map)) == 0 &&
         dladdr(symbol, &info) != 0 &&
         reinterpret_cast<uintptr_t>(info.dli_fbase) == map->l_addr;
}

} // namespace

bool hasCpuFeature(const std::string &feature, const std::string &cpuFlags) {
  std::string name = plain(feature);
  if (ignoredFeatures().count(name))
    return true;
  if (auto it = linuxNames().find(name); it != linuxNames().end())
    name = it->second;
  std::istringstream words(cpuFlags);
  for (std::string flag; words >> flag;)
    if (plain(flag) == name)
      return true;
  return false;
}

std::string cpuFlags() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0)
      return line.substr(line.find(':') + 1);
  return "";
}

Status checkCpu(const Plan &plan) {
  std::string flags = cpuFlags();
  for (const std::string &feature : plan.cpuFeatures)
    if (!hasCpuFeature(feature, flags))
      return Status::unsupported(
          "the plan needs ", plain(feature), " (compiled for ", plan.targetCpu,
          "), this machine lacks it; compile it with --target-cpu=native here "
          "or with --target-cpu=x86-64-v3");
  return Status::success();
}

Status checkKernelFile(const Plan &plan, const std::string &path) {
  DPC_ASSIGN(std::string hash, hashFile(path));
  if (hash != plan.kernelHash)
    return Status::invalid(
        path, ": has hash ", hash, ", plan.json says ", plan.kernelHash,
        ": it is not the file that this plan was written with");
  return Status::success();
}

Expected<KernelLibrary> KernelLibrary::load(const Plan &plan,
                                            const std::string &dir) {
  KernelLibrary library;
  if (!plan.targetGpu.empty())
    return Status::unsupported(
        "the plan is for GPUs (", plan.targetGpu,
        "), its kernels do not run on a CPU; run it with --device=cuda, or "
        "compile it without --target-gpu");
  if (plan.kernelFile.empty())
    return library;
  DPC_TRY(checkCpu(plan));
  std::error_code ignored;
  std::string path =
      std::filesystem::absolute(dir + "/kernels/" + plan.kernelFile, ignored);
  DPC_TRY(checkKernelFile(plan, path));
  void *opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!opened)
    return Status::invalid(path, ": cannot be loaded: ", dlerror());
  library.handle = std::shared_ptr<void>(opened, [](void *h) { dlclose(h); });
  for (const KernelOp *op : opsOf<KernelOp>(plan)) {
    void *symbol = dlsym(opened, op->symbol.c_str());
    if (!symbol || !isOwn(opened, symbol))
      return Status::invalid(path, ": symbol ", op->symbol,
                             ", which the plan calls, is missing");
    library.functions[op->symbol] = reinterpret_cast<KernelFunction>(symbol);
  }
  return library;
}

KernelLibrary
KernelLibrary::of(std::map<std::string, KernelFunction> functions) {
  KernelLibrary library;
  library.functions = std::move(functions);
  return library;
}

KernelFunction KernelLibrary::find(const std::string &symbol) const {
  auto it = functions.find(symbol);
  return it == functions.end() ? nullptr : it->second;
}

} // namespace dpc::rt
