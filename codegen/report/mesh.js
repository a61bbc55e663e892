// Shows how the mesh axes are placed on the levels of the cluster.
'use strict';

dpc.axisColors = ['--blue', '--red', '--green', '--purple', '--yellow', '--cyan'];

// Returns the coordinates of a rank along the axes, innermost axis first.
dpc.coordinates = (rank, axes) => {
  const result = [];
  for (const axis of axes) {
    result.push(rank % axis.ranks);
    rank = Math.floor(rank / axis.ranks);
  }
  return result;
};

dpc.mesh = (report) => {
  const predicted = report.chosen && report.chosen.predicted;
  const axes = predicted && (predicted.placement || []).filter((axis) => axis.ranks > 1);
  if (!axes || !axes.length) return;
  const levels = report.cluster.levels;
  const columns = [
    {title: 'Axis, innermost first', text: (axis) => dpc.axisName(axis)},
    {title: 'Ranks', number: true, text: (axis) => dpc.count(axis.ranks)},
    ...levels.map((level) => ({
      title: `${level.name} (${dpc.short(level.gigabytes_per_second)} GB/s, ${dpc.short(level.latency_microseconds)} µs)`, number: true,
      text: (axis) => (axis.levels[level.name] ? `${axis.levels[level.name]} ranks` : '–'),
    })),
  ];
  const section = dpc.section('mesh', 'The mesh on the cluster',
    dpc.el('p', {class: 'note'}, 'Neighbours along an axis meet on the levels below. Bandwidth is per device and direction.'),
    dpc.table('Mesh axes by level of the cluster', columns, axes));
  const inner = levels[0].devices, total = report.chosen.devices;
  const unit = Math.min(inner, total, 16);
  const shown = Math.min(Math.ceil(total / inner), 4);
  const drawing = dpc.el('div', {class: 'mesh', role: 'img', 'aria-label': 'Ranks of the first units of the innermost level'});
  for (let i = 0; i < shown; ++i) drawing.append(dpc.meshUnit(i, inner, unit, total, axes, levels[0].name));
  const left = Math.ceil(total / inner) - shown;
  if (left > 0) drawing.append(dpc.el('span', {class: 'more'}, `and ${dpc.count(left)} more`));
  section.append(drawing);
};

dpc.meshUnit = (number, size, shown, total, axes, level) => {
  const devices = dpc.el('div', {class: 'devices'});
  for (let i = 0; i < shown && number * size + i < total; ++i) {
    const rank = number * size + i;
    const at = dpc.coordinates(rank, axes);
    // Ranks with the same color differ only in the innermost coordinate.
    const group = Math.floor(rank / axes[0].ranks);
    const color = dpc.axisColors[group % dpc.axisColors.length];
    devices.append(dpc.el('div', {class: 'device', style: `--c: var(${color})`, title: `rank ${rank}`},
      axes.slice(0, 3).map((axis, k) => `${axis.axis}${at[k]}`).join(' ')));
  }
  if (shown < Math.min(size, total)) devices.append(dpc.el('div', {class: 'device'}, `… ${size}`));
  return dpc.el('div', {class: 'unit'}, dpc.el('span', {}, `${level} ${number}`), devices);
};

dpc.axisName = (axis) => {
  const names = {
    dp: 'data', dpi: 'data, inside a shard group', tp: 'tensor', pp: 'pipeline', cp: 'context (sequence)', ep: 'expert',
  };
  const kind = names[axis.axis] || names[axis.axis.replace(/\d+$/, '')];
  return dpc.el('span', {}, dpc.el('code', {}, axis.axis), kind ? ` ${kind}` : '');
};

// Lists how operators are sharded.
dpc.operators = (report) => {
  const detail = report.chosen && report.chosen.detail;
  if (!detail || !detail.operators.length) return;
  dpc.section('operators', 'How operators are split',
    dpc.el('p', {class: 'note'}, 'Equal operators of all layers have one row. Brackets show the mesh axes that split each dimension of a tensor, ' +
      'or – if each rank has the whole dimension. Column parallel splits the result of a GEMM, row parallel its sum, so that the result is a partial sum.'),
    dpc.table('Operators with weights, and attention', [
      {title: 'Weight', class: 'nowrap', text: (row) => dpc.el('code', {}, row.name), value: (row) => row.name},
      {title: 'Alike', number: true, text: (row) => dpc.count(row.count), value: (row) => row.count},
      {title: 'Operator', text: (row) => row.op, value: (row) => row.op},
      {title: 'Split', text: (row) => row.kind, value: (row) => row.kind},
      {title: 'Shape', number: true, text: (row) => row.shape},
      {title: 'Kept as', class: 'nowrap', text: (row) => row.stored || '–'},
      {title: 'Used as', class: 'nowrap', text: (row) => row.used || '–'},
      {title: 'Result', text: (row) => row.result || '–'},
    ], detail.operators));
};
