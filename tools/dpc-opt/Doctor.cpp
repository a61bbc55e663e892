//===- Doctor.cpp - --version and --doctor --------------------------------===//
#include "tools/dpc-opt/Doctor.h"

#include "codegen/cpu/CompileKernels.h"
#include "codegen/report/Page.h"
#include "cost-model/machine/Cluster.h"
#include "runtime/kernels/Matmul.h"
#include "runtime/plan/Plan.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

#include <dlfcn.h>
#include <filesystem>
#include <thread>

namespace fs = std::filesystem;

namespace dpc {

namespace {

struct Finding {
  std::string what;  ///< the component
  std::string found; ///< path or version; "" if missing
  std::string costs; ///< what is not possible without the component
  bool isEssential = false;
};

} // namespace

static std::string runnerPath() {
  std::error_code code;
  fs::path path =
      fs::read_symlink("/proc/self/exe", code).parent_path() / "dpc-run";
  return fs::exists(path, code) ? path.string() : "";
}

static std::string versionOfRunner() {
  std::string runner = runnerPath();
  llvm::SmallString<128> output;
  if (runner.empty() ||
      llvm::sys::fs::createTemporaryFile("dpc-run-version", "txt", output))
    return "";
  llvm::FileRemover remover(output);
  std::optional<llvm::StringRef> redirects[] = {"", output.str(), ""};
  int status = llvm::sys::ExecuteAndWait(runner, {runner, "--version"},
                                         std::nullopt, redirects,
                                         /*SecondsToWait=*/30);
  auto text = llvm::MemoryBuffer::getFile(output);
  return status == 0 && text ? (*text)->getBuffer().str() : "";
}

/// Returns VALUE of "NAME: VALUE" in `text`, or "" if it is "none" or missing.
static std::string valueOf(llvm::StringRef text, llvm::StringRef name) {
  for (llvm::StringRef line : llvm::split(text, '\n'))
    if (line.consume_front(name) && line.consume_front(": "))
      return line == "none" ? "" : line.str();
  return "";
}

std::string versionText() {
  std::string gemmLibrary = rt::gemmLibrary();
  std::string text = "dpc-opt " DPC_VERSION
                     "\nLLVM and MLIR: " LLVM_VERSION_STRING "\noneDNN: " +
                     (gemmLibrary.empty() ? "none" : gemmLibrary) +
                     "\nplan format: " + std::to_string(rt::kPlanVersion) +
                     "\n";
  std::string runner = versionOfRunner();
  if (runner.empty())
    return text + "dpc-run: none\n";
  auto orNone = [&](const char *name) {
    std::string value = valueOf(runner, name);
    return std::string(name) + ": " + (value.empty() ? "none" : value) + "\n";
  };
  return text + orNone("MPI") + orNone("CUDA plugin");
}

static std::string loadable(const char *name) {
  void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
  if (library)
    dlclose(library);
  return library ? name : "";
}

static std::string programPath(const char *name) {
  auto path = llvm::sys::findProgramByName(name);
  return path ? *path : "";
}

static std::vector<Finding> findings() {
  size_t devices = cost::knownDevices().size();
  std::string runner = versionOfRunner();
  std::vector<Finding> found = {
      {"linker of kernels", codegen::kernelLinker().value_or(""),
       "only reports can be written (--emit=report): install lld-22", true},
      {"LLVM and MLIR", LLVM_VERSION_STRING, ""},
      {"oneDNN", rt::gemmLibrary(),
       "plans with GEMMs or convolutions cannot be verified or run on "
       "CPUs: install libdnnl-dev and build again"},
      {"device files", devices > 0 ? std::to_string(devices) + " devices" : "",
       "no cluster can be described: install again, or set DPC_DEVICE_DIR",
       true},
      {"charts of report.html",
       report::pageParts().charts.empty() ? "" : "built in",
       "reports have tables only: tools/build fetches echarts.min.js"},
      {"dpc-run", runner.empty() ? "" : runnerPath(),
       "plans cannot be run here: install it next to dpc-opt"},
      {"MPI", valueOf(runner, "MPI"),
       "ranks are threads of one process: install libopenmpi-dev and build "
       "again"},
      {"mpirun", programPath("mpirun"),
       "no processes can be started on this machine by MPI: install "
       "openmpi-bin"},
      {"CUDA plugin", valueOf(runner, "CUDA plugin"),
       "plans for GPUs cannot be run here: build with CUDA 13 and NCCL"},
      {"NVIDIA's driver", loadable("libcuda.so.1"),
       "no GPU of this machine can be used"},
  };
  // dpc-run must exist, because only it knows its MPI and its CUDA plugin.
  if (runner.empty())
    std::erase_if(found, [](const Finding &finding) {
      return finding.what == "MPI" || finding.what == "CUDA plugin";
    });
  return found;
}

int runDoctor() {
  bool isWell = true;
  for (const Finding &finding : findings()) {
    bool isThere = !finding.found.empty();
    isWell &= isThere || !finding.isEssential;
    llvm::outs() << (isThere               ? "  ok       "
                     : finding.isEssential ? "  MISSING  "
                                           : "  missing  ")
                 << finding.what << ": "
                 << (isThere ? finding.found : finding.costs) << "\n";
  }
  llvm::outs() << "  this machine has " << std::thread::hardware_concurrency()
               << " cores\n"
               << (isWell ? "nothing essential is missing\n"
                          : "something essential is missing\n");
  return isWell ? 0 : 1;
}

} // namespace dpc
