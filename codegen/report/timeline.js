// Shows the simulated step: the schedule of all stages, the instructions of a
// phase, memory and traffic.
'use strict';

dpc.phaseColors = {setup: '--gray', forward: '--blue', backward: '--cyan', weight: '--green', update: '--purple'};
dpc.phaseKind = (name) => name.split('.')[0];

dpc.timelineOf = (report) => report.chosen && report.chosen.detail && report.chosen.detail.timeline;

dpc.schedule = (report) => {
  const timeline = dpc.timelineOf(report);
  if (!timeline) return;
  const shown = timeline.stages.length, count = timeline.stage_count;
  const isPipeline = count > 1;
  const section = dpc.section('timeline', isPipeline ? 'The pipeline' : 'The step',
    dpc.el('p', {class: 'note'},
      `When each phase of each micro-batch runs on ${isPipeline ? 'one rank of every stage' : 'a rank'}, from the simulation that the step time is read from. ` +
      `${isPipeline ? 'Gray is idle: the bubble. ' : ''}Drag the bar below, or scroll over the chart, to look closer.` +
      (shown < count ? ` ${shown} of ${count} stages are drawn.` : '')));
  const rows = dpc.ganttRows(timeline);
  const entries = rows.length;
  dpc.chart(section, Math.min(90 + 26 * shown, 90 + Math.max(9, 480 / shown) * shown), 'Schedule of the step, by stage',
    () => dpc.ganttOption(timeline, rows), entries > 1500 ? 'canvas' : 'svg');
  if (report.chosen.predicted.stages) section.append(dpc.folded('Stages', report.chosen.predicted.stages.length, dpc.stageTable(report)));
  dpc.anatomy(report, timeline);
};

// Returns [row, begin, end, phase, micro-batch] for each entry. An update that waits for other stages gives two rows: before and after the wait.
dpc.ganttRows = (timeline) =>
  timeline.stages.flatMap((stage, row) => stage.entries.flatMap(([phase, microBatch, begin]) => {
    const {ticks, wait = [ticks, ticks]} = stage.phases[phase];
    return [[0, wait[0]], [wait[1], ticks]].filter(([from, to]) => to > from)
      .map(([from, to]) => [row, begin + from, begin + to, phase, microBatch]);
  }));

dpc.ganttOption = (timeline, rows) => {
  const [scale, unit] = dpc.timeUnit(timeline.step_ticks * timeline.tick_seconds);
  const toUnit = timeline.tick_seconds * scale;
  const kinds = [...new Set(timeline.stages.flatMap((stage) => stage.phases.map((phase) => dpc.phaseKind(phase.name))))];
  const colors = Object.fromEntries(Object.entries(dpc.phaseColors).map(([kind, name]) => [kind, dpc.color(name)]));
  const kindOf = (row) => dpc.phaseKind(timeline.stages[row[0]].phases[row[3]].name);
  const draw = (params, api) => {
    const [x0, y] = api.coord([api.value(1), api.value(0)]);
    const [x1] = api.coord([api.value(2), api.value(0)]);
    const height = Math.max(3, api.size([0, 1])[1] * 0.78);
    const area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect(
      {x: x0, y: y - height / 2, width: Math.max(x1 - x0 - (x1 - x0 > 4 ? 0.6 : 0), 0.4), height},
      {x: area.x, y: area.y, width: area.width, height: area.height});
    return shape && {type: 'rect', shape, style: {fill: api.visual('color')}};
  };
  const seriesOf = (name, data, color) => ({
    name, type: 'custom', renderItem: draw, data, itemStyle: {color}, encode: {x: [1, 2], y: 0}, progressive: 0, clip: true,
  });
  const idle = timeline.stages.map((stage, row) => [row, 0, timeline.step_ticks * toUnit, -1, 0]);
  return {
    grid: {left: 66, right: 10, top: 32, bottom: 72},
    legend: dpc.legend({data: [...kinds, 'idle']}),
    tooltip: dpc.tooltip({formatter: (item) => dpc.ganttTip(timeline, item.value, toUnit)}),
    dataZoom: [
      {type: 'slider', show: !dpc.isPrinting(), xAxisIndex: 0, height: 18, bottom: 8, filterMode: 'weakFilter', borderColor: dpc.color('--line'),
        labelFormatter: (value) => `${dpc.short(value)} ${unit}`, textStyle: {color: dpc.color('--soft'), fontSize: 10}},
      {type: 'inside', xAxisIndex: 0, filterMode: 'weakFilter', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false},
    ],
    xAxis: dpc.axis({type: 'value', name: `time (${unit})`, nameGap: 24, min: 0, max: timeline.step_ticks * toUnit, splitLine: {show: false},
      axisLabel: {formatter: dpc.short, color: dpc.color('--soft'), fontSize: 11, showMaxLabel: false}}),
    yAxis: dpc.axis({type: 'category', inverse: true, data: timeline.stages.map((stage) => (timeline.stage_count > 1 ? `stage ${stage.stage}` : 'rank')),
      axisTick: {show: false}, axisLine: {show: false}, splitLine: {show: false}}),
    series: [
      seriesOf('idle', idle, dpc.color('--idle')),
      ...kinds.map((kind) => seriesOf(kind, rows.filter((row) => kindOf(row) === kind)
        .map(([row, begin, end, phase, microBatch]) => [row, begin * toUnit, end * toUnit, phase, microBatch]), colors[kind])),
    ],
  };
};

dpc.ganttTip = (timeline, [row, begin, end, phase, microBatch], toUnit) => {
  if (phase < 0) return 'idle';
  const stage = timeline.stages[row];
  const name = stage.phases[phase].name;
  const seconds = (value) => dpc.seconds(value / toUnit * timeline.tick_seconds);
  return `<b>${name}</b>${dpc.isInLoop(stage.phases[phase]) ? ` of micro-batch ${microBatch}` : ''}${timeline.stage_count > 1 ? `, stage ${stage.stage}` : ''}<br>` +
    `${seconds(begin)} to ${seconds(end)} (${seconds(end - begin)})`;
};

dpc.stageTable = (report) => {
  const stages = report.chosen.predicted.stages;
  const rows = stages.map((stage, number) => ({...stage, number}));
  return dpc.table('Stages: seconds of one micro-batch, idle seconds of the step', [
    {title: 'Stage', number: true, text: (row) => row.number, value: (row) => row.number},
    ...(stages[0].device ? [{title: 'Device', text: (row) => row.device}] : []),
    {title: 'Forward', number: true, text: (row) => dpc.seconds(row.forward_seconds), value: (row) => row.forward_seconds},
    {title: 'Backward', number: true, text: (row) => dpc.seconds(row.backward_seconds), value: (row) => row.backward_seconds},
    ...(stages.some((row) => row.weight_seconds > 0)
      ? [{title: 'Weight', number: true, text: (row) => dpc.seconds(row.weight_seconds), value: (row) => row.weight_seconds}] : []),
    {title: 'Idle', number: true, text: (row) => dpc.seconds(row.idle_seconds), value: (row) => row.idle_seconds},
    {title: 'Memory', number: true, text: (row) => dpc.bytes(row.memory_bytes), value: (row) => row.memory_bytes},
  ], rows);
};

// Shows the instructions of each phase by queue, and how much communication is hidden.
dpc.anatomy = (report, timeline) => {
  const section = dpc.section('phases', 'Inside a micro-batch',
    dpc.el('p', {class: 'note'}, 'Computation and communication of a stage’s phases, one after the other. Communication below a gap of the computation is exposed, the rest is hidden.'));
  const stages = dpc.el('select', {'aria-label': 'Stage'},
    timeline.stages.map((stage, row) => dpc.el('option', {value: row}, `stage ${stage.stage}`)));
  const phases = dpc.el('select', {'aria-label': 'Phases'},
    dpc.el('option', {value: 'loop'}, 'of a micro-batch'), dpc.el('option', {value: 'all'}, 'all, with setup and update'));
  section.append(dpc.el('p', {class: 'controls'},
    timeline.stages.length > 1 ? dpc.el('label', {}, 'Stage ', stages) : null, dpc.el('label', {}, 'Phases ', phases)));
  const hasLoop = timeline.stages[0].phases.some((phase) => dpc.isInLoop(phase));
  const entry = dpc.chart(section, 250, 'Queues of a rank over its phases', () => {
    const stage = timeline.stages[Number(stages.value)];
    const wanted = phases.value === 'loop' && hasLoop ? stage.phases.filter(dpc.isInLoop) : stage.phases;
    return dpc.anatomyOption(timeline, wanted);
  });
  if (!entry) section.append(dpc.anatomyTable(timeline));
  for (const choice of entry ? [stages, phases] : []) choice.addEventListener('change', () => dpc.draw(entry));
};

dpc.isInLoop = (phase) => !['setup', 'update'].includes(dpc.phaseKind(phase.name));

dpc.queues = [['compute', 'compute'], ['communication', 'communication'], ['copy', 'host copies']];

// Returns the total length that the intervals [begin, end, ...] cover. Messages of a queue may overlap.
dpc.covered = (intervals) => {
  let sum = 0;
  let last = -Infinity;
  for (const [begin, end] of [...intervals].sort((a, b) => a[0] - b[0])) {
    sum += Math.max(0, end - Math.max(begin, last));
    last = Math.max(last, end);
  }
  return sum;
};

dpc.anatomyTable = (timeline) => {
  const busy = (phase, queue) => dpc.covered(phase[queue] || []) * timeline.tick_seconds;
  const rows = timeline.stages.flatMap((stage) => stage.phases.map((phase) => ({stage: stage.stage, phase})));
  return dpc.table('Busy seconds of a phase', [
    {title: 'Stage', number: true, text: (row) => row.stage},
    {title: 'Phase', text: (row) => row.phase.name},
    {title: 'All', number: true, text: (row) => dpc.seconds(row.phase.ticks * timeline.tick_seconds)},
    {title: 'Compute', number: true, text: (row) => dpc.seconds(busy(row.phase, 'compute'))},
    {title: 'Communication', number: true, text: (row) => dpc.seconds(busy(row.phase, 'communication'))},
  ], rows);
};

dpc.anatomyOption = (timeline, phases) => {
  const total = phases.reduce((sum, phase) => sum + phase.ticks, 0);
  const [scale, unit] = dpc.timeUnit(total * timeline.tick_seconds);
  const toUnit = timeline.tick_seconds * scale;
  const lanes = dpc.queues.filter(([key]) => phases.some((phase) => (phase[key] || []).length));
  const labels = ['computation', ...timeline.labels];
  const palette = ['--red', '--yellow', '--purple', '--green', '--cyan', '--gray'];
  const groups = new Map();
  const marks = [];
  let at = 0;
  for (const phase of phases) {
    if (phase.ticks * 60 > total) marks.push([phase.name, at * toUnit]);
    lanes.forEach(([key], lane) => {
      for (const [begin, end, label] of phase[key] || []) {
        const name = labels[label === undefined ? 0 : label + 1];
        if (!groups.has(name)) groups.set(name, []);
        groups.get(name).push([lane, (at + begin) * toUnit, (at + end) * toUnit, phase.name]);
      }
    });
    at += phase.ticks;
  }
  const draw = (params, api) => {
    const [x0, y] = api.coord([api.value(1), api.value(0)]);
    const [x1] = api.coord([api.value(2), api.value(0)]);
    const height = api.size([0, 1])[1] * 0.6;
    const area = params.coordSys;
    const shape = echarts.graphic.clipRectByRect({x: x0, y: y - height / 2, width: Math.max(x1 - x0, 0.5), height},
      {x: area.x, y: area.y, width: area.width, height: area.height});
    return shape && {type: 'rect', shape, style: {fill: api.visual('color')}};
  };
  const names = labels.filter((name) => groups.has(name)), hidden = names.filter((name) => name !== labels[0]);
  return {
    grid: {left: 104, right: 10, top: 62, bottom: 66},
    legend: dpc.legend({type: 'scroll', data: names}),
    tooltip: dpc.tooltip({formatter: (item) =>
      `<b>${item.seriesName}</b>, ${item.value[3]}<br>${dpc.seconds((item.value[2] - item.value[1]) / scale)}`}),
    dataZoom: [{type: 'slider', show: !dpc.isPrinting(), height: 16, bottom: 6, filterMode: 'weakFilter', borderColor: dpc.color('--line'),
      labelFormatter: (value) => `${dpc.short(value)} ${unit}`, textStyle: {color: dpc.color('--soft'), fontSize: 10}},
    {type: 'inside', filterMode: 'weakFilter', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false}],
    xAxis: dpc.axis({type: 'value', name: `time (${unit})`, nameGap: 22, min: 0, max: total * toUnit, splitLine: {show: false},
      axisLabel: {formatter: dpc.short, color: dpc.color('--soft'), fontSize: 11, showMaxLabel: false}}),
    yAxis: dpc.axis({type: 'category', inverse: true, data: lanes.map(([, title]) => title),
      axisTick: {show: false}, axisLine: {show: false}, splitLine: {show: false}}),
    series: names.map((name, index) => ({
      name, type: 'custom', renderItem: draw, data: groups.get(name), encode: {x: [1, 2], y: 0}, progressive: 0,
      itemStyle: {color: dpc.color(name === labels[0] ? '--blue' : palette[hidden.indexOf(name) % palette.length])},
      markLine: index ? undefined : {symbol: 'none', silent: true, data: dpc.phaseMarks(marks, total * toUnit, 'start')},
    })),
  };
};

dpc.memoryColors = {
  parameters: '--blue', gradients: '--cyan', optimizer: '--green', activations: '--yellow', workspace: '--red', communication: '--purple',
};

dpc.memory = (report) => {
  const chosen = report.chosen, detail = chosen && chosen.detail;
  if (!chosen) return;
  const bytes = chosen.predicted.memory_bytes, limit = dpc.limitOf(report);
  const section = dpc.section('memory', 'Memory of the fullest device');
  if (detail)
    section.append(dpc.el('p', {class: 'note'},
      `Over the phases of one micro-batch${detail.timeline.stage_count > 1 ? ` on stage ${detail.memory.stage}, with the frames of all micro-batches that are in flight` : ''}; the highest point is the predicted peak.`));
  if (detail) dpc.chart(section, 320, 'Memory over the step by category', () => dpc.memoryOption(detail, limit));
  section.append(dpc.table('At the peak', [
    {title: 'Category', text: (row) => row[0]},
    {title: 'Bytes', number: true, text: (row) => dpc.bytes(row[1])},
    {title: 'Share of the limit', number: true, text: (row) => dpc.percent(row[1] / limit)},
  ], [...Object.keys(dpc.memoryColors).map((name) => [name, bytes[name]]), ['all', bytes.peak], ['limit', limit]]));
};

dpc.memoryOption = (detail, limit) => {
  const memory = detail.memory, tick = detail.timeline.tick_seconds;
  const [timeScale, timeUnit] = dpc.timeUnit(memory.end * tick);
  const toUnit = tick * timeScale;
  const names = Object.keys(dpc.memoryColors).filter((name) => memory.bytes[name].some((value) => value > 0));
  // Each area is drawn from 0 to the sum of its values and those of all lower areas, which are drawn on top of it.
  const sums = [];
  for (const name of names)
    sums.push(memory.bytes[name].map((value, i) => value + (sums.length ? sums[sums.length - 1][i] : 0)));
  const peak = Math.max(...sums[sums.length - 1]);
  const nearLimit = limit < 2.5 * peak;
  const [scale, unit] = dpc.byteUnit(nearLimit ? limit : peak);
  return {
    grid: {left: 62, right: 14, top: 48, bottom: 44},
    legend: dpc.legend({data: names, icon: 'roundRect', selectedMode: false}),
    tooltip: dpc.tooltip({trigger: 'axis', formatter: (items) => {
      const i = items[0].dataIndex;
      return `${dpc.seconds(memory.at[i] * tick)}<br>` +
        items.map((item) => `${item.marker}${item.seriesName} ${dpc.bytes(memory.bytes[item.seriesName][i])}`).join('<br>') +
        `<br><b>all ${dpc.bytes(sums[sums.length - 1][i])}</b>`;
    }}),
    xAxis: dpc.axis({type: 'value', name: `time over the phases (${timeUnit})`, nameGap: 24, min: 0, max: memory.end * toUnit, splitLine: {show: false},
      axisLabel: {formatter: dpc.short, color: dpc.color('--soft'), fontSize: 11, showMaxLabel: false}}),
    yAxis: dpc.axis({type: 'value', name: unit, nameGap: 42, min: 0, max: (nearLimit ? Math.max(limit, peak) : peak) * 1.04 * scale,
      axisLabel: {formatter: dpc.short, color: dpc.color('--soft'), fontSize: 11, showMaxLabel: false}}),
    series: names.map((name, index) => ({
      name, type: 'line', step: 'end', symbol: 'none', z: names.length - index, silent: true, lineStyle: {width: 0},
      areaStyle: {color: dpc.color(dpc.memoryColors[name]), opacity: 1, origin: 'start'},
      itemStyle: {color: dpc.color(dpc.memoryColors[name])},
      data: memory.at.map((at, i) => [at * toUnit, sums[index][i] * scale]),
      markLine: index ? undefined : {symbol: 'none', silent: true, data: [
        ...(nearLimit ? [{yAxis: limit * scale, name: 'limit', lineStyle: {color: dpc.color('--bad'), type: 'dashed'},
          label: {formatter: 'limit', position: 'insideEndTop', color: dpc.color('--bad')}}] : []),
        ...dpc.phaseMarks(memory.phases.filter((phase, i) => ((memory.phases[i + 1] || {at: memory.end}).at - phase.at) * 40 > memory.end)
          .map((phase) => [phase.name, phase.at * toUnit]), memory.end * toUnit, 'end'),
      ]},
    })),
  };
};

dpc.traffic = (report) => {
  const chosen = report.chosen;
  if (!chosen) return;
  const levels = report.cluster.levels.map((level) => level.name);
  const total = chosen.predicted.bytes_per_level;
  const section = dpc.section('traffic', 'What travels over which links',
    dpc.table('Bytes that one rank sends in a step, of the stage that sends most', [
      {title: 'Level', text: (row) => row.name},
      {title: 'Kind', text: (row) => row.kind},
      {title: 'Bytes', number: true, text: (row) => dpc.bytes(total[row.name])},
      {title: 'At full bandwidth', number: true, text: (row) => dpc.seconds(total[row.name] / (row.gigabytes_per_second * 1e9))},
    ], report.cluster.levels));
  if (!chosen.detail) return;
  const rows = chosen.detail.traffic, busiest = dpc.busiestStage(rows);
  const isPipeline = chosen.detail.timeline.stage_count > 1;
  section.append(dpc.trafficTable(
    isPipeline ? `By what is sent, a rank of stage ${busiest}, which sends most` : 'By what is sent', levels,
    rows.filter((row) => row.stage === busiest)));
  if (isPipeline)
    section.append(dpc.folded('All stages', Infinity, dpc.trafficTable('By stage', levels, rows, true)));
};

dpc.busiestStage = (rows) => {
  const sums = new Map();
  for (const row of rows)
    sums.set(row.stage, (sums.get(row.stage) || 0) + Object.values(row.bytes_per_level).reduce((sum, bytes) => sum + bytes, 0));
  return [...sums].reduce((best, next) => (next[1] > best[1] ? next : best), [0, -1])[0];
};

dpc.trafficTable = (caption, levels, rows, showsStage) =>
  dpc.table(caption, [
    ...(showsStage ? [{title: 'Stage', number: true, text: (row) => row.stage, value: (row) => row.stage}] : []),
    {title: 'What', text: (row) => row.what.replaceAll('_', '-'), value: (row) => row.what},
    {title: 'Times', number: true, text: (row) => dpc.count(row.times), value: (row) => row.times},
    ...levels.map((level) => ({title: level, number: true, text: (row) => (row.bytes_per_level[level] ? dpc.bytes(row.bytes_per_level[level]) : '–'),
      value: (row) => row.bytes_per_level[level]})),
    {title: 'On the wire', number: true, text: (row) => dpc.seconds(row.seconds), value: (row) => row.seconds},
  ], rows);
