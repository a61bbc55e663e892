//===- ModelBuilder.cpp - ONNX models for tests ---------------------------===//
#include "test/unit/frontends/ModelBuilder.h"
#include "ir/Dialect.h"

#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace mlir;
using namespace dpc;
using namespace dpc::test;

ModelBuilder::ModelBuilder(int64_t opset) {
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  model.mutable_graph()->set_name("test");
}

static int32_t onnxType(const std::string &name) {
  if (name == "f32")
    return ::onnx::TensorProto::FLOAT;
  if (name == "bf16")
    return ::onnx::TensorProto::BFLOAT16;
  if (name == "i64")
    return ::onnx::TensorProto::INT64;
  if (name == "i32")
    return ::onnx::TensorProto::INT32;
  if (name == "i1")
    return ::onnx::TensorProto::BOOL;
  return ::onnx::TensorProto::STRING;
}

ModelBuilder &ModelBuilder::input(const std::string &name,
                                  const std::string &type) {
  auto *info = model.mutable_graph()->add_input();
  info->set_name(name);
  auto *tensor = info->mutable_type()->mutable_tensor_type();
  size_t open = type.find('[');
  tensor->set_elem_type(onnxType(type.substr(0, open)));
  tensor->mutable_shape();
  std::istringstream dims(type.substr(open + 1, type.size() - open - 2));
  for (std::string dim; std::getline(dims, dim, ',');) {
    auto *entry = tensor->mutable_shape()->add_dim();
    if (isdigit(dim[0]))
      entry->set_dim_value(std::stoll(dim));
    else if (dim != "?")
      entry->set_dim_param(dim);
  }
  return *this;
}

::onnx::TensorProto &ModelBuilder::initializer(const std::string &name,
                                               const std::vector<int64_t> &dims,
                                               int32_t type) {
  auto *tensor = model.mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  for (int64_t d : dims)
    tensor->add_dims(d);
  return *tensor;
}

ModelBuilder &ModelBuilder::floats(const std::string &name,
                                   std::vector<int64_t> dims,
                                   std::vector<float> values) {
  auto &tensor = initializer(name, dims, ::onnx::TensorProto::FLOAT);
  std::vector<float> all(HostArray::count(dims));
  for (size_t n = 0; n < all.size(); ++n)
    all[n] = values[n % values.size()];
  tensor.set_raw_data(all.data(), all.size() * sizeof(float));
  return *this;
}

ModelBuilder &ModelBuilder::ints(const std::string &name,
                                 std::vector<int64_t> values) {
  auto &tensor = initializer(name, {static_cast<int64_t>(values.size())},
                             ::onnx::TensorProto::INT64);
  for (int64_t v : values)
    tensor.add_int64_data(v);
  return *this;
}

ModelBuilder &ModelBuilder::scalar(const std::string &name, int64_t value) {
  initializer(name, {}, ::onnx::TensorProto::INT64).add_int64_data(value);
  return *this;
}

ModelBuilder &ModelBuilder::external(const std::string &name,
                                     std::vector<int64_t> dims,
                                     const std::string &file, int64_t offset) {
  auto &tensor = initializer(name, dims, ::onnx::TensorProto::FLOAT);
  tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
  auto add = [&](const char *key, const std::string &value) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  };
  add("location", file);
  add("offset", std::to_string(offset));
  add("length", std::to_string(HostArray::count(dims) * 4));
  return *this;
}

static void setAttr(::onnx::AttributeProto &attr, const AttrValue &value) {
  if (auto *i = std::get_if<int64_t>(&value)) {
    attr.set_type(::onnx::AttributeProto::INT);
    attr.set_i(*i);
  } else if (auto *f = std::get_if<double>(&value)) {
    attr.set_type(::onnx::AttributeProto::FLOAT);
    attr.set_f(static_cast<float>(*f));
  } else if (auto *s = std::get_if<std::string>(&value)) {
    attr.set_type(::onnx::AttributeProto::STRING);
    attr.set_s(*s);
  } else if (auto *list = std::get_if<std::vector<int64_t>>(&value)) {
    attr.set_type(::onnx::AttributeProto::INTS);
    for (int64_t i : *list)
      attr.add_ints(i);
  } else {
    attr.set_type(::onnx::AttributeProto::GRAPH);
    *attr.mutable_g() = std::get<::onnx::GraphProto>(value);
  }
}

ModelBuilder &ModelBuilder::node(const std::string &text, Attrs attrs,
                                 const std::string &domain) {
  auto *node = model.mutable_graph()->add_node();
  std::istringstream words(text);
  std::string word;
  words >> word;
  node->set_op_type(word);
  node->set_domain(domain);
  bool outputs = false;
  while (words >> word) {
    if (word == "->")
      outputs = true;
    else
      (outputs ? node->add_output() : node->add_input())
          ->assign(word == "_" ? "" : word);
  }
  node->set_name(node->op_type() + "_" +
                 std::to_string(model.graph().node_size() - 1));
  for (const auto &[name, value] : attrs) {
    auto *attr = node->add_attribute();
    attr->set_name(name);
    setAttr(*attr, value);
  }
  return *this;
}

ModelBuilder &ModelBuilder::output(const std::string &name) {
  model.mutable_graph()->add_output()->set_name(name);
  return *this;
}

std::string ModelBuilder::write() const {
  static int count = 0;
  std::string path = testing::TempDir() + "dpc-frontends-" +
                     std::to_string(getpid()) + "-" + std::to_string(count++) +
                     ".onnx";
  std::ofstream out(path, std::ios::binary);
  model.SerializeToOstream(&out);
  return path;
}

//===----------------------------------------------------------------------===//
// Importing
//===----------------------------------------------------------------------===//

func::FuncOp Imported::function() {
  return module->lookupSymbol<func::FuncOp>("forward");
}

Imported dpc::test::importFile(const std::string &path,
                               const ImportOptions &options) {
  static MLIRContext context;
  Imported result;
  result.path = path;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Remark) {
      result.remarks.push_back(diagnostic.str());
      return success();
    }
    EXPECT_EQ(result.error, "") << "a second message: " << diagnostic.str();
    result.error = diagnostic.str();
    return success();
  });
  auto module = importOnnx(path, context, options);
  EXPECT_EQ(failed(module), !result.error.empty());
  EXPECT_EQ(result.error.find('\n'), std::string::npos) << result.error;
  if (failed(module))
    return result;
  result.module = std::move(*module);
  llvm::raw_string_ostream(result.text) << **result.module;
  return result;
}

Imported dpc::test::import(const ModelBuilder &builder,
                           const ImportOptions &options) {
  std::string path = builder.write();
  Imported result = importFile(path, options);
  std::remove(path.c_str());
  return result;
}

testing::AssertionResult
dpc::test::inOrder(const std::string &text,
                   const std::vector<std::string> &parts) {
  size_t at = 0;
  for (const std::string &part : parts) {
    size_t found = text.find(part, at);
    if (found == std::string::npos)
      return testing::AssertionFailure()
             << "'" << part << "' is missing (in this place) in\n"
             << text;
    at = found + part.size();
  }
  return testing::AssertionSuccess();
}

HostArray dpc::test::array(std::vector<int64_t> shape,
                           std::vector<double> data) {
  HostArray result(std::move(shape));
  EXPECT_EQ(result.data.size(), data.size());
  result.data = std::move(data);
  return result;
}

std::vector<HostArray>
dpc::test::evaluate(const ModelBuilder &builder,
                    const std::vector<HostArray> &inputs) {
  Imported imported = import(builder);
  EXPECT_EQ(imported.error, "");
  if (!imported.module)
    return std::vector<HostArray>(builder.model.graph().output_size());
  return runGlobal(imported.function(), inputs);
}

void dpc::test::expectNear(const HostArray &got, const HostArray &want,
                           double tolerance) {
  ASSERT_EQ(got.shape, want.shape);
  for (int64_t n = 0; n < got.size(); ++n) {
    if (std::isinf(want[n]))
      EXPECT_EQ(got[n], want[n]) << "element " << n;
    else
      EXPECT_NEAR(got[n], want[n], tolerance) << "element " << n;
  }
}
