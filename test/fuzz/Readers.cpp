#include "test/fuzz/Readers.h"

#include "cost-model/machine/Cluster.h"
#include "frontends/onnx/Import.h"
#include "frontends/stablehlo/Import.h"
#include "frontends/torch/Import.h"
#include "ir/Dialect.h"
#include "runtime/base/Json.h"
#include "runtime/plan/PlanJson.h"
#include "runtime/plan/PlanValidate.h"
#include "test/fuzz/RuntimeFiles.h"

#include "mlir/IR/Diagnostics.h"

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <zip.h>

using namespace mlir;

namespace dpc::fuzz {

template <typename Import>
static std::string readModel(const std::string &bytes, const char *name,
                             Import import) {
  // A module leaves interned objects in its context.
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::vector<std::string> errors;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      errors.push_back(diagnostic.str());
    return success();
  });
  auto module = import(llvm::MemoryBuffer::getMemBufferCopy(bytes, name), name,
                       context, ImportOptions());
  if (succeeded(module))
    return errors.empty() ? "" : "accepted after an error: " + errors.front();
  if (errors.size() != 1)
    return std::to_string(errors.size()) + " errors; expected one";
  return checkLine(errors.front());
}

static std::string readOnnx(const std::string &bytes) {
  return readModel(bytes, "damaged.onnx", [](auto &&...words) {
    return importOnnx(std::forward<decltype(words)>(words)...);
  });
}

static std::string readTorch(const std::string &bytes) {
  return readModel(bytes, "damaged.pt2", [](auto &&...words) {
    return importTorch(std::forward<decltype(words)>(words)...);
  });
}

static std::string readStableHlo(const std::string &bytes) {
  return readModel(bytes, "damaged.mlir", [](auto &&...words) {
    return importStableHlo(std::forward<decltype(words)>(words)...);
  });
}

static std::string readCluster(const std::string &bytes) {
  Expected<cost::Cluster> cluster = cost::parseCluster(bytes, "damaged.json");
  return cluster ? "" : checkLine(cluster.message());
}

static std::string readPlanFile(const std::string &folder,
                                const std::string &bytes) {
  std::ofstream(folder + "/plan.json", std::ios::binary) << bytes;
  Expected<rt::Plan> plan = rt::readPlan(folder);
  if (!plan)
    return checkLine(plan.status().message());
  Status status = rt::validatePlan(*plan, "plan.json");
  return status.ok() ? "" : checkLine(status.message());
}

static std::string withChecksum(const std::string &, const std::string &text) {
  using Json = nlohmann::ordered_json;
  Json body = nestsTooDeep(text)
                  ? Json()
                  : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object())
    return text;
  body.erase("checksum");
  body["checksum"] = rt::hashText(body.dump());
  return body.dump();
}

//===----------------------------------------------------------------------===//
// The program within a .pt2
//===----------------------------------------------------------------------===//

namespace {
struct CloseZip {
  void operator()(zip_t *archive) const { zip_discard(archive); }
};
using Zip = std::unique_ptr<zip_t, CloseZip>;
} // namespace

static Zip openZip(const std::string &file) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source =
      zip_source_buffer_create(file.data(), file.size(), 0, &error);
  return Zip(zip_open_from_source(source, ZIP_RDONLY, &error));
}

static bool isProgram(const char *name) {
  return StringRef(name).ends_with("models/model.json");
}

static std::string record(zip_t *archive, zip_int64_t index) {
  zip_stat_t facts;
  zip_stat_index(archive, index, 0, &facts);
  zip_file_t *file = zip_fopen_index(archive, index, 0);
  if (!file)
    return "";
  std::string bytes(facts.size, '\0');
  zip_fread(file, bytes.data(), bytes.size());
  zip_fclose(file);
  return bytes;
}

static std::string programOf(const std::string &file) {
  Zip archive = openZip(file);
  if (!archive)
    return "";
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i)
    if (isProgram(zip_get_name(archive.get(), i, 0)))
      return record(archive.get(), i);
  return "";
}

static std::string withProgram(const std::string &file,
                               const std::string &program) {
  Zip archive = openZip(file);
  if (!archive)
    return file;
  // libzip reads the strings when it closes the archive
  std::vector<std::string> kept;
  zip_int64_t count = zip_get_num_entries(archive.get(), 0);
  kept.reserve(count);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *sink = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(sink);
  zip_t *out = zip_open_from_source(sink, ZIP_CREATE | ZIP_TRUNCATE, &error);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char *name = zip_get_name(archive.get(), i, 0);
    kept.push_back(isProgram(name) ? program : record(archive.get(), i));
    zip_int64_t index = zip_file_add(
        out, name,
        zip_source_buffer(out, kept.back().data(), kept.back().size(), 0),
        ZIP_FL_OVERWRITE);
    zip_set_file_compression(out, index, ZIP_CM_STORE, 0);
  }
  zip_close(out);
  zip_stat_t facts;
  zip_source_stat(sink, &facts);
  std::string bytes(facts.size, '\0');
  zip_source_open(sink);
  zip_source_read(sink, bytes.data(), bytes.size());
  zip_source_close(sink);
  zip_source_free(sink);
  return bytes;
}

std::vector<Reader> allReaders(const std::string &scratch) {
  std::vector<Reader> readers = {
      {"onnx", readOnnx, false, {}, {}},
      {"pt2", readTorch, false, {}, {}},
      {"pt2-program", readTorch, true, programOf, withProgram},
      {"stablehlo", readStableHlo, true, {}, {}},
      {"cluster", readCluster, true, {}, {}},
      {"plan",
       [scratch](const std::string &bytes) {
         return readPlanFile(scratch, bytes);
       },
       true, [](const std::string &file) { return file; }, withChecksum}};
  for (Reader &reader : runtimeReaders(scratch))
    readers.push_back(std::move(reader));
  return readers;
}

} // namespace dpc::fuzz
