// Compares times measured by dpc-run --profile with predicted times.
'use strict';

dpc.difference = (row) => row.measured_seconds - (row.predicted_seconds || 0);

dpc.differenceText = (row) => {
  if (row.predicted_seconds === undefined) return '–';
  const difference = dpc.difference(row);
  return `${difference < 0 ? '−' : '+'}${dpc.seconds(Math.abs(difference))}`;
};

dpc.secondsColumns = () => [
  {title: 'Times', number: true, text: (row) => dpc.count(row.times), value: (row) => row.times},
  {title: 'Predicted', number: true, text: (row) => dpc.seconds(row.predicted_seconds), value: (row) => row.predicted_seconds},
  {title: 'Measured', number: true, text: (row) => dpc.seconds(row.measured_seconds), value: (row) => row.measured_seconds},
  {title: 'Difference', number: true, text: dpc.differenceText, value: (row) => Math.abs(dpc.difference(row))},
];

// `profile` is the content of profile.json in the plan folder, or null.
dpc.measured = (profile) => {
  if (!profile) return;
  const totals = [profile.step, ...profile.queues.map((row) => ({...row, name: `all of the ${row.name} queue`}))];
  dpc.section('measured', 'Predicted and measured',
    dpc.el('p', {class: 'note'}, `Mean of one rank and step, over ${dpc.count(profile.steps)} measured step${profile.steps > 1 ? 's' : ''} and ` +
      `${dpc.count(profile.ranks)} rank${profile.ranks > 1 ? 's' : ''}. Queues run beside each other; a measured collective waits for the slowest rank.` +
      (profile.predicted ? '' : ' The plan came without predictions (trace.json).')),
    dpc.table('The step', [{title: 'What', text: (row) => row.name}, ...dpc.secondsColumns()], totals),
    dpc.folded('Operators and collectives', profile.rows.length, dpc.table('Operators and collectives, those that differ most first', [
      {title: 'Name', text: (row) => dpc.el('code', {}, row.name), value: (row) => row.name},
      {title: 'Kind', text: (row) => row.op, value: (row) => row.op},
      {title: 'Queue', text: (row) => row.queue, value: (row) => row.queue},
      {title: 'Phase', text: (row) => row.phase, value: (row) => row.phase},
      ...dpc.secondsColumns(),
    ], profile.rows)));
};
