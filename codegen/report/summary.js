// Shows the chosen strategy, its predicted cost, and the alternatives.
'use strict';

dpc.devicesText = (cluster) =>
  cluster.groups.map((group) => `${dpc.count(group.nodes * group.devices_per_node)} × ${group.device}`).join(' and ');

dpc.header = (report) => {
  const chosen = report.chosen;
  const name = report.model.split('/').pop();
  document.title = `${name} on ${report.cluster.name}: dpc report`;
  document.getElementById('kicker').textContent =
    `dpc strategy report · ${dpc.large(report.parameters.count)} parameters, ${report.step.compute_type}, ` +
    `global batch ${dpc.count(report.step.global_batch)}` +
    `${report.loss_output ? `, trains the output ‘${report.loss_output}’` : ''}`;
  document.getElementById('software').textContent = report.software;
  document.getElementById('title').textContent =
    `${name} on ${report.cluster.name} (${dpc.devicesText(report.cluster)})`;
  const lead = document.getElementById('lead');
  if (!chosen) {
    lead.append(dpc.el('strong', {class: 'bad'}, 'No strategy can be executed. '),
      'The candidates say why.');
    return;
  }
  if (!chosen.fits) lead.append(dpc.el('strong', {class: 'bad'}, 'Does not fit: '));
  lead.append(`${dpc.strategySentence(chosen.strategy)}. `, dpc.strategyCell(chosen.strategy));
  const all = report.cluster.devices;
  if (chosen.devices < all) lead.append(` Uses ${dpc.count(chosen.devices)} of ${dpc.count(all)} devices.`);
  document.getElementById('figures').append(...dpc.figures(report));
};

dpc.figures = (report) => {
  const predicted = report.chosen.predicted;
  const limit = dpc.limitOf(report);
  const peak = predicted.memory_bytes.peak;
  const interval = predicted.interval;
  const figure = (title, value, note, kind) =>
    dpc.el('div', {}, dpc.el('dt', {}, title), dpc.el('dd', {class: kind}, value, dpc.el('small', {}, note)));
  return [
    figure('Predicted step time', dpc.seconds(predicted.step_seconds),
      `${dpc.count(report.step.tokens)} ${dpc.unitOf(report)} a step` +
      (interval ? `, 90 % interval ${dpc.range(interval.step_seconds, dpc.seconds)}` : '')),
    figure('Throughput', `${dpc.count(predicted.tokens_per_second)}`, `${dpc.unitOf(report)} a second, all devices`),
    figure('Model FLOP utilization', dpc.percent(predicted.mfu), 'of the devices’ peak'),
    figure('Peak memory', dpc.bytes(peak), `of ${dpc.bytes(limit)} on the fullest device (${dpc.percent(peak / limit)})` +
      (interval?.memory_bytes ? `, 90 % interval ${dpc.range(interval.memory_bytes, dpc.bytes)}: ${interval.memory_verdict}` : ''),
      peak > limit || (interval?.memory_verdict || 'fits') !== 'fits' ? 'bad' : undefined),
    figure('Exposed traffic', dpc.percent(predicted.exposed_communication_seconds / predicted.step_seconds),
      `${dpc.seconds(predicted.exposed_communication_seconds)} wait for communication`),
    figure('Pipeline bubble', dpc.percent(predicted.bubble_fraction), 'idle, mean over stages'),
  ];
};

// For a strategy read from a file, shows the strategy that a search finds.
dpc.better = (report) => {
  const better = report.better;
  if (!better) return;
  const section = dpc.section('better', 'What would be better', dpc.el('p', {}, better.strategy
    ? 'The plan above is what the file says. A search over all strategies finds '
    : `The plan above is what the file says: ${better.text}.`));
  if (!better.strategy) return;
  const saved = better.saved_seconds / report.chosen?.predicted.step_seconds;
  section.lastChild.append(dpc.strategyCell(better.strategy), `: ${dpc.seconds(better.step_seconds)} a step`,
    better.saved_seconds === undefined ? '' : dpc.el('strong', {class: saved >= 0 ? 'good' : 'bad'}, ` (${saved >= 0 ? '−' : '+'}${dpc.percent(Math.abs(saved))})`),
    `, ${dpc.bytes(better.memory_bytes)}, bound by ${better.binding_constraint}. ` +
    `${dpc.count(better.considered)} strategies were considered in ${dpc.seconds(better.search_seconds)}.`);
};

// Returns the unit in which the size of a sample is counted.
dpc.unitOf = (report) => report.step.unit || 'tokens';

// Returns the usable bytes of the device with the highest memory use.
dpc.limitOf = (report) => {
  const predicted = report.chosen.predicted;
  const stage = predicted.stages && report.chosen.detail &&
    predicted.stages[report.chosen.detail.memory.stage];
  return (stage && stage.usable_bytes) || report.cluster.usable_bytes_per_device;
};

// Divides the time of a step into computation, exposed communication and idle time, for the stage that computes longest.
dpc.sharesOf = (predicted) => {
  const compute = predicted.compute_seconds;
  const exposed = Math.min(predicted.exposed_communication_seconds, predicted.step_seconds - compute);
  return [
    ['computation', compute, '--blue'],
    ['exposed communication', Math.max(0, exposed), '--red'],
    ['idle (pipeline, host)', Math.max(0, predicted.step_seconds - compute - exposed), '--gray'],
  ];
};

dpc.boundBy = (report) => {
  const chosen = report.chosen;
  const section = dpc.section('why', 'What limits it',
    dpc.el('p', {}, 'The chosen plan is bound by ', dpc.el('strong', {}, chosen.binding_constraint),
      chosen.binding_detail ? `: ${chosen.binding_detail}. ` : '. ',
      chosen.idle ? `It uses ${dpc.count(chosen.devices)} of ${dpc.count(report.cluster.devices)} devices: ${chosen.idle}.` : ''));
  const shares = dpc.sharesOf(chosen.predicted);
  dpc.chart(section, 92, 'Shares of the step', () => dpc.sharesOption(shares, chosen.predicted.step_seconds));
  section.append(dpc.table('Seconds of a step, on the stage that computes most', [
    {title: 'Part', text: (row) => row[0]},
    {title: 'Seconds', number: true, text: (row) => dpc.seconds(row[1])},
    {title: 'Share', number: true, text: (row) => dpc.percent(row[1] / chosen.predicted.step_seconds)},
  ], shares));
};

dpc.baselineReason = (baseline, chosen) => {
  if (baseline.rejected) return dpc.el('span', {class: 'bad'}, `does not fit or run: ${baseline.rejected}`);
  if (baseline.skipped) return baseline.skipped;
  if (baseline.why) return baseline.why;
  return dpc.strategyText(baseline.strategy) === dpc.strategyText(chosen.strategy) ? 'is the chosen plan' : '';
};

dpc.baselines = (report) => {
  if (!report.baselines.length) return;
  const chosen = report.chosen;
  const section = dpc.section('baselines', 'Plans that everybody knows',
    dpc.el('p', {class: 'note'}, 'Evaluated by the same cost model; each with the one reason why it loses.'),
    dpc.table('Baselines', [
      {title: 'Baseline', text: (row) => row.name, value: (row) => row.name},
      {title: 'Strategy', class: 'strategy', text: (row) => dpc.strategyCell(row.strategy)},
      {title: 'Step', number: true, text: (row) => dpc.seconds(row.step_seconds), value: (row) => row.step_seconds},
      {title: 'Memory', number: true, text: (row) => dpc.bytes(row.memory_bytes && row.memory_bytes.peak),
        value: (row) => row.memory_bytes && row.memory_bytes.peak},
      {title: 'Estimate', text: (row) => row.method},
      {title: 'Why it is not chosen', text: (row) => dpc.baselineReason(row, chosen || {strategy: {}})},
    ], report.baselines));
  if (!chosen || !chosen.changes || chosen.changes.plans.length < 2) return;
  const plans = chosen.changes.plans;
  section.append(dpc.el('h3', {}, `From ${chosen.changes.from} to the chosen plan, change by change`),
    dpc.table('Each plan was evaluated', [
      {title: 'Change', class: 'strategy', text: (row) => dpc.el('code', {}, row.change)},
      {title: 'Step', number: true, text: (row) => dpc.seconds(row.step_seconds)},
      {title: 'Gain', number: true, text: (row) => dpc.gain(row, plans)},
      {title: 'Memory', number: true, text: (row) => dpc.bytes(row.memory_bytes)},
      {title: 'Fits', text: (row) => (row.fits ? 'yes' : dpc.el('span', {class: 'bad'}, 'no'))},
    ], plans));
};

dpc.gain = (row, plans) => {
  const index = plans.indexOf(row);
  if (index === 0) return '–';
  const gained = plans[index - 1].step_seconds - row.step_seconds;
  return gained >= 0
    ? dpc.el('span', {class: 'good'}, `−${dpc.seconds(gained)}`)
    : dpc.el('span', {class: 'bad'}, `+${dpc.seconds(-gained)}`);
};

dpc.whatIfs = (report) => {
  if (!report.what_if) {
    document.getElementById('why')?.append(dpc.el('p', {class: 'note'},
      'What one more node, twice the memory, half the bandwidth between nodes or longer sequences would bring: ',
      dpc.el('code', {}, 'dpc-opt --what-if'), ' searches again with each.'));
    return;
  }
  dpc.section('what-if', 'What if',
    dpc.el('p', {class: 'note'}, 'Each line is a search of its own on a changed cluster or model, by the same compiler.'),
    dpc.table('What would be chosen then', [
      {title: 'Change', text: (row) => row.change},
      {title: 'Strategy', class: 'strategy', text: (row) => (row.strategy ? dpc.strategyCell(row.strategy) : row.why)},
      {title: 'Step', number: true, text: (row) => dpc.seconds(row.step_seconds)},
      {title: `${dpc.unitOf(report) === 'samples' ? 'Samples' : 'Tokens'}/s`, number: true, text: (row) => (row.tokens_per_second ? dpc.count(row.tokens_per_second) : '–')},
      {title: 'Against chosen', number: true, text: (row) => dpc.relative(row.tokens_per_second, report)},
      {title: 'Memory', number: true, text: (row) => dpc.bytes(row.memory_bytes)},
      {title: 'Bound by', text: (row) => row.binding_constraint || '–'},
      {title: 'Idle devices', number: true, text: (row) => (row.strategy ? dpc.count(row.idle_devices) : '–')},
    ], report.what_if));
};

dpc.relative = (rate, report) => {
  if (!rate) return '–';
  const change = rate / report.chosen.predicted.tokens_per_second - 1;
  return dpc.el('span', {class: change >= 0 ? 'good' : 'bad'}, `${change >= 0 ? '+' : '−'}${dpc.percent(Math.abs(change))}`);
};

dpc.verification = (report) => {
  const seen = report.verification;
  if (seen.scope === 'none') {
    dpc.section('verification', 'What was verified',
      dpc.el('p', {}, dpc.el('strong', {}, 'Not verified against one device: '), `${seen.why}.`));
    return;
  }
  const isShrunk = seen.scope === 'shrunk';
  const section = dpc.section('verification', 'What was verified',
    dpc.el('p', {}, dpc.el('strong', {class: 'good'}, isShrunk ? 'Verified in shrunk form: ' : 'Verified: '),
      `${seen.ranks} ranks compute what one device computes, ` +
      `${dpc.count(seen.compared_outputs)} outputs and ${dpc.count(seen.compared_tensors)} parameters, buffers and optimizer states over two steps` +
      `${seen.in_fp32 ? ', in fp32' : ''}. The largest error is ${(100 * seen.tolerance_share).toPrecision(2)} % of its tolerance` +
      ` (${seen.output_error.toExponential(1)} of an output)` +
      `${seen.magnifies_rounding ? ', which is wider than usual: the model magnifies rounding as much on one device' : ''}. It took ${dpc.seconds(seen.seconds)}.`));
  if (!isShrunk) return;
  section.append(dpc.el('p', {}, 'The model is too large to run here. The same graph was run with ',
    [seen.shrunk.layers.map((layer) => `${layer.after} of ${layer.before} repeats of layers`),
      seen.shrunk.sizes.map((size) => `${size.after.join(' or ')} for ${dpc.count(size.before)}`)].flat().join(', '),
    ' under ', dpc.strategyCell(seen.strategy),
    seen.shrunk.keeps_layouts ? '; the layouts are those of the large model.' : '; the layouts are those of the small model.'));
};

dpc.notes = (report) => {
  const most = 100; // the longest list that is printed
  const names = (title, list) => list.length
    ? dpc.el('details', {class: list.length > most ? 'long' : undefined}, dpc.el('summary', {}, `${title} (${dpc.count(list.length)})`),
      dpc.el('ul', {}, list.map((name) => dpc.el('li', {}, dpc.el('code', {}, name)))))
    : null;
  dpc.section('notes', 'Remarks and parameters',
    report.remarks.length
      ? dpc.el('ul', {}, report.remarks.map((text) => dpc.el('li', {}, text)))
      : dpc.el('p', {class: 'note'}, 'No remarks.'),
    names('Trained parameters', report.parameters.trained), names('Frozen parameters', report.parameters.frozen));
  const search = report.search;
  document.getElementById('footer').textContent =
    `${dpc.count(search.considered)} strategies considered, ${dpc.count(search.pruned)} excluded by bounds` +
    `${search.skipped ? `, ${dpc.count(search.skipped)} not evaluated because others promised more` : ''}; ` +
    `searched for ${dpc.seconds(search.seconds)}. Predictions are of a simulated step; report.json holds all that is shown.`;
};
