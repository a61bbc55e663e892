#include "tools/cli/Completion.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace dpc {

namespace {

/// An option as a shell sees it.
struct Word {
  std::string name;        ///< "--emit"
  std::string description; ///< of one line
  std::string values;      ///< "plan report"; "" where any will do
  bool takesValue = false;
  bool isList = false; ///< values joined by commas
};

} // namespace

static std::string replaced(std::string text, char what, const char *by) {
  std::string result;
  for (char c : text)
    result += c == what ? std::string(by) : std::string(1, c);
  return result;
}

/// CLI11 says of an option with a list of values "TEXT:{plan,report}".
static std::string valuesOf(const CLI::Option &option) {
  std::string type = option.get_type_name();
  size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos)
    return "";
  return replaced(type.substr(begin + 1, end - begin - 1), ',', " ");
}

static std::vector<Word> wordsOf(const CLI::App &app) {
  std::vector<Word> words;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      words.push_back({"--" + name,
                       replaced(option->get_description(), '\n', " "),
                       valuesOf(*option), option->get_items_expected_max() > 0,
                       option->get_delimiter() != '\0'});
  return words;
}

/// "dpc-opt" -> "_dpc_opt"
static std::string functionOf(const std::string &program) {
  return "_" + replaced(program, '-', "_");
}

/// bash takes "=" for a word of its own.
static const char *const kBashBody = R"(
  local word=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]}
  [[ $word == = ]] && word=
  [[ $option == = ]] && option=${COMP_WORDS[COMP_CWORD-2]}
  local done= values= list=
  COMPREPLY=()
  case $option in
@VALUES@  esac
  if [[ $values ]]; then
    [[ $list && $word == *,* ]] && done=${word%,*}, word=${word##*,}
    COMPREPLY=($(compgen -P "$done" -W "$values" -- "$word"))
  elif [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "@OPTIONS@" -- "$word"))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
  fi
)";

static std::string bashScript(const std::vector<Word> &words,
                              const std::string &program) {
  std::string values, options;
  for (const Word &word : words) {
    options +=
        (options.empty() ? "" : " ") + word.name + (word.takesValue ? "=" : "");
    if (!word.values.empty())
      values += "    " + word.name + ") values=\"" + word.values + "\"" +
                (word.isList ? " list=1" : "") + " ;;\n";
  }
  std::string body = kBashBody;
  for (const auto &[mark, text] :
       {std::pair("@VALUES@", values), std::pair("@OPTIONS@", options)})
    body.replace(body.find(mark), std::string(mark).size(), text);
  std::string function = functionOf(program);
  return "# Completion of " + program + " for bash.\n" + function + "() {" +
         body + "}\ncomplete -o default -F " + function + " " + program + "\n";
}

/// A text inside of single quotes and brackets.
static std::string zshText(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '\'' ? "'\\''"
              : std::string("[]:\\").find(c) != std::string::npos
                  ? std::string("\\") + c
                  : std::string(1, c);
  return result;
}

static std::string zshScript(const std::vector<Word> &words,
                             const std::string &program) {
  std::string text = "#compdef " + program + "\n# Completion of " + program +
                     " for zsh.\n" + "_arguments -S";
  for (const Word &word : words) {
    text += " \\\n  '" + word.name + (word.takesValue ? "=" : "") + "[" +
            zshText(word.description) + "]";
    if (word.takesValue)
      text += word.values.empty() ? ":value:_files"
              : word.isList       ? ":value:_values -s , value " + word.values
                                  : ":value:(" + word.values + ")";
    text += "'";
  }
  return text + " \\\n  '*:file:_files'\n";
}

std::string completionScript(const CLI::App &app, const std::string &program,
                             const std::string &shell) {
  std::vector<Word> words = wordsOf(app);
  return shell == "zsh" ? zshScript(words, program)
                        : bashScript(words, program);
}

} // namespace dpc
