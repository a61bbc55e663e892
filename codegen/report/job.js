// Shows the cost of the whole job, the answer to a deadline, and other clusters.
'use strict';

dpc.duration = (seconds) => {
  if (seconds === undefined || seconds === null) return '–';
  for (const [unit, name] of [[86400, 'days'], [3600, 'h'], [60, 'min']])
    if (seconds >= unit) return `${dpc.threeDigits(seconds / unit)} ${name}`;
  return `${dpc.threeDigits(seconds)} s`;
};

// "36.1 to 52.3 days"
dpc.range = (interval, format) => !interval ? '–' : `${format(interval[0])} to ${format(interval[1])}`;

dpc.energy = (joules) => (joules ? `${dpc.count(joules / 3.6e6)} kWh` : '–');

dpc.job = (report) => {
  const job = report.job;
  if (job) {
    const rows = [
      [`${dpc.unitOf(report) === 'samples' ? 'Samples' : 'Tokens'}`, dpc.large(job.tokens)],
      ['Steps', dpc.count(job.steps)],
      ['Time', dpc.duration(job.seconds)],
      ['90 % interval of the time', dpc.range(job.seconds_interval, dpc.duration)],
      ['Device-hours', job.device_hours === undefined ? '–' : dpc.count(job.device_hours)],
      ['Price', job.price === undefined ? '–' : dpc.count(job.price)],
      ['Energy of the devices at their board power', dpc.energy(job.joules_at_most)],
      ['Goodput: the share of the time in which steps make progress', job.goodput === undefined ? '–' : dpc.percent(job.goodput)],
    ];
    if (job.checkpoint_interval_seconds)
      rows.push(['Mean time between failures of the job', dpc.duration(job.seconds_between_failures)],
        ['Restart after a failure', dpc.duration(job.restart_seconds)],
        ['Checkpoint', dpc.duration(job.checkpoint_seconds)],
        ['Steps between checkpoints take', dpc.duration(job.checkpoint_interval_seconds)]);
    dpc.section('job', 'The whole job', dpc.table(`On ${dpc.count(job.devices)} devices`,
      [{title: 'What', text: (row) => row[0]}, {title: 'How much', text: (row) => row[1]}], rows));
  }
  if (report.deadline)
    dpc.section('deadline', `Within ${dpc.duration(report.deadline.deadline_seconds)}`, dpc.el('p', {}, report.deadline.why ||
      `The smallest cluster has ${dpc.count(report.deadline.nodes)} nodes with ${dpc.count(report.deadline.devices)} devices ` +
      `and takes ${dpc.duration(report.deadline.job.seconds)}. Its plan is `,
    report.deadline.strategy ? dpc.strategyCell(report.deadline.strategy) : ''));
  if (report.clusters) dpc.clusters(report);
};

dpc.clusters = (report) => {
  const columns = [
    {title: 'Cluster', text: (row) => row.cluster},
    {title: 'Devices', number: true, value: (row) => row.devices, text: (row) => dpc.count(row.devices)},
    {title: 'Strategy', class: 'strategy', text: (row) => (row.strategy ? dpc.strategyCell(row.strategy) : row.why)},
    {title: 'Step', number: true, value: (row) => row.step_seconds, text: (row) => dpc.seconds(row.step_seconds)},
    {title: `${dpc.unitOf(report) === 'samples' ? 'Samples' : 'Tokens'}/s`, number: true, value: (row) => row.tokens_per_second, text: (row) => (row.tokens_per_second ? dpc.count(row.tokens_per_second) : '–')},
  ];
  if (report.clusters.some((row) => row.job))
    columns.push({title: 'Job', number: true, value: (row) => row.job && row.job.seconds, text: (row) => dpc.duration(row.job && row.job.seconds)},
      {title: 'Device-hours', number: true, value: (row) => row.job && row.job.device_hours, text: (row) => (row.job && row.job.device_hours !== undefined ? dpc.count(row.job.device_hours) : '–')},
      {title: 'Energy', number: true, value: (row) => row.job && row.job.joules_at_most, text: (row) => dpc.energy(row.job && row.job.joules_at_most)});
  if (report.clusters.some((row) => row.job && row.job.price !== undefined))
    columns.push({title: 'Price', number: true, value: (row) => row.job && row.job.price, text: (row) => (row.job && row.job.price !== undefined ? dpc.count(row.job.price) : '–')});
  dpc.section('clusters', 'Clusters', dpc.table('What would be chosen on each', columns, report.clusters));
};
