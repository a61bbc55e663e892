//===- TorchFile.h - Imports of changed .pt2 files --------------*- C++ -*-===//
#pragma once

#include "frontends/torch/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <zip.h>

namespace dpc::torchtest {

using namespace mlir;

inline constexpr const char *kMlp = DPC_FIXTURES "/models/mlp/model.pt2";

inline std::string contents(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Applies `change` to one record and compresses the record by `method`.
inline std::string altered(const std::string &path, const std::string &suffix,
                           llvm::function_ref<std::string(std::string)> change,
                           int method = ZIP_CM_STORE) {
  std::string copy =
      testing::TempDir() + "dpc-torch-" + std::to_string(getpid()) + ".pt2";
  std::ofstream(copy, std::ios::binary) << contents(path);
  zip_t *zip = zip_open(copy.c_str(), 0, nullptr);
  EXPECT_TRUE(zip);
  std::string changed;
  for (zip_int64_t n = 0; zip && n < zip_get_num_entries(zip, 0); ++n) {
    zip_stat_t stat;
    zip_stat_index(zip, n, 0, &stat);
    if (!llvm::StringRef(stat.name).ends_with(suffix))
      continue;
    std::string text(stat.size, '\0');
    zip_file_t *file = zip_fopen_index(zip, n, 0);
    zip_fread(file, text.data(), text.size());
    zip_fclose(file);
    changed = change(text);
    zip_source_t *source =
        zip_source_buffer(zip, changed.data(), changed.size(), 0);
    zip_file_replace(zip, n, source, 0);
    zip_set_file_compression(zip, n, method, 0);
  }
  zip_close(zip);
  std::string bytes = contents(copy);
  std::remove(copy.c_str());
  return bytes;
}

struct Outcome {
  OwningOpRef<ModuleOp> module;
  std::string error;
  std::vector<std::string> remarks;
};

inline Outcome import(const std::string &bytes,
                      const ImportOptions &options = {}) {
  static MLIRContext context;
  Outcome outcome;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
      EXPECT_EQ(outcome.error, "") << "a second message: " << diagnostic.str();
      outcome.error = diagnostic.str();
    }
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark)
      outcome.remarks.push_back(diagnostic.str());
    return success();
  });
  ImportOptions given = options;
  if (given.globalBatch == 0 && given.bind.empty())
    given.globalBatch = 8;
  auto module = importTorch(llvm::MemoryBuffer::getMemBufferCopy(bytes),
                            "m.pt2", context, given);
  EXPECT_EQ(failed(module), !outcome.error.empty());
  EXPECT_EQ(outcome.error.find('\n'), std::string::npos) << outcome.error;
  if (succeeded(module))
    outcome.module = std::move(*module);
  return outcome;
}

inline constexpr const char *kModel = "models/model.json";
inline constexpr const char *kTable = "model_weights_config.json";

} // namespace dpc::torchtest
