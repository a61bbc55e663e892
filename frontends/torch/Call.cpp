//===- Call.cpp - Conversion context of one ATen call ---------------------===//
#include "frontends/torch/Call.h"

#include <limits>

using namespace mlir;

namespace dpc::frontend::pt2 {

Type elementOf(int64_t dtype, MLIRContext *context) {
  switch (dtype) {
  case 4:
    return IntegerType::get(context, 32);
  case 5:
    return IntegerType::get(context, 64);
  case 6:
    return Float16Type::get(context);
  case 7:
    return Float32Type::get(context);
  case 8:
    return Float64Type::get(context);
  case 12:
    return IntegerType::get(context, 1);
  case 13:
    return BFloat16Type::get(context);
  default:
    return {};
  }
}

std::string dtypeText(int64_t dtype) {
  static constexpr llvm::StringLiteral names[] = {
      "UNKNOWN",      "BYTE",          "CHAR",  "SHORT",   "INT",
      "LONG",         "HALF",          "FLOAT", "DOUBLE",  "COMPLEXHALF",
      "COMPLEXFLOAT", "COMPLEXDOUBLE", "BOOL",  "BFLOAT16"};
  if (dtype >= 0 && dtype < static_cast<int64_t>(std::size(names)))
    return names[dtype].str();
  return "ScalarType " + std::to_string(dtype);
}

/// Returns 0 for boolean, 1 for integer, and 2 for float types.
static int kindOf(Type element) {
  return isa<FloatType>(element) ? 2 : element.isInteger(1) ? 0 : 1;
}

Type commonType(Val a, bool isWeakA, Val b, bool isWeakB) {
  Type x = a.element(), y = b.element();
  int kindA = kindOf(x), kindB = kindOf(y);
  if (isWeakA != isWeakB) {
    Type strong = isWeakA ? y : x, weak = isWeakA ? x : y;
    if (kindOf(strong) >= kindOf(weak))
      return strong;
    // An integer tensor combined with a Python float gives f32.
    return kindOf(weak) == 2 ? Type(Float32Type::get(x.getContext())) : weak;
  }
  if (kindA != kindB)
    return kindA > kindB ? x : y;
  unsigned widthA = x.getIntOrFloatBitWidth(),
           widthB = y.getIntOrFloatBitWidth();
  if (widthA == widthB && x != y)
    return Float32Type::get(x.getContext()); // f16 with bf16
  return widthA >= widthB ? x : y;
}

llvm::StringRef Call::target() const {
  llvm::StringRef name = node.target;
  name.consume_front("aten.");
  return name;
}

/// Whether an argument only describes a device or a memory layout.
static bool isPlacement(llvm::StringRef name) {
  return name == "device" || name == "layout" || name == "pin_memory" ||
         name == "memory_format" || name == "non_blocking" || name == "copy" ||
         name == "cudnn_enable" || name == "cudnn_enabled";
}

/// Visits each name and default, which is null for mandatory arguments.
static void forEachArgument(
    llvm::StringRef signature,
    llvm::function_ref<void(llvm::StringRef, llvm::StringRef)> visit) {
  while (!signature.empty()) {
    llvm::StringRef entry;
    std::tie(entry, signature) = signature.split(", ");
    auto [name, fallback] = entry.split('=');
    visit(name, entry.contains('=') ? fallback : llvm::StringRef());
  }
}

void Call::checkArguments() {
  if (signature == "*")
    return;
  llvm::SmallVector<llvm::StringRef> names;
  forEachArgument(signature, [&](llvm::StringRef name, llvm::StringRef value) {
    names.push_back(name);
    if (!value.data() && !find(name))
      fail("argument '{0}' is missing", name);
  });
  for (const auto &[name, argument] : node.inputs) {
    if (argument.kind == Argument::Kind::Other)
      fail("argument '{0}' has an unsupported kind ({1})", name, argument.text);
    if (!isPlacement(name) && !llvm::is_contained(names, name))
      fail("argument '{0}' is not known; accepted: {1}", name, signature);
  }
}

const Argument *Call::find(llvm::StringRef name) const {
  for (const auto &[given, argument] : node.inputs)
    if (given == name)
      return &argument;
  return nullptr;
}

llvm::StringRef Call::defaultOf(llvm::StringRef name) {
  llvm::StringRef found;
  forEachArgument(signature, [&](llvm::StringRef n, llvm::StringRef value) {
    if (n == name)
      found = value;
  });
  return found;
}

Val Call::lookup(llvm::StringRef name) {
  auto found = values.find(name);
  if (found != values.end() && found->second)
    return found->second;
  return fail("value '{0}' is not defined by an earlier node", name);
}

bool Call::has(llvm::StringRef name) {
  if (const Argument *a = find(name))
    return a->kind != Argument::Kind::None;
  llvm::StringRef value = defaultOf(name);
  return value.data() && value != "None";
}

Val Call::tensor(llvm::StringRef name) {
  const Argument *a = find(name);
  if (!a || a->kind != Argument::Kind::Tensor)
    return fail("argument '{0}' must be a tensor", name);
  return lookup(a->names[0]);
}

Val Call::operand(llvm::StringRef name) {
  const Argument *a = find(name);
  Builder &b = emit.builder;
  if (!a) {
    double value = 0;
    llvm::StringRef text = defaultOf(name);
    if (text.getAsDouble(value))
      return fail("argument '{0}' is missing", name);
    return emit.scalar(value, text.find_first_of(".e") == text.npos
                                  ? Type(b.getI64Type())
                                  : Type(b.getF64Type()));
  }
  return valueOf(*a, name);
}

Val Call::asResult(llvm::StringRef name) {
  Val x = operand(name);
  Type element = resultElement();
  return x && element ? emit.convert(x, element) : Val();
}

Val Call::operandAt(size_t i) {
  if (i < node.inputs.size())
    return valueOf(node.inputs[i].second, node.inputs[i].first);
  return fail("argument {0} is missing", i);
}

Val Call::valueOf(const Argument &a, llvm::StringRef name) {
  Builder &b = emit.builder;
  switch (a.kind) {
  case Argument::Kind::Tensor:
    return lookup(a.names[0]);
  case Argument::Kind::Float:
    return emit.scalar(a.numbers[0], b.getF64Type());
  case Argument::Kind::Int:
  case Argument::Kind::Bool: {
    if (!a.ints[0].name.empty())
      return lookup(a.ints[0].name);
    Scalar value;
    value.i = a.ints[0].value;
    bool isBool = a.kind == Argument::Kind::Bool;
    return Val(ConstTensor::splat(
        isBool ? Type(b.getI1Type()) : Type(b.getI64Type()), {}, value));
  }
  default:
    return fail("argument '{0}' must be a tensor or a number", name);
  }
}

bool Call::isWeak(llvm::StringRef name) {
  Val v = operand(name);
  return v && v.rank() == 0;
}

llvm::SmallVector<Val> Call::tensors(llvm::StringRef name) {
  const Argument *a = find(name);
  llvm::SmallVector<Val> list;
  if (!a || a->kind != Argument::Kind::Tensors) {
    // An empty list is read as a list of integers.
    if (!a || a->kind != Argument::Kind::Ints || !a->ints.empty())
      fail("argument '{0}' must be a list of tensors", name);
    return list;
  }
  for (const std::string &element : a->names)
    list.push_back(element.empty() ? Val() : lookup(element));
  return list;
}

int64_t Call::valueOf(const SymInt &integer, llvm::StringRef argument) {
  if (integer.name.empty())
    return integer.value;
  Val v = lookup(integer.name);
  if (!v)
    return 0;
  if (v.constant && v.constant->size() == 1 && !v.isFloat())
    return v.constant->at(0).i;
  fail("argument '{0}' is '{1}', which is computed from data; it must be known "
       "at compile time",
       argument, integer.name);
  return 0;
}

int64_t Call::integer(llvm::StringRef name) {
  const Argument *a = find(name);
  if (!a) {
    llvm::StringRef text = defaultOf(name);
    int64_t value = text == "True";
    if (text != "True" && text != "False" && text.getAsInteger(10, value))
      fail("argument '{0}' is missing", name);
    return value;
  }
  if (a->kind == Argument::Kind::Int || a->kind == Argument::Kind::Bool)
    return valueOf(a->ints[0], name);
  fail("argument '{0}' must be an integer", name);
  return 0;
}

Shape Call::ints(llvm::StringRef name) {
  const Argument *a = find(name);
  Shape list;
  if (!a) {
    llvm::SmallVector<llvm::StringRef> parts;
    defaultOf(name).trim("[]").split(parts, ' ', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef part : parts) {
      int64_t value = 0;
      if (part == "None" || part.getAsInteger(10, value))
        return list;
      list.push_back(value);
    }
    return list;
  }
  if (a->kind == Argument::Kind::Int || a->kind == Argument::Kind::Ints) {
    for (const SymInt &integer : a->ints)
      list.push_back(valueOf(integer, name));
  } else if (a->kind != Argument::Kind::None &&
             !(a->kind == Argument::Kind::Tensors && a->names.empty())) {
    fail("argument '{0}' must be a list of integers", name);
  }
  return list;
}

Shape Call::ints(llvm::StringRef name, size_t count) {
  Shape list = ints(name);
  if (list.size() == 1)
    list.assign(count, list[0]);
  if (list.size() != count) {
    fail("argument '{0}' {1} must have {2} entries", name, list, count);
    list.assign(count, 1);
  }
  return list;
}

double Call::number(llvm::StringRef name) {
  Val v = operand(name);
  if (!v)
    return 0;
  if (!v.constant || v.constant->size() != 1) {
    fail("argument '{0}' must be known at compile time", name);
    return 0;
  }
  Scalar s = v.constant->at(0);
  return v.isFloat() ? s.f : static_cast<double>(s.i);
}

std::string Call::text(llvm::StringRef name) {
  const Argument *a = find(name);
  if (!a)
    return defaultOf(name).str();
  if (a->kind == Argument::Kind::None)
    return "None";
  if (a->kind != Argument::Kind::String)
    fail("argument '{0}' must be a string", name);
  return a->text;
}

Type Call::dtype(Type fallback) {
  const Argument *a = find("dtype");
  if (!a || a->kind == Argument::Kind::None)
    return fallback;
  if (a->kind == Argument::Kind::Dtype) {
    if (Type element = elementOf(a->ints[0].value, context()))
      return element;
    fail("dtype {0} is not supported", dtypeText(a->ints[0].value));
  } else {
    fail("argument 'dtype' must be a ScalarType");
  }
  return fallback;
}

int64_t Call::dim(int64_t value, int64_t rank) {
  int64_t range = std::max<int64_t>(rank, 1); // rank 0 accepts 0 and -1
  if (value < -range || value >= range) {
    fail("dimension {0} is outside a tensor of rank {1}", value, rank);
    return 0;
  }
  return value < 0 ? value + range : value;
}

Shape Call::dims(llvm::StringRef name, int64_t rank) {
  Shape list;
  if (has(name))
    for (int64_t d : ints(name))
      list.push_back(dim(d, rank));
  if (list.empty() || rank == 0)
    return iotaDims(rank);
  llvm::sort(list);
  if (std::adjacent_find(list.begin(), list.end()) != list.end())
    fail("dimensions {0} contain a duplicate", list);
  return list;
}

Type Call::resultElement(int64_t i) {
  auto meta = graph.tensors.find(
      i < static_cast<int64_t>(node.outputs.size()) ? node.outputs[i] : "");
  if (meta == graph.tensors.end()) {
    fail("the file does not describe the result");
    return {};
  }
  int64_t dtype = meta->second.dtype;
  // COMPLEXHALF, COMPLEXFLOAT and COMPLEXDOUBLE follow after their parts.
  constexpr int64_t kFirst = 9, kLast = 11, kApart = 3;
  if (ofComplexPart && dtype >= kFirst && dtype <= kLast)
    dtype -= kApart;
  Type element = elementOf(dtype, context());
  if (!element)
    fail("elements of {0} are not supported; accepted: FLOAT, HALF, BFLOAT16, "
         "DOUBLE, LONG, INT, BOOL",
         dtypeText(meta->second.dtype));
  return element;
}

void Call::outList(llvm::ArrayRef<Val> parts) {
  if (parts.size() != results.size()) {
    fail("has {0} result tensors, but the file names {1}", parts.size(),
         results.size());
    return;
  }
  for (auto [i, part] : llvm::enumerate(parts))
    results[i] = part;
}

void Call::write(llvm::StringRef name, Val value) {
  const Argument *argument = find(name);
  if (argument && !argument->names.empty() && value)
    written.emplace_back(argument->names[0], std::move(value));
}

} // namespace dpc::frontend::pt2
