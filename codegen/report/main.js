// Builds the page from its embedded report.
'use strict';

dpc.build = () => {
  const report = JSON.parse(document.getElementById('report').textContent);
  dpc.header(report);
  dpc.better(report);
  if (!dpc.hasCharts())
    document.getElementById('main').append(dpc.el('p', {class: 'bad'},
      'This report has tables only: dpc-opt was built without echarts.min.js, which draws its charts. tools/build fetches it into share/ of the build folder.'));
  if (report.chosen) {
    dpc.boundBy(report);
    dpc.mesh(report);
    dpc.schedule(report);
    dpc.memory(report);
    dpc.traffic(report);
    dpc.operators(report);
    dpc.measured(JSON.parse(document.getElementById('measured').textContent));
  }
  dpc.candidates(report);
  dpc.baselines(report);
  dpc.job(report);
  dpc.whatIfs(report);
  dpc.verification(report);
  dpc.notes(report);
  dpc.unfoldToPrint();
  if (dpc.hasCharts()) dpc.watchColors();
  document.documentElement.setAttribute('data-ready', 'true');
};

dpc.build();
