// Draws charts with ECharts, in the colors of the page. Redraws them when the
// colors or the width change.
'use strict';

dpc.drawn = [];
dpc.hasCharts = () => typeof echarts !== 'undefined';

dpc.isPrinting = () => matchMedia('print').matches;

dpc.color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Adds a chart of `height` pixels. Each drawing calls `optionOf`, which returns
// the options of ECharts. `kind` is 'svg', or 'canvas' for many marks.
dpc.chart = (parent, height, label, optionOf, kind) => {
  if (!dpc.hasCharts()) return null;
  const box = dpc.el('div', {class: 'chart', role: 'img', 'aria-label': label, style: `height: ${height}px`});
  parent.append(box);
  const entry = {box, optionOf, kind: kind || 'svg', chart: null};
  dpc.drawn.push(entry);
  dpc.draw(entry);
  return entry;
};

dpc.draw = (entry) => {
  if (entry.chart) entry.chart.dispose();
  entry.chart = echarts.init(entry.box, null, {renderer: entry.kind});
  entry.chart.setOption({...dpc.common(), ...entry.optionOf()});
};

dpc.common = () => ({
  animation: false,
  textStyle: {fontFamily: getComputedStyle(document.body).fontFamily, color: dpc.color('--ink')},
  tooltip: dpc.tooltip(),
});

dpc.tooltip = (more) => ({
  confine: true,
  backgroundColor: dpc.color('--ground'),
  borderColor: dpc.color('--line'),
  textStyle: {color: dpc.color('--ink'), fontSize: 12},
  ...more,
});

dpc.axis = (more) => ({
  nameLocation: 'middle',
  nameTextStyle: {color: dpc.color('--soft'), fontSize: 12},
  axisLabel: {color: dpc.color('--soft'), fontSize: 11},
  axisLine: {show: true, lineStyle: {color: dpc.color('--gray')}},
  axisTick: {lineStyle: {color: dpc.color('--gray')}},
  splitLine: {lineStyle: {color: dpc.color('--line'), width: 0.6}},
  ...more,
});

dpc.legend = (more) => ({
  top: 0, left: 0, itemWidth: 12, itemHeight: 10, itemGap: 16,
  textStyle: {color: dpc.color('--soft'), fontSize: 12},
  ...more,
});

// Returns a line for each phase [name, at] on an axis that ends at `end`. Hides a name that would overlap the previous name.
dpc.phaseMarks = (phases, end, position) => {
  const perUnit = (document.querySelector('main').clientWidth - 120) / end;
  let free = 0;
  return phases.map(([name, at]) => {
    const show = at * perUnit >= free;
    if (show) free = at * perUnit + 6.5 * name.length + 4;
    return {name, xAxis: at, lineStyle: {color: dpc.color('--gray'), width: 0.8, type: 'solid'},
      label: {show, formatter: '{b}', position, align: 'left', color: dpc.color('--soft'), fontSize: 11}};
  });
};

dpc.watchColors = () => {
  const redraw = () => dpc.drawn.forEach(dpc.draw);
  const resize = () => dpc.drawn.forEach((entry) => entry.chart.resize());
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  matchMedia('print').addEventListener('change', redraw);
  addEventListener('beforeprint', redraw);
  addEventListener('afterprint', redraw);
  let waiting = 0;
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(resize, 80);
  });
};

dpc.sharesOption = (shares, all) => ({
  grid: {left: 2, right: 18, top: 34, bottom: 22},
  legend: dpc.legend({selectedMode: false}),
  xAxis: dpc.axis({type: 'value', max: 100, axisLabel: {formatter: '{value} %', color: dpc.color('--soft'), fontSize: 11, alignMinLabel: 'left'}, splitLine: {show: false}}),
  yAxis: {type: 'category', data: [''], show: false},
  tooltip: dpc.tooltip({formatter: (item) => `${item.seriesName}: ${dpc.seconds(item.value / 100 * all)} (${item.value.toFixed(1)} %)`}),
  series: shares.map(([name, seconds, color]) => ({
    name, type: 'bar', stack: 'all', data: [100 * seconds / all], itemStyle: {color: dpc.color(color)}, barWidth: 22,
  })),
});

// Plots the step times of candidates against their memory, with the Pareto front as a line.
dpc.scatterOption = (report) => {
  const usable = report.cluster.usable_bytes_per_device;
  const fullest = Math.max(0, ...report.candidates.map((one) => (one.predicted ? one.predicted.memory_bytes.peak : 0)));
  const isNear = fullest > usable / 4; // otherwise showing the limit would leave little space for the points
  const [scale, unit] = dpc.byteUnit(isNear ? usable : fullest);
  const tokens = report.step.tokens;
  const point = (candidate, predicted) => ({
    value: [predicted.memory_bytes.peak * scale, tokens / predicted.step_seconds],
    strategy: dpc.strategyText(candidate.strategy), seconds: predicted.step_seconds, bytes: predicted.memory_bytes.peak,
    name: candidate.name,
  });
  const points = (list) => list.filter((candidate) => candidate.predicted && candidate.predicted.step_seconds > 0)
    .map((candidate) => point(candidate, candidate.predicted));
  const others = report.candidates.slice(report.chosen ? 1 : 0);
  const known = report.baselines.filter((row) => row.step_seconds > 0 && row.memory_bytes)
    .map((row) => point(row, row));
  const isBeyond = (one) => !report.pareto.some((entry) => entry.step_seconds <= one.seconds && entry.memory_bytes <= one.bytes);
  const limit = usable * scale, beyond = known.filter((one) => isBeyond(one) && one.bytes <= usable);
  const near = known.filter((one) => beyond.includes(one) || one.value[0] < 1.5 * (isNear ? limit : fullest * scale));
  const outside = known.length - near.length;
  const most = Math.max(isNear ? limit : 0, ...[...points(report.candidates), ...near].map((one) => one.value[0])) * 1.05;
  const front = report.pareto.map((entry) => ({
    value: [entry.memory_bytes * scale, tokens / entry.step_seconds], strategy: dpc.strategyText(entry.strategy),
    seconds: entry.step_seconds, bytes: entry.memory_bytes,
  })).sort((a, b) => a.value[0] - b.value[0]);
  const series = (name, data, color, symbol, size) => ({
    name, type: 'scatter', data, symbol, symbolSize: size, itemStyle: {color: dpc.color(color)},
  });
  return {
    outside, beyond: beyond.length,
    grid: {left: 86, right: 16, top: 40, bottom: 46},
    legend: dpc.legend(),
    tooltip: dpc.tooltip({formatter: (item) => item.data.strategy
      ? `${item.data.name ? `<b>${item.data.name}</b><br>` : ''}${item.data.strategy}<br>${dpc.seconds(item.data.seconds)} a step, ${dpc.count(item.value[1])} ${dpc.unitOf(report)}/s, ${dpc.bytes(item.data.bytes)}` : ''}),
    xAxis: dpc.axis({type: 'value', name: `memory of the fullest device (${unit})`, nameGap: 28, min: 0, max: most,
      axisLabel: {formatter: dpc.short, color: dpc.color('--soft'), fontSize: 11, showMaxLabel: false}}),
    yAxis: dpc.axis({type: 'value', name: `${dpc.unitOf(report)} a second`, nameGap: 66, scale: true}),
    series: [
      {name: 'Pareto front', type: 'line', data: front, symbol: 'circle', symbolSize: 5,
        lineStyle: {color: dpc.color('--gray'), width: 1.2}, itemStyle: {color: dpc.color('--gray')},
        markLine: {symbol: 'none', silent: true, data: isNear ? [{xAxis: limit}] : [], lineStyle: {color: dpc.color('--bad'), type: 'dashed'},
          label: {formatter: 'limit', color: dpc.color('--bad'), position: 'insideEndTop'}}},
      series('baselines', known.filter((one) => one.value[0] <= most), '--yellow', 'triangle', 9),
      series('candidates', points(others), '--blue', 'circle', 8),
      series('chosen', report.chosen ? points(report.candidates.slice(0, 1)) : [], '--red', 'diamond', 14),
    ],
  };
};

dpc.candidates = (report) => {
  if (!report.candidates.length) return;
  const chosen = report.chosen && report.candidates[0];
  const predicted = (row, key) => row.predicted && row.predicted[key];
  const peak = (row) => row.predicted && row.predicted.memory_bytes.peak;
  const section = dpc.section('candidates', 'Candidates');
  dpc.chart(section, 380, `Candidates: ${dpc.unitOf(report)} a second against memory`, () => dpc.scatterOption(report));
  const {outside, beyond} = dpc.hasCharts() ? dpc.scatterOption(report) : {outside: 0, beyond: 0};
  if (beyond)
    section.append(dpc.el('p', {class: 'note'}, `Beyond the Pareto front: ${beyond} baseline${beyond > 1 ? 's' : ''}, evaluated to compare with. ` +
      'The front is that of the strategies searched: what the options ask for leaves these out.'));
  if (outside)
    section.append(dpc.el('p', {class: 'note'}, `Not drawn for the memory that they need: ${outside} baseline${outside > 1 ? 's' : ''}, whose numbers are below.`));
  section.append(dpc.table('The best strategies found; click a heading to sort', [
    {title: '#', number: true, text: (row) => report.candidates.indexOf(row) + 1, value: (row) => report.candidates.indexOf(row)},
    {title: 'Strategy', class: 'strategy', text: (row) => dpc.strategyCell(row.strategy), value: (row) => dpc.strategyText(row.strategy)},
    {title: 'Step', number: true, text: (row) => dpc.seconds(predicted(row, 'step_seconds')), value: (row) => predicted(row, 'step_seconds')},
    {title: 'MFU', number: true, text: (row) => (row.predicted ? dpc.percent(row.predicted.mfu) : '–'), value: (row) => predicted(row, 'mfu')},
    {title: 'Memory', number: true, text: (row) => dpc.bytes(peak(row)), value: peak},
    {title: 'Exposed', number: true, text: (row) => dpc.seconds(predicted(row, 'exposed_communication_seconds')), value: (row) => predicted(row, 'exposed_communication_seconds')},
    {title: 'Bubble', number: true, text: (row) => (row.predicted ? dpc.percent(row.predicted.bubble_fraction) : '–'), value: (row) => predicted(row, 'bubble_fraction')},
    {title: 'Estimate', text: (row) => row.method, value: (row) => row.method},
    {title: 'Why not', text: (row) => (row === chosen && row.fits ? 'chosen' : row.rejected || row.skipped || row.why || ''), value: (row) => row.rejected || row.skipped || row.why || ''},
  ], report.candidates, (row) => (row === chosen && row.fits ? 'chosen' : undefined)),
  dpc.el('p', {class: 'note'}, 'Estimates: graph = the whole program was compiled and simulated; folded = a few of its layers were, and the rest added; ' +
    'pieces = made of measured parts of other strategies; formula = from totals of the model alone.'));
};
