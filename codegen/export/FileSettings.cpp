//===- FileSettings.cpp - The settings in a configuration file ------------===//
#include "codegen/export/FileSettings.h"

#include "codegen/export/ShellWords.h"
#include "runtime/base/OneLine.h"

#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>

namespace dpc::exports {

using nlohmann::json;
using Settings = std::vector<FileSetting>;

const FileSetting *FileSettings::find(std::string_view key) const {
  auto found = std::find_if(
      settings.rbegin(), settings.rend(),
      [&](const FileSetting &setting) { return setting.key == key; });
  return found == settings.rend() ? nullptr : &*found;
}

bool FileSettings::has(std::string_view key) const {
  std::string section = std::string(key) + ".";
  return std::ranges::any_of(settings, [&](const FileSetting &setting) {
    return setting.key == key || setting.key.starts_with(section);
  });
}

json scalarOf(const std::string &text) {
  if (text == "true" || text == "True")
    return true;
  if (text == "false" || text == "False")
    return false;
  if (text.empty() || text == "null" || text == "None" || text == "~")
    return nullptr;
  const char *end = text.data() + text.size();
  int64_t whole = 0;
  if (std::from_chars(text.data(), end, whole).ptr == end)
    return whole;
  double number = 0;
  if (std::from_chars(text.data(), end, number).ptr == end)
    return number;
  return text;
}

static Error notRead(const char *what, int64_t line, const std::string &why) {
  return Error{"line " + std::to_string(line) + ": not " + what + ": " +
               rt::oneLine(why)};
}

namespace {

/// Iterates over a text and counts its lines.
class LineIterator {
public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  LineIterator(const char *at, int64_t &line) : at(at), line(&line) {}
  reference operator*() const { return *at; }
  LineIterator &operator++() {
    *line += *at == '\n';
    ++at;
    return *this;
  }
  bool operator==(const LineIterator &other) const { return at == other.at; }

private:
  const char *at;
  int64_t *line;
};

using Lines = std::map<std::string, int64_t>;

} // namespace

/// Adds the leaves of `value`. An empty section is a leaf.
static void flatten(const json &value, const std::string &key,
                    const Lines &lines, Settings &settings) {
  if (value.is_object() && !value.empty()) {
    for (const auto &[name, inner] : value.items())
      flatten(inner, key.empty() ? name : key + "." + name, lines, settings);
    return;
  }
  auto line = lines.find(key);
  settings.push_back({key, value, line == lines.end() ? 1 : line->second});
}

/// The parsers of JSON and TOML order settings by name.
static void sortByLine(Settings &settings) {
  std::ranges::sort(settings, [](const FileSetting &a, const FileSetting &b) {
    return std::tie(a.line, a.key) < std::tie(b.line, b.key);
  });
}

static Expected<Settings> jsonSettings(const std::string &text) {
  int64_t line = 1;
  Lines lines;
  std::vector<std::string> path;
  auto note = [&](int depth, json::parse_event_t event, json &parsed) {
    if (event != json::parse_event_t::key)
      return true;
    path.resize(static_cast<size_t>(depth - 1));
    path.push_back(parsed.get<std::string>());
    std::string key;
    for (const std::string &name : path)
      key += (key.empty() ? "" : ".") + name;
    lines[key] = line;
    return true;
  };
  json config;
  try {
    config = json::parse(LineIterator(text.data(), line),
                         LineIterator(text.data() + text.size(), line), note,
                         /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const json::parse_error &error) {
    std::string why = error.what();
    size_t detail = why.find("syntax error");
    return notRead("a JSON object", line,
                   detail == std::string::npos ? why : why.substr(detail));
  }
  if (!config.is_object())
    return notRead("a JSON object", 1, "the file has another value");
  Settings settings;
  flatten(config, "", lines, settings);
  sortByLine(settings);
  return settings;
}

static void flatten(const YAML::Node &node, const std::string &key,
                    Settings &settings) {
  int64_t line = node.Mark().line + 1;
  if (node.IsMap() && node.size() > 0) {
    for (const auto &entry : node) {
      std::string name = entry.first.Scalar();
      flatten(entry.second, key.empty() ? name : key + "." + name, settings);
    }
    return;
  }
  json value;
  if (node.IsSequence()) {
    value = json::array();
    for (const YAML::Node &element : node)
      value.push_back(scalarOf(element.IsScalar() ? element.Scalar()
                                                  : YAML::Dump(element)));
  } else if (node.IsScalar()) {
    // The tag of a quoted scalar is "!".
    value = node.Tag() == "!" ? json(node.Scalar()) : scalarOf(node.Scalar());
  }
  settings.push_back({key, std::move(value), line});
}

static Expected<Settings> yamlSettings(const std::string &text) {
  try {
    YAML::Node root = YAML::Load(text);
    if (!root.IsMap())
      return notRead("a YAML mapping", 1, "the file has another value");
    Settings settings;
    flatten(root, "", settings);
    return settings;
  } catch (const YAML::Exception &error) {
    return notRead("YAML", error.mark.line + 1, error.msg);
  }
}

static json valueOf(const toml::node &node) {
  if (const toml::array *array = node.as_array()) {
    json values = json::array();
    for (const toml::node &element : *array)
      values.push_back(valueOf(element));
    return values;
  }
  if (auto number = node.value_exact<int64_t>())
    return *number;
  if (auto flag = node.value_exact<bool>())
    return *flag;
  if (auto number = node.value_exact<double>())
    return *number;
  return node.value_or(std::string());
}

static void flatten(const toml::table &table, const std::string &key,
                    Settings &settings) {
  for (const auto &[name, node] : table) {
    std::string inner =
        (key.empty() ? "" : key + ".") + std::string(name.str());
    if (const toml::table *section = node.as_table();
        section && !section->empty())
      flatten(*section, inner, settings);
    else
      settings.push_back({inner, valueOf(node),
                          static_cast<int64_t>(name.source().begin.line)});
  }
}

static Expected<Settings> tomlSettings(const std::string &text) {
  try {
    toml::table root = toml::parse(text);
    Settings settings;
    flatten(root, "", settings);
    sortByLine(settings);
    return settings;
  } catch (const toml::parse_error &error) {
    return notRead("TOML", error.source().begin.line,
                   std::string(error.description()));
  }
}

/// Returns the flags among `words`, each with the words up to the next flag.
static Settings flagsOf(const std::vector<ShellWord> &words) {
  Settings found;
  auto add = [&](const std::string &word) {
    json &value = found.back().value;
    json scalar = scalarOf(word);
    if (value == true)
      value = scalar.is_null() ? json(word) : std::move(scalar);
    else if (value.is_array())
      value.push_back(std::move(scalar));
    else
      value = json::array({std::move(value), std::move(scalar)});
  };
  for (const ShellWord &word : words) {
    if (!word.text.starts_with("--")) {
      if (!found.empty())
        add(word.text);
      continue;
    }
    size_t equal = word.text.find('=');
    std::string key =
        word.text.substr(2, equal == std::string::npos ? equal : equal - 2);
    std::ranges::replace(key, '_', '-');
    found.push_back({key, true, word.line});
    if (equal != std::string::npos)
      add(word.text.substr(equal + 1));
  }
  std::erase_if(found,
                [](const FileSetting &flag) { return flag.key.empty(); });
  return found;
}

static Expected<FileSettings> with(Syntax syntax, Expected<Settings> settings) {
  if (!settings)
    return settings.status();
  return FileSettings{syntax, std::move(*settings), {}};
}

static FileSettings readFlags(const std::string &text) {
  FileSettings file;
  std::vector<ShellWord> words = shellWords(text);
  file.settings = flagsOf(words);
  for (ShellWord &word : words)
    file.words.push_back(std::move(word.text));
  return file;
}

Expected<FileSettings> readSettings(const std::string &text,
                                    const std::string &path) {
  auto endsWith = [&](const char *ending) { return path.ends_with(ending); };
  size_t first = text.find_first_not_of(" \t\r\n");
  bool isObject = first != std::string::npos && text[first] == '{';
  if (endsWith(".json") || (isObject && !endsWith(".yaml")))
    return with(Syntax::Json, jsonSettings(text));
  if (endsWith(".toml"))
    return with(Syntax::Toml, tomlSettings(text));
  if (endsWith(".yaml") || endsWith(".yml"))
    return with(Syntax::Yaml, yamlSettings(text));
  if (endsWith(".py"))
    return with(Syntax::Python, pythonSettings(text));
  if (endsWith(".sh"))
    return readFlags(text);
  if (auto toml = tomlSettings(text); toml && !toml->empty())
    return with(Syntax::Toml, std::move(toml));
  if (auto yaml = yamlSettings(text))
    return with(Syntax::Yaml, std::move(yaml));
  return readFlags(text);
}

} // namespace dpc::exports
