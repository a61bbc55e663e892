//===- ScatterPlot.cpp - Predicted against measured seconds ---------------===//
#include "tools/replay/Score.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

namespace dpc::validate {

namespace {

constexpr double kSide = 640, kMargin = 60, kLegend = 150;
/// Colors that color-blind readers can distinguish (Okabe and Ito, 2008).
constexpr const char *kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000", "#999999"};

struct Axis {
  int low = 0, high = 1;

  double at(double value) const {
    return (std::log10(value) - low) / (high - low) * kSide;
  }
};

std::string escape(const std::string &text) {
  std::string out;
  for (char c : text)
    out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return out;
}

} // namespace

static Axis axisOf(const std::vector<Prediction> &predictions) {
  double low = 1, high = 1;
  bool any = false;
  for (const Prediction &p : predictions) {
    if (!(p.measuredSeconds > 0 && p.predictedSeconds > 0))
      continue;
    auto [least, most] = std::minmax(p.measuredSeconds, p.predictedSeconds);
    low = any ? std::min(low, least) : least;
    high = any ? std::max(high, most) : most;
    any = true;
  }
  Axis axis;
  axis.low = static_cast<int>(std::floor(std::log10(low)));
  axis.high =
      std::max(axis.low + 1, static_cast<int>(std::ceil(std::log10(high))));
  return axis;
}

static void drawAxes(std::ostream &out, const Axis &axis) {
  double end = kMargin + kSide;
  out << "<rect x='" << kMargin << "' y='" << kMargin << "' width='" << kSide
      << "' height='" << kSide << "' fill='none' stroke='#444'/>\n"
      << "<line x1='" << kMargin << "' y1='" << end << "' x2='" << end
      << "' y2='" << kMargin << "' stroke='#bbb'/>\n";
  for (int power = axis.low; power <= axis.high; ++power) {
    double at = axis.at(std::pow(10.0, power));
    out << "<text x='" << kMargin + at << "' y='" << end + 18
        << "' text-anchor='middle'>1e" << power << "</text>\n"
        << "<text x='" << kMargin - 8 << "' y='" << end - at + 4
        << "' text-anchor='end'>1e" << power << "</text>\n";
  }
  out << "<text x='" << kMargin + kSide / 2 << "' y='" << end + 42
      << "' text-anchor='middle'>measured seconds</text>\n"
      << "<text transform='translate(16," << kMargin + kSide / 2
      << ") rotate(-90)' text-anchor='middle'>predicted seconds</text>\n";
}

std::string scatterPlot(const std::vector<Prediction> &predictions) {
  Axis axis = axisOf(predictions);
  std::ostringstream out;
  out << "<svg xmlns='http://www.w3.org/2000/svg' width='"
      << kSide + 2 * kMargin + kLegend << "' height='" << kSide + 2 * kMargin
      << "' font-family='sans-serif' font-size='12'>\n"
      << "<rect width='100%' height='100%' fill='white'/>\n";
  drawAxes(out, axis);
  std::map<std::string, std::string> colours;
  for (const Prediction &p : predictions) {
    if (!(p.measuredSeconds > 0 && p.predictedSeconds > 0))
      continue;
    auto [entry, isNew] = colours.try_emplace(p.source);
    if (isNew) {
      entry->second = kColours[(colours.size() - 1) % std::size(kColours)];
      double y = kMargin + 18 * static_cast<double>(colours.size());
      out << "<circle cx='" << kSide + kMargin + 20 << "' cy='" << y - 4
          << "' r='4' fill='" << entry->second << "'/><text x='"
          << kSide + kMargin + 32 << "' y='" << y << "'>" << escape(p.source)
          << "</text>\n";
    }
    out << "<circle cx='" << kMargin + axis.at(p.measuredSeconds) << "' cy='"
        << kMargin + kSide - axis.at(p.predictedSeconds)
        << "' r='3' fill-opacity='0.6' fill='" << entry->second << "'><title>"
        << escape(p.id) << "</title></circle>\n";
  }
  out << "</svg>\n";
  return out.str();
}

} // namespace dpc::validate
