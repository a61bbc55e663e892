//===- ShellWords.cpp - The words of commands in a script -----------------===//
#include "codegen/export/ShellWords.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace dpc::exports {

using Variables = std::map<std::string, std::string>;

static bool isSpace(char c) {
  return std::isspace(static_cast<unsigned char>(c)) != 0;
}

static bool isOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

static size_t endOfName(const std::string &text, size_t begin) {
  while (begin < text.size() && isOfName(text[begin]))
    ++begin;
  return begin;
}

static std::optional<int64_t> wholeNumber(const std::string &text) {
  int64_t value = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  bool isWhole = error == std::errc() && end == text.data() + text.size();
  return isWhole ? std::optional(value) : std::nullopt;
}

namespace {

/// Evaluates the text inside $((...)) by recursive descent: + - * / % on
/// integers and variables. Returns nullopt for any other text and on overflow.
class Arithmetic {
public:
  Arithmetic(std::string text, const Variables &variables)
      : text(std::move(text)), variables(variables) {}
  std::optional<int64_t> value() {
    std::optional<int64_t> result = sum();
    return skip() == text.size() ? result : std::nullopt;
  }

private:
  std::string text;
  const Variables &variables;
  size_t at = 0;
  int depth = 0;

  size_t skip() {
    while (at < text.size() && isSpace(text[at]))
      ++at;
    return at;
  }
  /// Consumes and returns the next character if it is in `any`, else returns 0.
  char take(const char *any) {
    bool isHere = skip() < text.size() &&
                  std::string(any).find(text[at]) != std::string::npos;
    return isHere ? text[at++] : '\0';
  }
  std::optional<int64_t> sum();
  std::optional<int64_t> product();
  std::optional<int64_t> factor();
};

} // namespace

std::optional<int64_t> Arithmetic::sum() {
  std::optional<int64_t> left = product();
  while (char op = left ? take("+-") : '\0') {
    std::optional<int64_t> right = product();
    int64_t result = 0;
    bool fails =
        !right || (op == '+' ? __builtin_add_overflow(*left, *right, &result)
                             : __builtin_sub_overflow(*left, *right, &result));
    left = fails ? std::nullopt : std::optional(result);
  }
  return left;
}

std::optional<int64_t> Arithmetic::product() {
  std::optional<int64_t> left = factor();
  while (char op = left ? take("*/%") : '\0') {
    std::optional<int64_t> right = factor();
    int64_t result = 0;
    if (!right || (op != '*' && *right <= 0) ||
        (op == '*' && __builtin_mul_overflow(*left, *right, &result)))
      return std::nullopt;
    left = op == '*' ? result : op == '/' ? *left / *right : *left % *right;
  }
  return left;
}

std::optional<int64_t> Arithmetic::factor() {
  constexpr int kDeepest = 64;
  if (take("(")) {
    if (++depth > kDeepest)
      return std::nullopt;
    std::optional<int64_t> inner = sum();
    --depth;
    return take(")") ? inner : std::nullopt;
  }
  take("$");
  size_t begin = skip(), end = endOfName(text, begin);
  std::string word = text.substr(begin, end - begin);
  at = end;
  auto variable = variables.find(word);
  return wholeNumber(variable == variables.end() ? word : variable->second);
}

namespace {

class Reader {
public:
  std::vector<ShellWord> read(const std::string &script);

private:
  std::vector<ShellWord> words;
  Variables variables;
  int64_t line = 1; ///< Where the present word begins.

  void add(std::string word);
  void addFilled(const std::string &text);
  std::string filled(std::string text) const;
  /// Replaces the $ expression at position `at` of `text` by its value. Returns
  /// the position after the value.
  size_t fill(std::string &text, size_t at) const;
};

} // namespace

/// Returns npos if there is no closing brace or the nesting is too deep.
static size_t closingBrace(const std::string &text, size_t at) {
  constexpr int kDeepest = 64;
  int depth = 1;
  for (; at < text.size() && depth <= kDeepest; ++at) {
    depth += text.compare(at, 2, "${") == 0;
    depth -= text[at] == '}';
    if (depth == 0)
      return at;
  }
  return std::string::npos;
}

size_t Reader::fill(std::string &text, size_t at) const {
  if (text.compare(at, 3, "$((") == 0) {
    size_t close = text.find("))", at);
    if (close == std::string::npos)
      return text.size();
    while (close + 2 < text.size() && text[close + 2] == ')')
      ++close; // closes an inner pair
    auto value =
        Arithmetic(text.substr(at + 3, close - at - 3), variables).value();
    if (!value)
      return close + 2;
    std::string number = std::to_string(*value);
    text.replace(at, close + 2 - at, number);
    return at + number.size();
  }
  bool isBraced = at + 1 < text.size() && text[at + 1] == '{';
  size_t begin = at + (isBraced ? 2 : 1), end = endOfName(text, begin);
  std::string name = text.substr(begin, end - begin), otherwise;
  if (isBraced) {
    size_t close = closingBrace(text, end);
    if (close == std::string::npos)
      return text.size();
    if (text.compare(end, 2, ":-") == 0)
      otherwise = filled(text.substr(end + 2, close - end - 2));
    end = close + 1;
  }
  auto value = variables.find(name);
  if (value == variables.end() && otherwise.empty())
    return end;
  const std::string &inserted =
      value == variables.end() ? otherwise : value->second;
  text.replace(at, end - at, inserted);
  return at + inserted.size();
}

std::string Reader::filled(std::string text) const {
  for (size_t at = 0; (at = text.find('$', at)) != std::string::npos;)
    at = fill(text, at);
  return text;
}

/// Adds `text` as one word, or split at spaces if it contains a flag.
void Reader::addFilled(const std::string &text) {
  size_t flag = text.find("--");
  while (flag != std::string::npos && flag > 0 && !isSpace(text[flag - 1]))
    flag = text.find("--", flag + 1);
  bool isCommand =
      flag != std::string::npos && std::ranges::any_of(text, isSpace);
  if (!isCommand) {
    if (!text.empty())
      words.push_back({text, line});
    return;
  }
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    while (begin < text.size() && isSpace(text[begin]))
      ++begin;
    end = begin;
    while (end < text.size() && !isSpace(text[end]))
      ++end;
    if (end > begin)
      words.push_back({text.substr(begin, end - begin), line});
  }
}

void Reader::add(std::string word) {
  auto opens = std::ranges::count(word, '(');
  auto closes = std::ranges::count(word, ')');
  if (!word.empty() && word.front() == '(') {
    word.erase(0, 1);
    --opens;
  }
  if (!word.empty() && word.back() == ')' && closes > opens)
    word.pop_back();
  size_t end = endOfName(word, 0);
  bool isAppended = word.compare(end, 2, "+=") == 0;
  if (end == 0 || (!isAppended && word.compare(end, 1, "=") != 0)) {
    addFilled(filled(word));
    return;
  }
  std::string value = word.substr(end + (isAppended ? 2 : 1));
  if (!value.empty() && value.front() == '(') // the first word of an array
    addFilled(filled(value.substr(1)));
  else if (isAppended)
    variables[word.substr(0, end)] += filled(value);
  else
    variables[word.substr(0, end)] = filled(value);
}

std::vector<ShellWord> Reader::read(const std::string &script) {
  std::string word;
  int64_t here = 1; // the line of position i
  char quote = 0;
  size_t open = 0; // open parentheses of $((
  for (size_t i = 0; i < script.size(); ++i) {
    char c = script[i];
    if (word.empty())
      line = here;
    here += c == '\n';
    if (c == '\\' && i + 1 < script.size() && script[i + 1] == '\n') {
      ++i;
      ++here;
      c = ' ';
    }
    if (open > 0 || word.ends_with("$(")) {
      open += c == '(' ? (open ? 1 : 2) : 0;
      open -= c == ')' && open > 0 ? 1 : 0;
    }
    if (quote) {
      if (c == quote)
        quote = 0;
      else
        word += c;
    } else if (open > 0) {
      word += c;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#' && word.empty()) {
      while (i + 1 < script.size() && script[i + 1] != '\n')
        ++i;
    } else if (isSpace(c) || c == ';') {
      add(std::exchange(word, {}));
    } else {
      word += c;
    }
  }
  add(word);
  return std::move(words);
}

std::vector<ShellWord> shellWords(const std::string &script) {
  return Reader().read(script);
}

} // namespace dpc::exports
