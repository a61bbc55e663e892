//===- Program.cpp - An exported program ----------------------------------===//
#include "frontends/torch/Program.h"
#include "frontends/emit/Options.h"

namespace dpc::frontend::pt2 {

static constexpr int64_t kSchemaMajor = 8;
/// A program with 405 billion parameters takes 10 MB.
static constexpr int64_t kMaxJsonBytes = int64_t(256) << 20;
/// Limits the nesting of graphs in a damaged file.
static constexpr int kMaxDepth = 16;

std::string Size::symbol() const {
  llvm::StringRef text = expression;
  if (text.consume_front("Symbol('"))
    return text.count('(') == 0 && text.count(')') == 1 && text.ends_with(")")
               ? text.split('\'').first.str()
               : "";
  bool isName =
      !text.empty() && llvm::isAlpha(text.front()) &&
      llvm::all_of(text, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  return isName ? text.str() : "";
}

bool Size::dependsOnData() const {
  llvm::StringRef text = expression;
  for (size_t at = text.find('u'); at != llvm::StringRef::npos;
       at = text.find('u', at + 1))
    if (at + 1 < text.size() && llvm::isDigit(text[at + 1]) &&
        (at == 0 || !llvm::isAlnum(text[at - 1])))
      return true;
  return false;
}

static Size readSize(const Json &json) {
  auto [kind, value] = json.choice();
  Size size;
  if (kind == "as_expr")
    size.expression = value["expr_str"].text();
  else
    size.value = value.integer();
  return size;
}

static TensorMeta readMeta(const Json &json) {
  TensorMeta meta;
  meta.dtype = json["dtype"].integer();
  for (const Json &size : json["sizes"].elements())
    meta.sizes.push_back(readSize(size));
  for (const Json &stride : json["strides"].elements())
    meta.strides.push_back(readSize(stride));
  Size offset = readSize(json["storage_offset"]);
  meta.storageOffset = offset.expression.empty() ? offset.value : -1;
  meta.requiresGrad = json["requires_grad"].boolean();
  return meta;
}

static Graph readGraph(const Json &json, int depth);

/// Reads a value that can be symbolic: {as_name}, {as_int}, ..
static SymInt readSymbolic(const Json &json) {
  auto [kind, value] = json.choice();
  if (kind == "as_name")
    return {value.text(), 0};
  if (kind == "as_bool")
    return {"", value.boolean() ? 1 : 0};
  return {"", value.integer()};
}

static std::string readTensorName(const Json &json) {
  if (json.maybe("as_none"))
    return "";
  if (Json inner = json.maybe("as_tensor"))
    return inner["name"].text();
  return json["name"].text();
}

static Argument readList(const std::string &kind, const Json &value) {
  Argument a;
  bool tensors = kind == "as_tensors" || kind == "as_optional_tensors";
  bool numbers = kind == "as_floats";
  a.kind = tensors   ? Argument::Kind::Tensors
           : numbers ? Argument::Kind::Floats
                     : Argument::Kind::Ints;
  for (const Json &element : value.elements()) {
    if (tensors)
      a.names.push_back(readTensorName(element));
    else if (numbers)
      a.numbers.push_back(element.number());
    else if (kind == "as_sym_ints")
      a.ints.push_back(readSymbolic(element));
    else if (kind == "as_bools")
      a.ints.push_back({"", element.boolean() ? 1 : 0});
    else
      a.ints.push_back({"", element.integer()});
  }
  return a;
}

static Argument readArgument(const Json &json, int depth) {
  auto [kind, value] = json.choice();
  using Kind = Argument::Kind;
  Argument a;
  if (depth > kMaxDepth) {
    json.wrong("is nested too deeply");
    return a;
  }
  if (kind == "as_ints" || kind == "as_sym_ints" || kind == "as_bools" ||
      kind == "as_floats" || kind == "as_tensors" ||
      kind == "as_optional_tensors")
    return readList(kind, value);
  if (kind == "as_optional_tensor")
    return readArgument(value, depth + 1);
  if (kind == "as_none") {
    a.kind = Kind::None;
  } else if (kind == "as_tensor") {
    a.kind = Kind::Tensor;
    a.names.push_back(value["name"].text());
  } else if (kind == "as_int" || kind == "as_bool" ||
             kind == "as_scalar_type") {
    a.kind = kind == "as_int"    ? Kind::Int
             : kind == "as_bool" ? Kind::Bool
                                 : Kind::Dtype;
    a.ints.push_back(
        {"", kind == "as_bool" ? int64_t(value.boolean()) : value.integer()});
  } else if (kind == "as_sym_int" || kind == "as_sym_bool") {
    a.kind = kind == "as_sym_int" ? Kind::Int : Kind::Bool;
    a.ints.push_back(readSymbolic(value));
  } else if (kind == "as_float") {
    a.kind = Kind::Float;
    a.numbers.push_back(value.number());
  } else if (kind == "as_string") {
    a.kind = Kind::String;
    a.text = value.text();
  } else if (kind == "as_sym_float" && value.maybe("as_name")) {
    // The number is the result of another node.
    a.kind = Kind::Int;
    a.ints.push_back({value["as_name"].text(), 0});
  } else if (kind == "as_graph") {
    a.kind = Kind::Graph;
    a.graph =
        std::make_shared<const Graph>(readGraph(value["graph"], depth + 1));
  } else if (kind == "as_device" || kind == "as_layout" ||
             kind == "as_memory_format") {
    a.kind = Kind::Place;
  } else {
    a.kind = Kind::Other;
    a.text = kind;
  }
  return a;
}

/// Returns the innermost line of a stack trace that is not PyTorch's own, as
/// "model.py:12 in forward".
static std::string sourceLine(const std::string &trace) {
  std::string found;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(trace).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    line = line.trim();
    if (!line.consume_front("File \""))
      continue;
    auto [path, rest] = line.split("\", line ");
    auto [number, function] = rest.split(", in ");
    bool isInternal = path.contains("site-packages/torch/");
    if (!number.empty() && (!isInternal || found.empty()))
      found = (path.substr(path.rfind('/') + 1) + ":" + number +
               (function.empty() ? "" : " in ") + function)
                  .str();
  }
  return found;
}

static Node readNode(const Json &json, int depth) {
  Node node;
  std::string target = json["target"].text();
  llvm::StringRef rest = target;
  rest.consume_front("torch.ops.");
  node.target = rest.str();
  for (const Json &input : json["inputs"].elements())
    node.inputs.emplace_back(input["name"].text(),
                             readArgument(input["arg"], depth));
  std::vector<Json> outputs = json["outputs"].elements();
  for (const Json &output : outputs) {
    Argument made = readArgument(output, depth);
    if (made.kind == Argument::Kind::Tensors && outputs.size() == 1)
      node.makesList = true;
    if (made.kind == Argument::Kind::Tensor ||
        made.kind == Argument::Kind::Tensors)
      node.outputs.insert(node.outputs.end(), made.names.begin(),
                          made.names.end());
    else
      node.outputs.push_back(made.ints.empty() ? "" : made.ints[0].name);
  }
  Json name = json.maybe("name");
  node.name = name                   ? name.text()
              : node.outputs.empty() ? std::string()
                                     : node.outputs[0];
  if (Json metadata = json.maybe("metadata"))
    if (Json trace = metadata.maybe("stack_trace"))
      node.source = sourceLine(trace.text());
  return node;
}

static Graph readGraph(const Json &json, int depth) {
  Graph graph;
  for (const Json &input : json["inputs"].elements()) {
    Argument a = readArgument(input, depth);
    graph.inputs.push_back(a.kind == Argument::Kind::Tensor ? a.names[0]
                           : a.ints.empty()                 ? ""
                                                            : a.ints[0].name);
  }
  for (const Json &output : json["outputs"].elements())
    graph.outputs.push_back(readArgument(output, depth));
  for (const Json &node : json["nodes"].elements())
    graph.nodes.push_back(readNode(node, depth));
  for (const auto &[name, meta] : json["tensor_values"].members())
    graph.tensors[name] = readMeta(meta);
  return graph;
}

static InputSpec readInputSpec(const Json &json) {
  auto [kind, value] = json.choice();
  InputSpec spec;
  Json arg = value["arg"];
  if (kind == "user_input") {
    spec.kind = InputSpec::Kind::User;
    Argument a = readArgument(arg, 0);
    if (a.kind == Argument::Kind::Tensor)
      spec.value = a.names[0];
    return spec;
  }
  spec.value = arg["name"].text();
  if (kind == "parameter") {
    spec.kind = InputSpec::Kind::Parameter;
    spec.name = value["parameter_name"].text();
  } else if (kind == "buffer") {
    spec.kind = InputSpec::Kind::Buffer;
    spec.name = value["buffer_name"].text();
  } else if (kind == "tensor_constant") {
    spec.kind = InputSpec::Kind::Constant;
    spec.name = value["tensor_constant_name"].text();
  } else {
    spec.name = kind;
  }
  return spec;
}

static OutputSpec readOutputSpec(const Json &json) {
  auto [kind, value] = json.choice();
  OutputSpec spec;
  spec.what = kind;
  if (kind == "user_output" || kind == "loss_output") {
    spec.kind = OutputSpec::Kind::User;
    Json arg = value["arg"];
    if (arg.maybe("name")) {
      spec.value.kind = Argument::Kind::Tensor;
      spec.value.names.push_back(arg["name"].text());
    } else {
      spec.value = readArgument(arg, 0);
    }
  } else if (kind == "buffer_mutation" || kind == "parameter_mutation" ||
             kind == "user_input_mutation") {
    spec.kind = OutputSpec::Kind::Mutation;
    spec.value.kind = Argument::Kind::Tensor;
    spec.value.names.push_back(value["arg"]["name"].text());
    llvm::StringRef member = kind;
    member.consume_back("mutation");
    spec.changed = value[(member + "name").str().c_str()].text();
  }
  return spec;
}

/// Returns the keys that a container states for its `count` children: the first
/// list of so many names in its context, which may be JSON inside a text. Dicts
/// have a list of keys; dataclasses and named tuples have it among other data.
static std::vector<std::string> keysOf(const nlohmann::json &context,
                                       size_t count, int depth) {
  if (const auto *text = context.get_ptr<const nlohmann::json::string_t *>()) {
    auto inner = nlohmann::json::parse(*text, nullptr,
                                       /*allow_exceptions=*/false);
    return inner.is_structured() ? keysOf(inner, count, depth + 1)
                                 : std::vector<std::string>();
  }
  if (!context.is_structured() || depth > kMaxDepth)
    return {};
  if (context.is_array() && context.size() == count) {
    std::vector<std::string> keys;
    for (const nlohmann::json &key : context)
      if (key.is_string() || key.is_number_integer())
        keys.push_back(key.is_string() ? key.get<std::string>() : key.dump());
    if (keys.size() == count)
      return keys;
  }
  for (const nlohmann::json &member : context)
    if (member.is_structured())
      if (auto keys = keysOf(member, count, depth + 1); !keys.empty())
        return keys;
  return {};
}

/// Appends the key of each leaf of a tree of containers: its keys in the dicts
/// and its positions in the lists from the root on, joined by dots. The key is
/// "" for a leaf that is in no dict. Returns false if the tree is damaged.
static bool appendKeys(const nlohmann::json &tree, const std::string &path,
                       bool isInDict, int depth,
                       std::vector<std::string> &keys) {
  if (!tree.is_object() || !tree.contains("type") ||
      !tree.contains("children_spec") || depth > kMaxDepth)
    return false;
  if (tree["type"].is_null()) {
    keys.push_back(isInDict ? path : "");
    return true;
  }
  const nlohmann::json &children = tree["children_spec"];
  if (!children.is_array())
    return false;
  std::vector<std::string> names =
      keysOf(tree.value("context", nlohmann::json()), children.size(), depth);
  for (size_t i = 0; i < children.size(); ++i) {
    std::string name = names.empty() ? std::to_string(i) : names[i];
    if (!appendKeys(children[i], path.empty() ? name : path + "." + name,
                    isInDict || !names.empty(), depth + 1, keys))
      return false;
  }
  return true;
}

/// Sets the keys of the user outputs from the tree of containers that the
/// program returns. A program without a readable tree has no keys.
static void readKeys(const nlohmann::json &graphModule,
                     std::vector<OutputSpec> &outputs) {
  const nlohmann::json::json_pointer outSpec("/signature/out_spec");
  nlohmann::json tree;
  for (const nlohmann::json &call :
       graphModule.value("module_call_graph", nlohmann::json::array()))
    if (call.is_object() && call.value("fqn", nlohmann::json()) == "" &&
        call.contains(outSpec) && call[outSpec].is_string())
      tree = nlohmann::json::parse(call[outSpec].get<std::string>(), nullptr,
                                   /*allow_exceptions=*/false);
  std::vector<std::string> keys;
  // The first element of the list is the version of the form.
  if (!tree.is_array() || tree.size() != 2 ||
      !appendKeys(tree[1], "", /*isInDict=*/false, 0, keys) ||
      llvm::count_if(outputs, [](const OutputSpec &output) {
        return output.kind == OutputSpec::Kind::User;
      }) != static_cast<int64_t>(keys.size()))
    return;
  auto key = keys.begin();
  for (OutputSpec &output : outputs)
    if (output.kind == OutputSpec::Kind::User)
      output.key = std::move(*key++);
}

/// Parses the document. Calls `visit` with each key and its depth in the order
/// of the document, because the keys of the result are sorted.
static llvm::Expected<nlohmann::json>
readJson(const Archive &archive, llvm::StringRef name,
         llvm::function_ref<void(int, const std::string &)> visit = nullptr) {
  const Record *record = archive.find(name);
  if (!record)
    return makeError("{0}: has no record '{1}'; accepted: files of "
                     "torch.export.save, as of torch 2.15",
                     archive.path(), name);
  auto text = archive.read(name, *record, kMaxJsonBytes);
  if (!text)
    return text.takeError();
  using Event = nlohmann::json::parse_event_t;
  auto seen = [&](int depth, Event event, nlohmann::json &value) {
    if (event == Event::key)
      visit(depth, value.get_ref<const std::string &>());
    return true;
  };
  nlohmann::json::parser_callback_t callback;
  if (visit)
    callback = seen;
  nlohmann::json json =
      nlohmann::json::parse(*text, callback, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return makeError("{0}: record '{1}' is not JSON", archive.path(), name);
  return json;
}

static llvm::Error checkVersions(const Archive &archive, const Json &model,
                                 const std::string &error) {
  const Record *order = archive.find("byteorder");
  if (order) {
    auto text = archive.read("byteorder", *order, 64);
    if (!text)
      return text.takeError();
    if (*text != "little")
      return makeError("{0}: the byte order is '{1}'; accepted: little",
                       archive.path(), *text);
  }
  int64_t major = model["schema_version"]["major"].integer();
  if (error.empty() && major != kSchemaMajor)
    return makeError("{0}: the schema has major version {1}; accepted: {2}, as "
                     "in torch 2.15; export it again with that version",
                     archive.path(), major, kSchemaMajor);
  return llvm::Error::success();
}

llvm::Expected<Program> readProgram(const Archive &archive) {
  constexpr llvm::StringLiteral name = "models/model.json";
  auto json = readJson(archive, name);
  if (!json)
    return json.takeError();
  std::string error;
  Json model(*json, error);
  if (llvm::Error failure = checkVersions(archive, model, error))
    return std::move(failure);
  Json module = model["graph_module"];
  Program program;
  program.graph = readGraph(module["graph"], 0);
  for (const Json &spec : module["signature"]["input_specs"].elements())
    program.inputs.push_back(readInputSpec(spec));
  for (const Json &spec : module["signature"]["output_specs"].elements())
    program.outputs.push_back(readOutputSpec(spec));
  if (!error.empty())
    return makeError("{0}: {1}: {2}", archive.path(), name, error);
  readKeys((*json)["graph_module"], program.outputs);
  return program;
}

static llvm::Error readTable(const Archive &archive, llvm::StringRef name,
                             llvm::StringRef folder, bool isUnsaved,
                             llvm::StringMap<WeightEntry> &table) {
  llvm::StringMap<size_t> order;
  auto json = readJson(archive, name, [&](int depth, const std::string &key) {
    if (depth == 2)
      order.try_emplace(key, order.size());
  });
  if (!json)
    return json.takeError();
  std::string error;
  for (const auto &[path, entry] : Json(*json, error)["config"].members()) {
    WeightEntry weight;
    weight.position = order.lookup(path);
    weight.record = (folder + entry["path_name"].text()).str();
    weight.pickled = entry["use_pickle"].boolean();
    weight.isUnsaved = isUnsaved;
    if (Json meta = entry.maybe("tensor_meta"))
      weight.meta = readMeta(meta);
    else
      weight.pickled = true;
    table[path] = std::move(weight);
  }
  if (!error.empty())
    return makeError("{0}: {1}: {2}", archive.path(), name, error);
  return llvm::Error::success();
}

llvm::Expected<llvm::StringMap<WeightEntry>>
readWeightTable(const Archive &archive) {
  llvm::StringMap<WeightEntry> table;
  if (llvm::Error error =
          readTable(archive, "data/weights/model_weights_config.json",
                    "data/weights/", /*isUnsaved=*/false, table))
    return std::move(error);
  llvm::StringRef constants = "data/constants/model_constants_config.json";
  if (archive.find(constants))
    if (llvm::Error error = readTable(archive, constants, "data/constants/",
                                      /*isUnsaved=*/true, table))
      return std::move(error);
  return table;
}

} // namespace dpc::frontend::pt2
