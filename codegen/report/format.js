// Formats numbers with the units of the terminal report (cost-model/report/Report.h).
'use strict';
const dpc = {};

dpc.threeDigits = (value) => {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
};

dpc.bytes = (value) => {
  if (value === undefined || value === null) return '–';
  if (Math.abs(value) < 1024) return `${Math.round(value)} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  value /= 1024;
  while (Math.abs(value) >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${dpc.threeDigits(value)} ${units[unit]}`;
};

dpc.seconds = (value) => {
  if (value === undefined || value === null) return '–';
  const size = Math.abs(value);
  if (size >= 1 || size === 0) return `${dpc.threeDigits(value)} s`;
  if (size >= 1e-3) return `${dpc.threeDigits(value * 1e3)} ms`;
  return `${dpc.threeDigits(value * 1e6)} µs`;
};

dpc.percent = (fraction) => `${(100 * fraction).toFixed(1)} %`;

// 1234567 -> "1,234,567"
dpc.count = (value) => Math.round(value).toLocaleString('en-US');

// 405.85e9 -> "406 billion"
dpc.large = (value) => {
  for (const [size, name] of [[1e12, 'trillion'], [1e9, 'billion'], [1e6, 'million']])
    if (value >= size) return `${dpc.threeDigits(value / size)} ${name}`;
  return dpc.count(value);
};

// Returns a factor and a unit that make all numbers up to `most` easy to read on an axis.
dpc.timeUnit = (most) =>
  most >= 1 ? [1, 's'] : most >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
dpc.byteUnit = (most) => {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (most >= 1024 && unit + 1 < units.length) {
    most /= 1024;
    ++unit;
  }
  return [1 / 1024 ** unit, units[unit]];
};

// Formats a number on an axis.
dpc.short = (value) => String(Number(value.toPrecision(4)));

// Returns a degree as a number. A grid such as "2x2" gives the product.
dpc.degree = (value) =>
  String(value).split('x').reduce((product, part) => product * Number(part), 1);

// Formats a strategy like stringifyStrategy: only the keys that --strategy needs.
dpc.keys = JSON.parse(document.getElementById('keys').textContent);
dpc.strategyText = (strategy) => {
  const isNeutral = (key) => dpc.keys.some(({name, neutral}) => name === key && strategy[key] === neutral);
  return dpc.keys
    .filter(({name, needs, printed}) =>
      name in strategy && (printed || !isNeutral(name)) && !(needs && isNeutral(needs)))
    .map(({name}) => `${name}=${strategy[name]}`)
    .join(',');
};

// Describes a strategy in words.
dpc.strategySentence = (strategy) => {
  const parts = [];
  const ways = (degree, what) => {
    if (dpc.degree(degree) > 1) parts.push(`${degree}-way ${what}`);
  };
  ways(strategy.dp, 'data');
  ways(strategy.tp, 'tensor');
  ways(strategy.cp, strategy.cp_kind === 'ring' ? 'context (ring)' : 'context (Ulysses)');
  ways(strategy.ep, 'expert');
  let text = parts.length ? `${parts.join(' × ')} parallelism` : 'no split of tensors';
  if (strategy.pp > 1)
    text += `${parts.length ? ' ×' : ','} a pipeline of ${strategy.pp} stages` +
      (strategy.vpp > 1 ? ` with ${strategy.vpp} chunks each` : '') + ` (${strategy.schedule})`;
  const more = [];
  if (strategy.sp) more.push('sequence parallelism between blocks');
  if (strategy.zero > 0)
    more.push(`ZeRO-${strategy.zero}` + (strategy.hybrid_shard > 1 ? ` within groups of ${strategy.hybrid_shard}` : ''));
  more.push(strategy.recompute === 'none' ? 'no recomputation' : `${strategy.recompute} recomputation`);
  if (strategy.offload !== 'none') more.push(`${strategy.offload} offloaded to ${strategy.offload_to}`);
  if (strategy.micro_batch > 0)
    more.push(`micro-batches of ${strategy.micro_batch} sample${strategy.micro_batch > 1 ? 's' : ''} per data-parallel rank`);
  return `${text}; ${more.join(', ')}`;
};

// Creates an element: dpc.el('td', {class: 'number'}, 'text', child, ...)
dpc.el = (name, attributes, ...children) => {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {}))
    if (value !== undefined && value !== null && value !== false) element.setAttribute(key, value);
  for (const child of children.flat())
    if (child !== undefined && child !== null) element.append(child);
  return element;
};

// Creates a section and links to it from the contents.
dpc.section = (id, title, ...children) => {
  document.getElementById('contents').append(dpc.el('a', {href: `#${id}`}, title));
  const section = dpc.el('section', {id, 'aria-labelledby': `${id}-title`},
    dpc.el('h2', {id: `${id}-title`}, title), ...children);
  document.getElementById('main').append(section);
  return section;
};
